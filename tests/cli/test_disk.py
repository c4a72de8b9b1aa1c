"""`bursar top disk` and `bursar agent quota-check` on the command line, without a cluster."""

import http.server
import json
import threading
from contextlib import contextmanager

import pytest

from bursar.app.storage.document import node_document
from bursar.app.storage.report import GrowthHistory, NodeFacts, node_report
from bursar.cli.storage.view import node_rows, pod_rows, size, time_left
from bursar.core.storage.pressure import Filesystem, parse_thresholds
from support.nodes.storage import a_disk_use, a_storage_pod
from support.processes.command_line import run_bursar

GIB = 2**30


def a_document(**fields):
    over = a_storage_pod("over", volumes=["cache=1Mi"])
    calm = a_storage_pod("calm", limit="1Gi", request="10Mi")
    facts = NodeFacts(
        node="n1",
        at_ms=0,
        pods=[over, calm],
        disk={over.uid: a_disk_use(cache=2**21), calm.uid: a_disk_use(logs=4096)},
        nodefs=Filesystem(capacity=100 * GIB, available=50 * GIB),
        thresholds=parse_thresholds("nodefs.available<10%"),
    )
    return {**node_document(node_report(facts, GrowthHistory())), **fields}


@contextmanager
def an_agent(body, status=200):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


# ------------------------------------------------------------------ the table


def test_sizes_have_two_digits_and_times_one_unit():
    assert [size(each) for each in (0, 9000, 12_345_678, -20_000, None)] == [
        "0",
        "9000",
        "11Mi",
        "-19Ki",
        "-",
    ]
    assert [time_left(each) for each in (0, 59, 3_700, 200_000, None)] == [
        "now",
        "59s",
        "61m",
        "55h",
        "-",
    ]


def test_a_pod_over_its_limit_has_the_kubelets_reason():
    over, calm = pod_rows([a_document()], "")
    assert over[:4] == ("n1", "shop", "over", ">=2048Ki")
    assert over[-1] == 'now: Usage of EmptyDir volume "cache" exceeds the limit "1Mi".'
    assert calm[-1] == "-"
    assert list(pod_rows([a_document()], "other")) == []


def test_a_node_under_pressure_is_named():
    signals = [
        {"signal": "nodefs.available", "met": False, "secondsLeft": 90},
        {"signal": "imagefs.available", "met": False, "secondsLeft": None},
    ]
    [row] = node_rows([a_document(signals=signals)])
    assert row == ("n1", "100Gi", "50Gi", "-", "10Mi", "in 90s: nodefs.available")
    signals[1]["met"] = True
    [row] = node_rows([a_document(signals=signals, filesystem=None)])
    assert row[-1] == "now: imagefs.available"


# ------------------------------------------------------------------ the commands


def test_the_report_of_an_agent_is_printed_and_checked():
    with an_agent(json.dumps(a_document(problem="kubelet: 403")).encode()) as address:
        ended = run_bursar("top", "disk", f"--agent={address}", "--check")
        as_json = run_bursar("top", "disk", f"--agent=http://{address}", "-o", "json", "-n", "no")
    assert ended.code == 1
    assert ended.out.splitlines()[1].split()[:3] == ["n1", "shop", "over"]
    assert ended.err == "bursar: n1: kubelet: 403\n"
    assert as_json.code == 0
    assert json.loads(as_json.out)[0]["pods"] == []


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"not ready", 503, "503: not ready"),
        (b"[]", 200, "the answer is not an agent's"),
        (b'{"node": "n1"}', 200, "the answer is not an agent's"),
    ],
)
def test_another_answer_is_refused_in_one_line(body, status, text):
    with an_agent(body, status) as address:
        ended = run_bursar("top", "disk", f"--agent={address}")
    assert (ended.code, ended.out) == (2, "")
    assert text in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("top", "disk", "--agent=127.0.0.1:1"),
        ("top", "disk", "--agent=https://node:9479"),
        ("top", "disk", "--agent=127.0.0.1:1", "--node=n1"),
        ("top", "disk", "--eviction-hard=nodefs.available"),
        ("agent", "quota-check", "/nowhere"),
        ("agent", "--disk-interval=5s"),
        ("agent", "--disk", "--disk-interval=10ms"),
        ("agent", "--disk", "--eviction-hard=nodefs.available"),
    ],
)
def test_bad_input_is_refused(arguments):
    assert run_bursar(*arguments).code == 2


@pytest.mark.parametrize("verb", [("agent", "--disk"), ("top", "disk")])
def test_a_threshold_that_cannot_be_read_is_named_with_its_option(verb):
    ended = run_bursar(*verb, "--eviction-hard=nodefs.available<lots")
    assert (ended.code, ended.out) == (2, "")
    assert "'--eviction-hard'" in ended.err
    assert "nodefs.available: quantities must match" in ended.err


def test_a_folder_of_another_filesystem_lacks_project_quotas():
    ended = run_bursar("agent", "quota-check", "/proc", "-o", "json")
    assert ended.code == 1
    [found] = json.loads(ended.out)
    assert (found["works"], found["missing"][0]["what"]) == (False, "filesystem")


def test_a_check_of_several_folders_is_also_a_table():
    ended = run_bursar("agent", "quota-check", "/proc", "/sys", "-o", "csv")
    assert ended.code == 1
    head, *rows = ended.out.splitlines()
    assert head == "FOLDER,FILESYSTEM,MOUNT,WORKS,MISSING"
    assert [row.split(",")[0] for row in rows] == ["/proc", "/sys"]
    assert [row.split(",")[1] for row in rows] == ["proc", "sysfs"]
