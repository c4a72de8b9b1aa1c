"""`bursar doctor`: what it finds in a cluster."""

import json
from datetime import UTC, datetime
from random import Random

import pytest

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.kinds import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.ports import ForbiddenError, NotFoundError, UnavailableError
from bursar.app.doctor.doctor import NAMED_MAX, Finding, Verdict, examine, version_findings
from bursar.app.doctor.versions import LOSSES, NEWEST, OLDEST
from bursar.app.names import CONTROLLER, GATING_WEBHOOKS, PROTECTION_WEBHOOKS
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.wire.cluster.server_version import ServerVersion
from support.virtual_time import MachineClock

HOME = "aaq"
NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
CUSTOM = (APPLICATION_QUOTAS, CLUSTER_QUOTAS)


class Patient:
    """A cluster in memory, as a server of some version, some of whose resources fail."""

    def __init__(self, minor: int = NEWEST) -> None:
        self.memory = MemoryCluster(MachineClock(), source=Random(1))  # noqa: S311 - a seed
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, *CUSTOM):
            self.memory.objects.kinds.add(Kind(resource=resource))
        self.answer: bytes | Exception = json.dumps({"major": "1", "minor": str(minor)}).encode()
        self.errors: dict[object, Exception] = {}

    async def version(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def get(self, resource, key):
        self._fail(resource)
        return await self.memory.get(resource, key)

    async def list(self, resource, *arguments, **options):
        self._fail(resource)
        return await self.memory.list(resource, *arguments, **options)

    def _fail(self, resource):
        if resource.kind in self.errors:
            raise self.errors[resource.kind]

    async def make(self, resource, name, *, namespace="", **fields):
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **fields,
        }
        await self.memory.create(resource, body, namespace=namespace)

    async def install(self, renewed="2027-01-01T11:59:58.123456Z"):
        await self.make(MUTATING_WEBHOOKS, GATING_WEBHOOKS, webhooks=[])
        await self.make(VALIDATING_WEBHOOKS, PROTECTION_WEBHOOKS, webhooks=[])
        active = {"annotations": {"bursar.io/gating": "active"}}
        await self.make(SERVICE_ACCOUNTS, CONTROLLER, namespace=HOME, metadata=active)
        lease = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": renewed}
        await self.make(LEASES, CONTROLLER, namespace=HOME, spec=lease)

    async def quota(self, name, *, is_ready):
        condition = {"type": "Ready", "status": "True" if is_ready else "False"}
        status = {"hard": {"pods": "1"}, "used": {"pods": "0"}, "conditions": [condition]}
        await self.make(
            APPLICATION_QUOTAS, name, namespace="a", spec={"hard": {"pods": "1"}}, status=status
        )

    async def findings(self):
        found = await examine(self, HOME, NOW)
        return {each.check: each for each in found if each.verdict is not Verdict.NOTE}


@pytest.fixture
async def patient():
    patient = Patient()
    for name in (HOME, "a"):
        await patient.make(NAMESPACES, name)
    return patient


async def test_a_good_installation_has_no_problem(patient):
    await patient.install()
    await patient.quota("one", is_ready=True)
    found = await patient.findings()

    assert {each.verdict for each in found.values()} == {Verdict.OK}
    assert list(found) == [
        *("server", "kinds", "gate", "protection", "activation", "leader", "quotas"),
    ]
    assert found["quotas"].text == "1 quotas are in force"
    assert found["leader"].text == "the Lease is held by pod-1"


async def test_a_leader_that_no_longer_renews_its_lease_is_a_problem(patient):
    await patient.install(renewed="2027-01-01T11:00:00.000000Z")
    found = (await patient.findings())["leader"]

    assert found.verdict is Verdict.PROBLEM
    assert found.text == "pod-1 has not renewed the Lease for 3600 s, so gated pods wait"


async def test_a_lease_without_a_time_is_not_judged(patient):
    await patient.install(renewed="soon")

    assert (await patient.findings())["leader"].verdict is Verdict.OK


async def test_an_empty_cluster_has_a_problem_with_advice_for_each_part(patient):
    found = await patient.findings()

    for check in ("gate", "protection", "activation", "leader"):
        assert found[check].verdict is Verdict.PROBLEM, check
        assert found[check].advice
    assert found["gate"].advice == "apply: bursar manifests policies"


async def test_on_older_servers_the_advice_is_the_webhook():
    found = await Patient(34).findings()
    assert found["gate"].advice == "apply: bursar manifests webhook webhooks"


async def test_a_gate_that_no_controller_has_switched_on_is_a_warning(patient):
    await patient.make(SERVICE_ACCOUNTS, CONTROLLER, namespace=HOME)
    assert (await patient.findings())["activation"].verdict is Verdict.WARNING


async def test_quotas_that_are_not_ready_are_named_up_to_a_number(patient):
    for number in range(NAMED_MAX + 2):
        await patient.quota(f"q{number}", is_ready=False)
    await patient.quota("good", is_ready=True)
    found = (await patient.findings())["quotas"]

    assert found.verdict is Verdict.WARNING
    assert found.text.startswith(f"{NAMED_MAX + 2} of {NAMED_MAX + 3} quotas are not ready: ")
    assert found.text.endswith(" and 2 more")


@pytest.mark.parametrize(
    ("missing", "verdict"),
    [
        ((CLUSTER_QUOTAS,), Verdict.NOTE),
        ((APPLICATION_QUOTAS, CLUSTER_QUOTAS), Verdict.PROBLEM),
    ],
)
async def test_kinds_that_are_not_defined_are_found(patient, missing, verdict):
    patient.errors = {each.kind: NotFoundError("unknown") for each in missing}
    [found] = [each for each in await examine(patient, HOME, NOW) if each.check == "kinds"]

    assert found.verdict is verdict
    assert all(each.kind in found.text for each in missing)


async def test_what_cannot_be_read_stops_no_other_check(patient):
    await patient.install()
    patient.answer = UnavailableError("no answer")
    patient.errors = {"Lease": ForbiddenError("not you")}
    found = await patient.findings()

    assert found["server"].verdict is found["leader"].verdict is Verdict.WARNING
    assert found["leader"].advice == "ask for the right to read it"
    assert found["quotas"].verdict is Verdict.OK


def test_each_version_is_judged():
    assert version_findings(ServerVersion(1, NEWEST, "")) == (
        Finding("server", Verdict.OK, f"Kubernetes 1.{NEWEST}"),
    )
    [old] = version_findings(ServerVersion(1, OLDEST - 1, ""))
    assert old.verdict is Verdict.PROBLEM
    [new] = version_findings(ServerVersion(1, NEWEST + 1, ""))
    assert new.verdict is Verdict.WARNING
    supported, *lost = version_findings(ServerVersion(1, OLDEST, ""))
    assert supported.verdict is Verdict.OK
    assert [each.verdict for each in lost] == [Verdict.NOTE] * len(LOSSES)
