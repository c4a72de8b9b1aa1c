"""`bursar queue` as a user meets it, with files."""

import json

import pytest

from support.builders.manifests import arq_manifest, namespace_manifest, pod_manifest
from support.processes.command_line import run_bursar

GATE = "ApplicationAwareQuotaGate"
GATED = {"application-aware-quota/enable-gating": ""}
FUTURE = "2999-01-01T00:00:00Z"
"""Patience has not ended for pods that are not created yet, so small ones may pass."""


def memory_pod(where, memory, *gates, created=FUTURE, priority=0):
    facts = {"metadata": {"creationTimestamp": created}, "priority": priority}
    return pod_manifest(where, *gates, requests=f"memory={memory}", **facts)


def a_quota(where, memory):
    return arq_manifest(where, {"memory": memory})


SCENE = [
    *(namespace_manifest(name, **GATED) for name in ("shop", "lab")),
    a_quota("shop/team-a", "1Gi"),
    memory_pod("shop/runs", "624Mi"),
    memory_pod("shop/fits", "10Mi", GATE, priority=1),
    memory_pod("shop/first", "490Mi", GATE),
    memory_pod("shop/second", "500Mi", GATE),
    memory_pod("shop/third", "2Gi", GATE),
    memory_pod("shop/two-gates", "1Mi", GATE, "theirs"),
    memory_pod("lab/free", "1Mi", GATE),
]


def queued(*arguments, scene=SCENE):
    return run_bursar(
        "queue", "-f", "-", *arguments, stdin="\n---\n".join(map(json.dumps, scene)).encode()
    )


def listed(*arguments, scene=SCENE):
    ran = queued(*arguments, "-o", "json", scene=scene)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_the_wide_table_says_what_each_lacks_and_who_is_ahead():
    ran = queued("-o", "wide")

    assert (ran.code, ran.err) == (0, "")
    heading, *rows = [line.split("   ") for line in ran.out.splitlines()]
    assert [cell.strip() for cell in heading if cell] == [
        *("POSITION", "NAMESPACE", "POD", "PRIORITY", "AGE", "REASON", "LACKS", "QUOTA", "AHEAD"),
        "COUNTED AS",
    ]
    assert [tuple(cell.strip() for cell in row if cell.strip()) for row in rows] == [
        ("1", "shop", "fits", "1", AGE, "released soon", *("-" * 4)),
        ("2", "lab", "free", "0", AGE, "released soon", *("-" * 4)),
        ("3", "shop", "first", "0", AGE, "QuotaExceeded", "memory 100Mi", TEAM, "-", "-"),
        ("4", "shop", "second", "0", AGE, "QuotaExceeded", "memory 110Mi", TEAM, FIRST[0], "-"),
        ("5", "shop", "third", "0", AGE, "QuotaTooSmall", "memory 1658Mi", TEAM, FIRST[1], "-"),
        ("6", "shop", "two-gates", "0", AGE, "OtherGates", *("-" * 4)),
    ]


def test_labels_and_fields_select_pods_and_leave_positions():
    front = {"metadata": {"labels": {"tier": "front"}}}
    scene = [*SCENE, pod_manifest("shop/web", GATE, requests="memory=1Gi", **front)]

    [web] = listed("-l", "tier=front", scene=scene)
    [second] = listed("--field-selector", "metadata.name=second", scene=scene)
    everything = {each["name"]: each["position"] for each in listed(scene=scene)}
    assert (web["name"], second["name"]) == ("web", "second")
    assert second["position"] == everything["second"] > 1


def test_a_lack_in_two_quotas_is_the_larger_one():
    scene = [*SCENE, a_quota("shop/team-b", "700Mi")]
    ran = queued("-o", "csv", "-n", "shop", "--sort-by", "position", scene=scene)

    assert '"team-a, team-b"' in ran.out
    assert "memory 434Mi" in ran.out


NATIVE = {"count/pods": "1", "pods": "1", "memory": "500Mi", "requests.memory": "500Mi"}
TEAM, AGE = "team-a", "<invalid>"
FIRST = ("1, first shop/first", "2, first shop/first")


def test_the_document_tells_all_of_it():
    second = listed()[3]

    assert second == {
        "position": 4,
        "namespace": "shop",
        "name": "second",
        "uid": "",
        "priority": 0,
        "created": FUTURE,
        "cost": [
            {
                "counter": "native",
                "reason": "requests and limits of the pod",
                "amounts": NATIVE,
            }
        ],
        "reason": "QuotaExceeded",
        "refusals": [
            {
                "reason": "QuotaExceeded",
                "quota": {
                    "kind": "ApplicationAwareResourceQuota",
                    "namespace": "shop",
                    "name": "team-a",
                },
                "shortages": [
                    {
                        "resource": "memory",
                        "requested": "500Mi",
                        "used": "634Mi",
                        "hard": "1Gi",
                        "missing": "110Mi",
                    }
                ],
                "message": "exceeded quota: team-a, requested: memory=500Mi, "
                "used: memory=634Mi, limited: memory=1Gi; missing: memory=110Mi",
            }
        ],
        "ahead": ["shop/first"],
        "aheadCount": 1,
    }


def test_a_pod_about_to_be_released_has_no_reason():
    fits = listed()[0]

    assert (fits["name"], fits["reason"], fits["refusals"]) == ("fits", None, [])


def test_a_namespace_narrows_what_is_shown_and_not_the_positions():
    assert [(pod["name"], pod["position"]) for pod in listed("-n", "lab")] == [("free", 2)]
    assert len(listed("-A")) == 6


def test_a_pod_that_does_not_say_when_it_was_created_has_no_age():
    scene = [namespace_manifest("shop", **GATED), memory_pod("shop/p", "1Mi", GATE, created=None)]

    assert listed(scene=scene)[0]["created"] is None
    assert "<unknown>" in queued(scene=scene).out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], None),
        (["--namespace-selector", "team"], "QuotaTooSmall"),
        (["--namespace-selector", "!none"], "QuotaTooSmall"),
    ],
    ids=str,
)
def test_pods_are_held_back_where_the_selector_says(arguments, reason):
    scene = [
        namespace_manifest("x", team=""),
        a_quota("x/q", "1Mi"),
        memory_pod("x/p", "2Mi", GATE),
    ]

    assert [pod["reason"] for pod in listed(*arguments, scene=scene)] == [reason]


def test_a_namespace_nobody_describes_holds_its_pods_back():
    scene = [a_quota("x/q", "1Mi"), memory_pod("x/p", "2Mi", GATE)]

    assert [pod["reason"] for pod in listed(scene=scene)] == ["QuotaTooSmall"]


def test_where_nobody_waits_that_is_said_and_the_document_is_empty():
    scene = [namespace_manifest("shop", **GATED), memory_pod("shop/runs", "1Mi")]
    ran = queued("-n", "shop", scene=scene)

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "bursar: no pod waits for a quota in namespace shop\n"
    assert listed(scene=scene) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "a", "-A"], "-n is for one namespace, -A for all"),
        (["--kubeconfig", "x"], "-f and -k read files; --kubeconfig and --context, a cluster"),
        (["--namespace-selector", "a b"], "bursar: --namespace-selector: "),
    ],
    ids=str,
)
def test_a_command_line_that_makes_no_sense_is_refused(arguments, message):
    ran = queued(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
