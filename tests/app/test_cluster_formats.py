"""What Bursar stores in a cluster can be read by the version before and the version after.

`tests/golden/cluster-formats` has a file for each version whose formats differ from those of the
version before. A version must read all of them, and the present one must write the newest. If this
test fails because a format has changed after a release, add a file for the new version, and see
docs/reference/upgrades.md for what may change.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.capacity.node_patch import _text
from bursar.app.cluster.election.lease import LeaseRecord, decode_lease, new_lease
from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES
from bursar.app.cluster.ports import Key
from bursar.app.controller.queue_limit import _names_in, full_text
from bursar.app.names import ADDRESS_ANNOTATION, FULL_QUEUES_ANNOTATION, GATING_ACTIVE
from bursar.app.names import GATING_ANNOTATION as GATING
from bursar.app.quota.growth.promise_record import LIST, TERM, PromiseRecord
from bursar.app.quota.managed.names import managed_key, owner_key
from bursar.app.quota.managed.writer import managed_spec
from bursar.app.quota.status_document import (
    QuotaProblems,
    is_owned,
    owned_metadata,
    wanted_conditions,
    wanted_status,
)
from bursar.core.model.pod import ResourceRequirements
from bursar.core.peerpods.record import Record
from bursar.core.peerpods.sizing import ContainerKind, ContainerResources, SizeTexts
from bursar.core.quota.growth.promises import RecordedPromise
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import (
    NamespaceSelector,
    Quota,
    QuotaKey,
    QuotaKind,
    QuotaObject,
    Reported,
)
from bursar.core.quota.views.queue import FullQueues
from bursar.core.quota.views.statement import Statement
from bursar.wire.capacity import decode_capacity_node
from bursar.wire.cluster.annotations import decode_annotation
from bursar.wire.peerpods.record import format_record, parse_record
from bursar.wire.quota.objects import decode_quota
from bursar.wire.quota.resize_promises import decode_promises, encode_promises
from support.builders.pods import parsed

FOLDER = Path(__file__).parents[1] / "golden" / "cluster-formats"
VERSIONS = {file.stem: json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json"))}
NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
LEASE = LeaseRecord(
    holder="pod-1_7_abcd",
    duration_seconds=15,
    acquire_time="2027-01-01T11:00:00.000000Z",
    renew_time="2027-01-01T12:00:00.000000Z",
    transitions=3,
)
PROMISES = (
    RecordedPromise(PodKey("blue", "web"), "u-1", 71, {"requests.cpu": 4 * 10**9}),
    RecordedPromise(PodKey("blue", "old"), "u-2", None, {"memory": 10**30}),
)
USED = Reported(hard=parsed("pods=5 services=3"), used=parsed("pods=1 services=2"))
OWNER = Quota(
    key=QuotaKey(QuotaKind.NAMESPACED, "blue", "q"), uid="u-q", hard=parsed("pods=5 services=3")
)
WIDE_SPEC = {"quota": {"hard": {"services": "3"}}, "selector": {"annotations": {"team": "sea"}}}
WIDE = Quota(
    key=QuotaKey(QuotaKind.CLUSTER, "", "wide"),
    uid="u-w",
    hard=parsed("services=3"),
    selector=NamespaceSelector(annotations={"team": "sea"}),
)
RECORD = Record(
    containers=(
        ContainerResources(
            name="main",
            kind=ContainerKind.CONTAINER,
            resources=ResourceRequirements(
                requests=parsed("cpu=500m memory=1Gi"), limits=parsed("cpu=1")
            ),
        ),
    ),
    size=SizeTexts(vcpus="1", memory="1024"),
    instance="small",
)


def status(kind, **namespaces):
    statement = Statement(total=USED, namespaces=namespaces)
    conditions = wanted_conditions(statement, QuotaProblems(), generation=2, before=[], now=NOW)
    return wanted_status(kind, statement, conditions)


def managed(owner):
    key = managed_key(owner.quota.key)
    metadata = {**owned_metadata(key.name, owner.quota), "namespace": key.namespace}
    return {"kind": key.kind.value, "metadata": metadata, "spec": managed_spec(owner)}


def present():
    """What this version writes."""
    lease = new_lease(Key("aaq", "aaq-controller"), LEASE)
    lease["metadata"]["annotations"] = {ADDRESS_ANNOTATION: "https://10.0.0.1:8443"}
    full = full_text(FullQueues(5, ("blue", "green")))
    return {
        "lease": lease,
        "service account": {
            "metadata": {"annotations": {GATING: GATING_ACTIVE, FULL_QUEUES_ANNOTATION: full}}
        },
        "resize promises": {"data": {TERM: "00ff", LIST: encode_promises(PROMISES)}},
        "status of a quota": status(QuotaKind.NAMESPACED),
        "status of a cluster quota": status(QuotaKind.CLUSTER, blue=USED),
        "managed ResourceQuota": managed(QuotaObject(quota=OWNER)),
        "managed ClusterResourceQuota": managed(QuotaObject(quota=WIDE, spec=WIDE_SPEC)),
        "peer pod": {
            "metadata": {"annotations": {"bursar.io/peerpod-removed": format_record(RECORD)}}
        },
        "node": {
            "metadata": {
                "name": "n",
                "annotations": {
                    "bursar.io/capacity-owner": _text({"kata.peerpods.io/vm": 4}),
                    "bursar.io/capacity": _text({"example.com/licence": 7}),
                },
            }
        },
    }


def with_news(value):
    """The same as a later version may write it, with fields that this one does not know."""
    if isinstance(value, dict):
        known = {key: with_news(each) for key, each in value.items()}
        is_map = all(isinstance(each, str) for each in value.values())
        return known if is_map else {**known, "fieldOfALaterVersion": {"a": [1]}}
    return [with_news(each) for each in value] if isinstance(value, list) else value


def test_this_version_writes_the_newest_formats():
    newest = max(VERSIONS, key=lambda name: tuple(map(int, name.split("."))))

    assert json.loads(json.dumps(present())) == VERSIONS[newest]


@pytest.fixture(params=[(name, is_news) for name in VERSIONS for is_news in (False, True)], ids=str)
def stored(request):
    """The records of each version, also with fields of later versions."""
    name, is_news = request.param
    found = VERSIONS[name]
    return {key: with_news(each) if is_news else each for key, each in found.items()}


def body(document, **more):
    return json.dumps({**document, **more}).encode()


def test_the_lease_says_who_leads_and_where(stored):
    lease = body(stored["lease"])

    assert decode_lease(lease).record == LEASE
    assert decode_annotation(lease, ADDRESS_ANNOTATION) == "https://10.0.0.1:8443"


def test_promises_of_resizes_are_read(stored):
    text = stored["resize promises"]["data"][LIST]
    news = json.dumps([{**each, "news": 1} for each in json.loads(text)])

    assert set(map(repr, decode_promises(text))) == set(map(repr, PROMISES))
    assert decode_promises(news) == decode_promises(text)


async def test_a_new_leader_takes_the_promises_over(stored):
    cluster = MemoryCluster(SYSTEM_CLOCK, source=Random(1))  # noqa: S311 - repeatable
    await cluster.create(NAMESPACES, {"metadata": {"name": "aaq"}})
    record = {"metadata": {"name": "bursar-resizes"}, "data": stored["resize promises"]["data"]}
    await cluster.create(CONFIG_MAPS, record, namespace="aaq")
    taken = PromiseRecord(
        cluster, SYSTEM_CLOCK, namespace="aaq", term="next", is_leader=lambda: True
    )

    assert sorted(each.pod for each in await taken.take_over()) == sorted(
        each.pod for each in PROMISES
    )


def test_the_service_account_says_whether_pods_are_gated_and_which_queues_are_full(stored):
    account = body(stored["service account"])

    assert decode_annotation(account, GATING) == GATING_ACTIVE
    assert _names_in(decode_annotation(account, FULL_QUEUES_ANNOTATION)) == ("blue", "green")


@pytest.mark.parametrize(
    ("kind", "record", "spec"),
    [
        (QuotaKind.NAMESPACED, "status of a quota", {"hard": {}}),
        (QuotaKind.CLUSTER, "status of a cluster quota", {"quota": {}, "selector": {}}),
    ],
)
def test_the_status_of_a_quota_is_read(stored, kind, record, spec):
    metadata = {"name": "q", "namespace": "" if kind is QuotaKind.CLUSTER else "blue"}
    read = decode_quota(kind, body({}, metadata=metadata, spec=spec, status=stored[record]))

    assert read.status_problem == ""
    assert (read.reported_hard, read.reported_used) == (USED.hard, USED.used)
    assert [each.type for each in read.reported_conditions] == ["Ready", "Exceeded"]


@pytest.mark.parametrize(
    ("record", "kind", "owner"),
    [
        ("managed ResourceQuota", QuotaKind.NATIVE, OWNER),
        ("managed ClusterResourceQuota", QuotaKind.OPENSHIFT, WIDE),
    ],
)
def test_a_managed_quota_is_recognised(stored, record, kind, owner):
    read = decode_quota(kind, body(stored[record]))

    assert owner_key(read.quota.key) == owner.key
    assert is_owned(read.labels, read.owner_uid, owner)
    assert read.quota.hard == parsed("services=3")


def test_the_record_of_a_peer_pod_is_read(stored):
    assert (
        parse_record(stored["peer pod"]["metadata"]["annotations"]["bursar.io/peerpod-removed"])
        == RECORD
    )


def test_the_capacity_of_a_node_is_read(stored):
    node = decode_capacity_node(body(stored["node"]))

    assert node.marked == {"kata.peerpods.io/vm": 4}
    assert node.override == {"example.com/licence": 7}
