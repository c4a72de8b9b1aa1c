"""Completion of commands, options and values, by the protocols of the shells and of kubectl."""

import subprocess

import pytest

from bursar.cli.help.completing import ValueQuery, suggestions
from bursar.cli.help.shells import kubectl_answer, shell_answer
from support.processes.command_line import COMMAND, run_bursar

QUERIES: list[ValueQuery] = []


def find_values(query: ValueQuery) -> list[str]:
    QUERIES.append(query)
    return [f"{query.values}-1", f"{query.values}-2"]


def listed(*words: str) -> list[str]:
    """The suggestions for the last of the words."""
    QUERIES.clear()
    return [each.value for each in suggestions(words[:-1], words[-1], find_values).listed]


def test_verbs_and_commands_of_groups():
    assert listed("des") == ["describe"]
    assert listed("describe", "") == ["node", "pod", "quota"]
    assert listed("peerpod", "re") == ["rewrite"]
    assert "completion" in listed("")


def test_options_of_the_command_and_of_no_other():
    assert listed("queue", "--kube") == ["--kubeconfig"]
    assert listed("queue", "--names") == ["--namespace", "--namespace-selector"]
    assert listed("quantity", "--kube") == []
    assert {"-h", "--help", "-V", "--version"} <= set(listed("-"))


def test_an_option_is_suggested_once_unless_it_can_be_repeated():
    assert listed("queue", "--context", "a", "--cont") == []
    assert listed("queue", "-n", "a", "--namespace") == ["--namespace-selector"]
    assert listed("queue", "-f", "a", "--file") == ["--filename"]


@pytest.mark.parametrize(
    "words",
    [
        ("queue", "-o", ""),
        ("queue", "--output", ""),
        ("queue", "--output", "="),
        ("queue", "--output", "=", ""),
    ],
)
def test_choices(words):
    assert listed(*words)[:2] == ["table", "wide"]


def test_a_value_behind_an_equals_sign_is_suggested_with_its_option():
    assert listed("queue", "--output=js") == ["--output=json"]
    assert listed("queue", "--context=") == ["--context=contexts-1", "--context=contexts-2"]
    assert listed("queue", "--nothing=") == []


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (("describe", "pod", "-f", ""), "files"),
        (("quantity", "--kubeconfig", "/"), ""),
        (("queue", "--kubeconfig", "/"), "files"),
        (("examples", "copy", "queue", ""), "folders"),
    ],
)
def test_paths_are_left_to_the_shell(words, paths):
    assert suggestions(words[:-1], words[-1], find_values).paths == paths


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (("queue", "--context", ""), ValueQuery("contexts", None, "", None)),
        (
            ("queue", "--kubeconfig", "k", "--context", "c", "-n", ""),
            ValueQuery("namespaces", "k", "c", None),
        ),
        (("explain", "pod", "-n", "shop", ""), ValueQuery("pods", None, "", "shop")),
        (("explain", "pod", "-nshop", ""), ValueQuery("pods", None, "", "shop")),
        (("explain", "pod", "--namespace=shop", "--", ""), ValueQuery("pods", None, "", "shop")),
        (("describe", "node", ""), ValueQuery("nodes", None, "", None)),
        (("describe", "quota", ""), ValueQuery("quotas", None, "", None)),
        (("describe", "no", ""), ValueQuery("nodes", None, "", None)),
        (("explain", "pods", "-n", "shop", ""), ValueQuery("pods", None, "", "shop")),
        (("release", "web-0", "-A", ""), ValueQuery("pods", None, "", None)),
    ],
)
def test_values_of_a_cluster(words, query):
    assert listed(*words) == [f"{query.values}-1", f"{query.values}-2"]
    assert [query] == QUERIES


def test_one_name_is_enough_for_a_command_that_takes_one():
    assert listed("explain", "pod", "web-0", "") == []
    assert listed("nothing", "") == []


# ------------------------------------------------------------------ shells


def in_shell(shell: str, words: str, position: str) -> str:
    return shell_answer(
        {"_BURSAR_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": position}
    )


def test_bash_reads_types_and_values():
    assert in_shell("bash", "bursar\ndescribe\n", "2") == "plain,node\nplain,pod\nplain,quota\n"
    assert in_shell("bash", "bursar\nqueue\n-f\nex", "3") == "file,ex\n"
    assert in_shell("bash", "bursar\nqueue\n-n\n'a b'\n--cont", "4") == "plain,--context\n"
    assert in_shell("bash", "bursar\nqueue\n-n\n'a b", "3") == ""


def test_zsh_reads_three_lines_for_each():
    answer = in_shell("zsh", "bursar qua", "1")

    assert answer == "plain\nquantity\nParse, compare and add quantities as Kubernetes does.\n"
    assert in_shell("zsh", "bursar completion z", "2") == "plain\nzsh\n_\n"


def test_fish_gives_the_incomplete_word_itself():
    assert in_shell("fish", "bursar completion f", "f") == "plain,fish\n"
    assert in_shell("fish", "bursar describe ", "").splitlines()[0].startswith("plain,node\tShow")


def test_kubectl_reads_what_cobra_would_print():
    assert kubectl_answer(["completion", "z"]) == "zsh\n:4\n"
    assert kubectl_answer(["queue", "-f", ""]) == ":0\n"
    assert kubectl_answer(["examples", "copy", "queue", ""]) == ":16\n"
    assert kubectl_answer(["qua"]).startswith("quantity\tParse")
    assert "describe\t" in kubectl_answer([])


# ------------------------------------------------------------------ kubeconfigs and clusters

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: first
clusters:
- name: here
  cluster: {server: "http://127.0.0.1:1"}
contexts:
- name: first
  context: {cluster: here}
- name: "fi:rst"
  context: {cluster: here}
- name: second
  context: {cluster: here}
"""


def completed(*words: str, **environment: str) -> tuple[str, str]:
    ran = run_bursar(
        _BURSAR_COMPLETE="bash_complete",
        COMP_WORDS="\n".join(["bursar", *words]),
        COMP_CWORD=str(len(words)),
        **environment,
    )
    assert ran.code == 0
    return ran.out, ran.err


def test_contexts_are_those_of_the_kubeconfig(tmp_path):
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)

    assert completed("queue", "--context", "f", KUBECONFIG=str(path)) == (
        "plain,fi:rst\nplain,first\n",
        "",
    )
    assert completed("queue", "--kubeconfig", str(path), "--context", "s", KUBECONFIG="/none") == (
        "plain,second\n",
        "",
    )


@pytest.mark.parametrize("words", [("queue", "-n", ""), ("explain", "pod", "")])
def test_a_cluster_that_does_not_answer_is_no_error(words, tmp_path):
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)

    assert completed(*words, KUBECONFIG=str(path)) == ("", "")
    assert completed(*words, KUBECONFIG="/none") == ("", "")
    path.write_text("{")
    assert completed("queue", "--context", "", KUBECONFIG=str(path)) == ("", "")


def test_bash_completes_options_with_the_printed_script():
    script = (
        f'PATH="{COMMAND.parent}:$PATH"; eval "$(bursar completion bash)"; '
        "COMP_WORDS=(bursar describe pod --na); COMP_CWORD=3; "
        '_bursar_completion bursar; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.split() == ["--namespace"], done.stderr
