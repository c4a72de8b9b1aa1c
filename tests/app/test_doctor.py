"""`bursar doctor`: what it finds in a cluster."""

import json
from datetime import UTC, datetime
from random import Random

import pytest

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import (
    ACCESS_REVIEWS,
    CLUSTER_ROLE_BINDINGS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.ports import (
    ForbiddenError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    UnavailableError,
)
from bursar.app.doctor.doctor import NAMED_MAX, examine
from bursar.app.doctor.findings import Finding, Severity
from bursar.app.doctor.supported import NEWEST, OLDEST
from bursar.app.doctor.versions import LOSSES, version_findings
from bursar.app.names import (
    CONTROLLER,
    GATING_POLICY,
    GATING_WEBHOOK,
    GATING_WEBHOOKS,
    PROTECTION_POLICY,
    PROTECTION_WEBHOOKS,
    REMOVAL_WEBHOOK,
    RESIZE_WEBHOOK,
    WEBHOOK,
)
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.wire.cluster.server_version import ServerVersion
from support.builders.manifests import DEFINITIONS
from support.virtual_time import MachineClock

HOME = "aaq"
NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
CUSTOM = (APPLICATION_QUOTAS, CLUSTER_QUOTAS)


class Patient:
    """A cluster in memory, as a server of some version, some of whose resources fail."""

    def __init__(self, minor: int = NEWEST) -> None:
        self.memory = MemoryCluster(MachineClock(), source=Random(1))  # noqa: S311 - a seed
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, *CUSTOM):
            self.memory.objects.kinds.add(Kind(resource=resource, counts_generation=True))
        self.answer: bytes | Exception = json.dumps({"major": "1", "minor": str(minor)}).encode()
        self.errors: dict[object, Exception] = {}
        self.denied: set[tuple[str, str]] = set()
        """Verb and resource of the rights that no account has."""
        self.is_everything_allowed = False
        for resource in (DEPLOYMENTS, DAEMON_SETS, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            self.memory.objects.kinds.add(Kind(resource=resource))

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

    async def create(self, resource, body, *, namespace="", is_dry_run=False):
        """Only access reviews."""
        assert (resource, namespace, is_dry_run) == (ACCESS_REVIEWS, "", False)
        self._fail(resource)
        asked = body["spec"]["resourceAttributes"]
        what = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        is_allowed = (asked["verb"], what) not in self.denied
        if what == "*":
            is_allowed = self.is_everything_allowed
        return json.dumps({"status": {"allowed": is_allowed}}).encode()

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
        gating, removal = {"name": GATING_WEBHOOK}, {"name": REMOVAL_WEBHOOK}
        await self.make(MUTATING_WEBHOOKS, GATING_WEBHOOKS, webhooks=[gating])
        await self.make(VALIDATING_WEBHOOKS, PROTECTION_WEBHOOKS, webhooks=[removal])
        active = {"annotations": {"bursar.io/gating": "active"}}
        await self.make(SERVICE_ACCOUNTS, CONTROLLER, namespace=HOME, metadata=active)
        lease = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": renewed}
        await self.make(LEASES, CONTROLLER, namespace=HOME, spec=lease)

    async def quota(self, name, *, is_ready, **fields):
        condition = {"type": "Ready", "status": "True" if is_ready else "False", **fields}
        status = {"hard": {"pods": "1"}, "used": {"pods": "0"}, "conditions": [condition]}
        await self.make(
            APPLICATION_QUOTAS, name, namespace="a", spec={"hard": {"pods": "1"}}, status=status
        )

    async def findings(self):
        found = await examine(self, HOME, NOW)
        return {each.check: each for each in found if each.severity is not Severity.NOTE}


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

    assert {each.severity for each in found.values()} == {Severity.OK}
    assert list(found) == [
        *("server", "kinds", "gate", "protection", "activation", "leader"),
        *("rights", "bindings", "quotas"),
    ]
    assert found["quotas"].text == "1 quotas are in force"
    assert found["leader"].text == "the Lease is held by pod-1"


async def test_a_leader_that_no_longer_renews_its_lease_is_a_problem(patient):
    await patient.install(renewed="2027-01-01T11:00:00.000000Z")
    found = (await patient.findings())["leader"]

    assert found.severity is Severity.PROBLEM
    assert found.text == "pod-1 has not renewed the Lease for 3600 s, so gated pods wait"


async def test_a_lease_without_a_time_is_not_judged(patient):
    await patient.install(renewed="soon")

    assert (await patient.findings())["leader"].severity is Severity.OK


async def test_an_empty_cluster_has_a_problem_with_advice_for_each_part(patient):
    found = await patient.findings()

    for check in ("gate", "protection", "activation", "leader"):
        assert found[check].severity is Severity.PROBLEM, check
        assert found[check].advice
    assert found["gate"].advice == "apply: bursar manifests policies"


POLICY_KINDS = (MUTATING_POLICIES, MUTATING_BINDINGS, VALIDATING_POLICIES, VALIDATING_BINDINGS)


async def test_a_binding_without_its_policy_gates_and_protects_nothing(patient):
    """The API server ignores such a binding."""
    for resource in POLICY_KINDS:
        patient.memory.objects.kinds.add(Kind(resource=resource))
    await patient.make(MUTATING_BINDINGS, GATING_POLICY)
    await patient.make(VALIDATING_BINDINGS, PROTECTION_POLICY)
    alone = await patient.findings()
    await patient.make(MUTATING_POLICIES, GATING_POLICY)
    await patient.make(VALIDATING_POLICIES, PROTECTION_POLICY)
    whole = await patient.findings()

    for check in ("gate", "protection"):
        assert alone[check].severity is Severity.PROBLEM
        assert whole[check].severity is Severity.OK


async def test_a_configuration_without_its_webhook_gates_and_protects_nothing(patient):
    await patient.make(MUTATING_WEBHOOKS, GATING_WEBHOOKS)
    other = {"name": RESIZE_WEBHOOK}
    await patient.make(VALIDATING_WEBHOOKS, PROTECTION_WEBHOOKS, webhooks=[other])
    found = await patient.findings()

    for check in ("gate", "protection"):
        assert found[check].severity is Severity.PROBLEM


async def test_on_older_servers_the_advice_is_the_webhook():
    found = await Patient(34).findings()
    assert found["gate"].advice == "apply: bursar manifests webhook webhooks"


async def test_a_gate_that_no_controller_has_switched_on_is_a_warning(patient):
    await patient.make(SERVICE_ACCOUNTS, CONTROLLER, namespace=HOME)
    assert (await patient.findings())["activation"].severity is Severity.WARNING


async def test_quotas_that_are_not_ready_are_named_up_to_a_number(patient):
    for number in range(NAMED_MAX + 2):
        await patient.quota(f"q{number}", is_ready=False)
    await patient.quota("good", is_ready=True)
    found = (await patient.findings())["quotas"]

    assert found.severity is Severity.WARNING
    assert found.text.startswith(f"{NAMED_MAX + 2} of {NAMED_MAX + 3} quotas are not ready: ")
    assert found.text.endswith(" and 2 more")


async def test_a_condition_about_an_earlier_spec_does_not_count(patient):
    await patient.quota("changed", is_ready=True, observedGeneration=1)
    before = (await patient.findings())["quotas"]
    change = Patch(kind=PatchKind.MERGE, body={"spec": {"hard": {"pods": "2"}}})
    await patient.memory.patch(APPLICATION_QUOTAS, Key("a", "changed"), change)
    after = (await patient.findings())["quotas"]

    assert (before.severity, after.severity) == (Severity.OK, Severity.WARNING)


@pytest.mark.parametrize(
    ("missing", "severity"),
    [
        ((CLUSTER_QUOTAS,), Severity.NOTE),
        ((APPLICATION_QUOTAS, CLUSTER_QUOTAS), Severity.PROBLEM),
    ],
)
async def test_kinds_that_are_not_defined_are_found(patient, missing, severity):
    patient.errors = {each.kind: NotFoundError("unknown") for each in missing}
    [found] = [each for each in await examine(patient, HOME, NOW) if each.check == "kinds"]

    assert found.severity is severity
    assert all(each.kind in found.text for each in missing)


async def test_what_cannot_be_read_stops_no_other_check(patient):
    await patient.install()
    patient.answer = UnavailableError("no answer")
    patient.errors = {"Lease": ForbiddenError("not you")}
    found = await patient.findings()

    assert found["server"].severity is found["leader"].severity is Severity.WARNING
    assert found["leader"].advice == "ask for the right to read it"
    assert found["quotas"].severity is Severity.OK


# ------------------------------------------------------------------ rights


async def bind(patient, name, *, resource=CLUSTER_ROLE_BINDINGS, namespace="", account=CONTROLLER):
    await patient.make(
        resource,
        name,
        namespace=namespace,
        roleRef={"kind": "ClusterRole", "name": "cluster-admin"},
        subjects=[
            {"kind": "ServiceAccount", "namespace": HOME, "name": account},
            {"kind": "User", "name": account},
        ],
    )


async def deploy(patient, name, *arguments, resource=DEPLOYMENTS):
    pod = {"spec": {"containers": [{"name": "main", "args": list(arguments)}]}}
    await patient.make(resource, name, namespace=HOME, spec={"template": pod})


async def test_rights_that_an_account_lacks_are_named(patient):
    await patient.install()
    await patient.make(SERVICE_ACCOUNTS, WEBHOOK, namespace=HOME)
    patient.denied = {("patch", "pods"), ("create", "resourcequotas")}
    found = (await patient.findings())["rights"]

    assert found.severity is Severity.PROBLEM
    assert found.text == (
        "aaq-controller may not: create resourcequotas, patch pods; "
        "aaq-server may not: create resourcequotas"
    )
    assert "bursar manifests rbac" in found.advice


async def test_an_account_that_does_not_exist_needs_no_rights(patient):
    await patient.install()
    patient.denied = {("get", "leases")}
    found = (await patient.findings())["rights"]

    assert "aaq-server" not in found.text


async def test_many_rights_that_are_lacking_are_counted(patient):
    await patient.install()
    patient.denied = {(verb, "applicationawareresourcequotas") for verb in ("list", "watch")}
    patient.denied |= {(verb, "resourcequotas") for verb in ("list", "watch", "create", "patch")}
    found = (await patient.findings())["rights"]

    assert found.text.endswith(" and 1 more")


@pytest.mark.parametrize(
    ("name", "resource", "arguments", "denied"),
    [
        (CONTROLLER, DEPLOYMENTS, ("--tls-secret=x", "--keep-certificates"), ("create", "secrets")),
        (CONTROLLER, DEPLOYMENTS, ("--keep-capacity",), ("patch", "nodes/status")),
        ("bursar-agent", DAEMON_SETS, ("--pods-from=kubelet",), ("get", "nodes/pods")),
        ("bursar-agent", DAEMON_SETS, ("--pods-from=api", "--disk"), ("get", "nodes/stats")),
        ("bursar-extender", DEPLOYMENTS, ("--tls-secret=bursar-tls",), ("create", "pods/binding")),
    ],
    ids=["certificates", "capacity", "agent", "disk", "extender"],
)
async def test_rights_are_needed_for_what_is_installed(patient, name, resource, arguments, denied):
    await patient.install()
    if name != CONTROLLER:
        await patient.make(SERVICE_ACCOUNTS, name, namespace=HOME)
    patient.denied = {denied}
    assert (await patient.findings())["rights"].severity is Severity.OK

    await deploy(patient, name, *arguments, resource=resource)
    found = (await patient.findings())["rights"]
    assert found.severity is Severity.PROBLEM
    assert f"{name} may not: {' '.join(denied)}" in found.text


async def test_without_cluster_quotas_their_rights_are_not_needed(patient):
    await patient.install()
    patient.denied = {("list", "applicationawareclusterresourcequotas")}
    assert (await patient.findings())["rights"].severity is Severity.PROBLEM

    await deploy(patient, CONTROLLER, "--without-cluster-quota")
    assert (await patient.findings())["rights"].severity is Severity.OK


async def test_the_operator_needs_what_it_grants(patient):
    await patient.install()
    await patient.make(SERVICE_ACCOUNTS, "aaq-operator", namespace=HOME)
    patient.denied = {("list", "kubevirts")}
    found = [e for e in await examine(patient, HOME, NOW, DEFINITIONS) if e.check == "rights"]

    assert "aaq-operator may not: list kubevirts.kubevirt.io" in found[0].text


async def test_who_may_not_ask_about_rights_is_told(patient):
    await patient.install()
    patient.errors = {"SubjectAccessReview": ForbiddenError("not you")}
    found = await patient.findings()

    assert found["rights"].severity is found["bindings"].severity is Severity.WARNING
    assert "subjectaccessreviews" in found["rights"].advice


async def test_in_another_namespace_there_are_no_accounts(patient):
    assert (await patient.findings())["rights"].severity is Severity.WARNING


async def test_bindings_that_the_manifests_do_not_have_are_found(patient):
    await patient.install()
    await bind(patient, CONTROLLER)
    await bind(patient, "extra")
    await bind(patient, "local", resource=ROLE_BINDINGS, namespace=HOME, account=WEBHOOK)
    await bind(patient, "for-the-extender", account="bursar-extender")
    await bind(patient, "bursar-extender", account="bursar-extender")
    await bind(patient, "somebody", account="somebody")
    patient.is_everything_allowed = True
    found = (await patient.findings())["bindings"]

    assert found.severity is Severity.WARNING
    assert found.text.startswith(
        "further rights than the manifests grant: "
        "ClusterRoleBinding extra (ClusterRole cluster-admin) for aaq-controller, "
        "ClusterRoleBinding for-the-extender (ClusterRole cluster-admin) for bursar-extender, "
        "RoleBinding local (ClusterRole cluster-admin) for aaq-server, "
        "aaq-controller may do everything, "
    )


def test_each_version_is_judged():
    assert version_findings(ServerVersion(1, NEWEST, "")) == (
        Finding("server", Severity.OK, f"Kubernetes 1.{NEWEST}"),
    )
    [old] = version_findings(ServerVersion(1, OLDEST - 1, ""))
    assert old.severity is Severity.PROBLEM
    [new] = version_findings(ServerVersion(1, NEWEST + 1, ""))
    assert new.severity is Severity.WARNING
    supported, *lost = version_findings(ServerVersion(1, OLDEST, ""))
    assert supported.severity is Severity.OK
    assert [each.severity for each in lost] == [Severity.NOTE] * len(LOSSES)
