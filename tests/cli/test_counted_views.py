"""`describe quota` and `queue` with a counter: who is charged what, by which counter, and why."""

import io
import json

import pytest

from bursar.adapters.files.manifests import read_manifests
from bursar.app.cluster.kinds import PODS
from bursar.cli.root import bursar
from bursar.wire.documents.json_writing import json_text
from support.builders.manifests import arq_manifest, pod_manifest
from support.counting.plan_counter import PLANS, SEATS, a_plan, plan_counting, with_plan

GATE = "ApplicationAwareQuotaGate"
HOSTILE = "gold\x1b[2J"
MANIFESTS = [
    arq_manifest("a/q", {SEATS: "5", "requests.cpu": "9", "requests.cpu/vmi": "1"}),
    pod_manifest("a/big", requests="cpu=1", metadata=with_plan(HOSTILE)),
    pod_manifest("a/lost", requests="cpu=2", metadata=with_plan("tin")),
    pod_manifest("a/plain", requests="cpu=4"),
    pod_manifest("a/waits", GATE, metadata=with_plan(HOSTILE)),
    a_plan(f"a/{HOSTILE}", 3),
]


class Views:
    """The composition root as views see it, with a counter of plans."""

    def counting(self, _settings):
        return plan_counting()


@pytest.fixture
def shown(tmp_path, capsys):
    path = tmp_path / "dump.json"

    def show(*arguments: str, manifests=MANIFESTS) -> str:
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
        code = bursar.main([*arguments, "-f", str(path)], obj=Views(), standalone_mode=False)
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return out

    return show


DESCRIBED = """\
Name:              q
Namespace:         a
Kind:              ApplicationAwareResourceQuota
Resource           Used  Hard  %    Reported
--------           ----  ----  -    --------
requests.cpu       6     9     66%  -
requests.cpu/vmi   0     1     0%   -  <- never counted
seats/plan         3     5     60%  -
Gating not known: a: the Namespace was not read
Not counted: requests.cpu/vmi: counted only with --vmi-mode
  DedicatedVirtualResources
Charges by counters:
  Pod     Counter  Amounts        Reason
  ---     -------  -------        ------
  a/big   plans    seats/plan=3   plan gold\\x1b[2J: 3 seats
  a/lost  plans    not known yet  there is no plan tin
  a/lost  -        requests.cpu=2  charged for the pod until then
"""


def test_a_quota_is_described_with_what_counters_charge_and_why(shown):
    out = shown("describe", "quota")

    assert [line.split() for line in out.splitlines()] == [
        line.split() for line in DESCRIBED.splitlines()
    ]


def test_the_document_of_a_quota_lists_every_part(shown):
    [quota] = json.loads(shown("describe", "quota", "-o", "json"))

    assert quota["notCounted"] == [
        {
            "resource": "requests.cpu/vmi",
            "message": "counted only with --vmi-mode DedicatedVirtualResources",
        }
    ]
    big, lost = quota["charges"]
    assert (big["namespace"], big["name"]) == ("a", "big")
    assert big["parts"] == [
        {"counter": "plans", "reason": f"plan {HOSTILE}: 3 seats", "amounts": {SEATS: "3"}}
    ]
    assert big["provisional"] is None
    assert lost["parts"][0]["amounts"] is None
    assert lost["provisional"] == {"requests.cpu": "2"}


def test_amounts_that_the_quota_does_not_limit_are_left_out(shown):
    seats_only = [arq_manifest("a/q", {SEATS: "5"}), *MANIFESTS[1:]]

    assert shown("describe", "quota", manifests=seats_only).splitlines()[-1].endswith("plan tin")
    [quota] = json.loads(shown("describe", "quota", "-o", "json", manifests=seats_only))
    assert quota["charges"][-1]["provisional"] == {}


def test_the_queue_says_how_a_pod_is_counted(shown):
    heading, row = shown("queue", "-o", "wide").splitlines()
    [pod] = json.loads(shown("queue", "-o", "json"))

    assert heading.endswith("COUNTED AS")
    assert row.endswith("plans: plan gold\\x1b[2J: 3 seats")
    assert pod["cost"] == [
        {"counter": "plans", "reason": f"plan {HOSTILE}: 3 seats", "amounts": {SEATS: "3"}}
    ]


def test_the_table_says_nothing_of_counters_unless_it_is_wide(shown):
    plain = [MANIFESTS[0], pod_manifest("a/waits", GATE)]

    assert "COUNTED AS" not in shown("queue", manifests=plain)


def test_of_many_pods_the_first_are_described_and_the_others_counted(shown):
    many = [pod_manifest(f"a/p{each:02}", metadata=with_plan("tin")) for each in range(23)]
    out = shown("describe", "quota", manifests=[*MANIFESTS[:1], *many, *MANIFESTS[-1:]])

    assert out.splitlines()[-1] == "  and 3 more pods; -o json lists all"


# ------------------------------------------------------------------ whole objects of files


def kept(*values):
    text = "\n---\n".join(map(json_text, values))
    return read_manifests(["-"], io.BytesIO(text.encode()), kept=[PODS, PLANS])


def test_objects_that_are_asked_for_are_kept_whole_and_not_passed_over():
    plan, other = a_plan("gold", 3), a_plan("x", 1) | {"kind": "Scheme"}
    manifests = kept(plan, other, pod_manifest("a/web"))

    [body] = manifests.bodies[PLANS]
    assert b'"kind":"Plan"' in body
    assert json.loads(body)["metadata"] == {"name": "gold", "namespace": "default"}
    assert len(manifests.bodies[PODS]) == len(manifests.pods) == 1
    assert manifests.skipped == (("Scheme.example.com", 1),)
