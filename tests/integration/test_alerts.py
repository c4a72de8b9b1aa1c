"""Every alert fires in the state that it is about, by Prometheus' own rule engine.

The series are what a controller on an embedded cluster printed, minute by minute. A webhook that
does not answer prints nothing: `up` is Prometheus' own.
"""

from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.telemetry.catalogue.metric import Process
from bursar.adapters.telemetry.certificates.served import ServedCertificate
from bursar.adapters.telemetry.controller.metrics import controller_metrics
from bursar.app.cluster.kinds import CRDS, LEASES, PODS
from bursar.app.cluster.ports import EVERYTHING, ForbiddenError, Key, UnavailableError
from bursar.app.controller.gating_check import NAME_LABEL
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.install.admission import GatingSettings, policy_documents
from bursar.app.install.monitoring import ALERTS, RUNBOOKS
from bursar.app.operator.names import OPERATOR
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.model.selectors.selector import LabelSelector
from support.builders.manifests import DEFINITIONS
from support.faults.line import Line, Request
from support.metrics.every_metric import operator_text
from support.metrics.printed_metrics import NoLimiter, differences, series_of
from support.metrics.prometheus import AT_CONTROLLER, AT_WEBHOOK, Scrapes, rule_groups, target
from support.metrics.promql import unknown_names
from support.quota.aaq_controller import TEAM, AaqScene

pytestmark = pytest.mark.integration

QUIET_MINUTES = 5
BAD_MINUTES = 30
"""Longer than any alert waits, and a range of 10 minutes besides."""
BY_NAME = {each.name: each for each in ALERTS}


class Faulty(Line):
    """A cluster that answers some requests with an error."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.error = lambda _request: None

    async def pass_on(self, request):
        error = self.error(request)
        if error is not None:
            raise error
        return await request.send()

    async def watch(self, resource, query=EVERYTHING, **options):
        async with aclosing(super().watch(resource, query, **options)) as events:
            async for event in events:
                error = self.error(Request("watch", resource, Key("", ""), None))
                if error is not None:
                    raise error
                yield event


@dataclass
class Watched:
    """A controller, and a Prometheus that reads its metrics."""

    scene: AaqScene
    cluster: Faulty
    scrapes: Scrapes = field(default_factory=Scrapes)
    lives: timedelta = timedelta(days=20)
    """How long the certificate is valid."""
    controller: object = None

    def text(self):
        now = self.scene.clock.now()
        served = ServedCertificate(not_after=now + self.lives, loads=1, invalid=0)
        return controller_metrics(self.controller, NoLimiter(), served).decode()

    async def pass_minutes(self, count=BAD_MINUTES):
        for _ in range(count):
            text = self.text()
            assert differences(text, Process.CONTROLLER) == []
            self.scrapes.take(text)
            self.scrapes.pass_minute()
            await self.scene.moment(60)
        self.scrapes.take(self.text())


@asynccontextmanager
async def watched(scene, **settings):
    """A controller that has led for some minutes, in which nothing was wrong."""
    cluster = scene.writer = scene.watched = Faulty(scene.cluster)
    found = Watched(scene, cluster)
    async with scene.started(**settings) as controller:
        await scene.moment(60)
        found.controller = controller
        await found.pass_minutes(QUIET_MINUTES)
        yield found


def definition(resource):
    """The embedded cluster has no admission, so its kinds are custom kinds to it."""
    names = {"plural": resource.plural, "kind": resource.kind}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Cluster",
            "versions": [version],
        },
    }


@pytest.fixture
async def scene():
    scene = AaqScene()
    await scene.furnish()
    await load_manifests(scene.cluster, [definition(each) for each, _ in CONFIGURATIONS])
    await scene.quota("pods=2")
    await scene.pod("runs")
    return scene


def instance(name, value="", **labels):
    """What fires: labels and annotations, with the templates of the alert filled in."""
    alert = BY_NAME[name]
    description = alert.description.replace("{{ $value }}", value)
    for key, text in labels.items():
        description = description.replace(f"{{{{ $labels.{key} }}}}", text)
    return {
        "exp_labels": {"severity": alert.severity, **labels},
        "exp_annotations": {
            "summary": alert.summary,
            "description": description,
            "runbook_url": f"{RUNBOOKS}#{name.lower()}",
        },
    }


# ------------------------------------------------------------------ the rules themselves


def test_the_rules_are_valid(promtool):
    assert promtool.check(rule_groups()) == ""


def test_rules_that_are_not_valid_are_found(promtool):
    [group] = rule_groups()
    [first, *_] = group["rules"]

    assert promtool.check([{**group, "rules": [{**first, "expr": "sum by ("}]}]) != ""


async def test_nothing_fires_while_nothing_is_wrong(promtool, scene):
    async with watched(scene) as found:
        await scene.gated_pod("web")
        await found.pass_minutes()

    assert promtool.test(rule_groups(), found.scrapes, {}) == ""


# ------------------------------------------------------------------ each alert


def no_lease(request):
    return UnavailableError("no answer") if request.resource == LEASES else None


async def no_leader(found):
    found.cluster.error = no_lease
    await found.pass_minutes()
    return instance("BursarControllerDown")


async def no_controller(found):
    for _ in range(BAD_MINUTES):
        found.scrapes.pass_minute()
        found.scrapes.miss(AT_CONTROLLER)
    return instance("BursarControllerDown")


async def no_webhook(found):
    for _ in range(BAD_MINUTES):
        found.scrapes.miss(AT_WEBHOOK)
        await found.pass_minutes(1)
    found.scrapes.miss(AT_WEBHOOK)
    return instance("BursarWebhookDown", **AT_WEBHOOK)


async def unanswered_releases(found):
    def error(request):
        is_lift = request.verb == "patch" and request.resource == PODS
        return UnavailableError("a webhook did not answer") if is_lift else None

    found.cluster.error = error
    await found.scene.gated_pod("web")
    await found.pass_minutes()
    return instance("BursarReleasesStuck", "1", **AT_CONTROLLER)


async def a_wrong_account(found):
    [covered, *_] = found.controller.term.books.coverage.quotas()
    covered.accounts["pods"].charged -= 1_000_000_000
    await found.pass_minutes()
    return instance("BursarLedgerDrift", "1", **AT_CONTROLLER)


async def a_lowered_limit(found):
    await found.scene.limit(pods="0")
    await found.pass_minutes()
    owner = {"kind": "ApplicationAwareResourceQuota", "namespace": "team", "quota": "q"}
    amount = {"resource": "pods", "unit": "count"}
    return instance("BursarQuotaOverdrawn", "1", **{**AT_CONTROLLER, **owner, **amount})


async def a_broken_watch(found):
    def error(request):
        is_read = request.resource == PODS and request.verb in {"list", "watch"}
        return UnavailableError("no route") if is_read else None

    found.cluster.error = error
    await found.scene.pod("unheard")
    await found.pass_minutes()
    [age] = [
        each.value
        for each in series_of(found.text())
        if each.name == "bursar_informer_staleness_seconds" and each.labels["resource"] == "pods"
    ]
    return instance("BursarStaleCache", age, resource="pods")


async def a_refused_status(found):
    def error(request):
        is_write = request.verb == "patch" and request.resource == APPLICATION_QUOTAS
        return ForbiddenError("the role is missing", code=403) if is_write else None

    found.cluster.error = error
    for number in range(BAD_MINUTES):
        await found.scene.limit(pods=str(5 + number))
        await found.pass_minutes(1)
    return instance("BursarWritesFail", loop="status", error="ForbiddenError")


async def a_misspelt_limit(found):
    await found.scene.limit(servicess="1")
    await found.pass_minutes()
    return instance("BursarQuotaNotInForce", "1", reason="WriteRefused")


async def a_deleted_definition(found):
    kind = APPLICATION_QUOTAS.kind
    [definition] = [each for each in DEFINITIONS if each["spec"]["names"]["kind"] == kind]
    await found.scene.cluster.delete(CRDS, Key("", definition["metadata"]["name"]))
    await found.pass_minutes()
    return instance("BursarQuotaKindMissing", kind=kind, **AT_CONTROLLER)


async def another_selector(found):
    """It selects the namespace of the quota, so the quota stays in force."""
    by_name = LabelSelector(match_labels={NAME_LABEL: TEAM})
    documents = policy_documents(GatingSettings(namespace="aaq", namespace_selector=by_name))
    wanted = {(resource.kind, name) for resource, name in CONFIGURATIONS}
    for each in documents:
        if (each["kind"], each["metadata"]["name"]) in wanted:
            await load_manifests(found.scene.cluster, [each])
    await found.pass_minutes()
    differing = [name for name, it in found.controller.term.gating.mismatches().items() if it]
    return [instance("BursarGatingMismatch", object=it, **AT_CONTROLLER) for it in differing]


async def a_name_that_nothing_counts(found):
    await found.scene.limit(**{"cpu/vmi": "1"})
    await found.pass_minutes()
    return instance("BursarQuotaNotCounted", "1", **AT_CONTROLLER)


async def a_full_queue(found):
    for number in range(4):
        await found.scene.gated_pod(f"web-{number}")
    await found.pass_minutes()
    return instance("BursarQueueFull", "1", **AT_CONTROLLER)


async def an_old_certificate(found):
    found.lives = timedelta(hours=1)
    await found.pass_minutes()
    return instance("BursarCertificateExpires", "3600", **AT_CONTROLLER)


CAUSES = {
    "BursarControllerDown": (no_leader, no_controller),
    "BursarWebhookDown": (no_webhook,),
    "BursarReleasesStuck": (unanswered_releases,),
    "BursarLedgerDrift": (a_wrong_account,),
    "BursarQuotaOverdrawn": (a_lowered_limit,),
    "BursarStaleCache": (a_broken_watch,),
    "BursarWritesFail": (a_refused_status,),
    "BursarQuotaNotInForce": (a_misspelt_limit,),
    "BursarQuotaKindMissing": (a_deleted_definition,),
    "BursarGatingMismatch": (another_selector,),
    "BursarQuotaNotCounted": (a_name_that_nothing_counts,),
    "BursarQueueFull": (a_full_queue,),
    "BursarCertificateExpires": (an_old_certificate,),
}


OPERATORS = "BursarOperatorDegraded"


def test_every_alert_has_a_cause():
    assert {*CAUSES, OPERATORS} == set(BY_NAME)


def test_the_alert_of_the_operator_fires_and_no_other(promtool):
    found, at_operator = Scrapes(), target(OPERATOR)
    for text in (operator_text(), operator_text(is_webhook_down=True)):
        for _ in range(BAD_MINUTES):
            found.take(text, at_operator)
            found.put("bursar_leader", AT_CONTROLLER, "1")
            found.pass_minute()
    fired = instance(OPERATORS, type="Degraded", reason="NotReady", **at_operator)

    assert promtool.test(rule_groups(), found, {OPERATORS: [fired]}) == ""


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        pytest.param(name, cause, id=f"{name}: {cause.__name__}")
        for name, causes in CAUSES.items()
        for cause in causes
    ],
)
async def test_the_alert_fires_and_no_other(promtool, scene, name, cause):
    async with watched(scene, waiting_pods_max=2) as found:
        fired = await cause(found)
    expected = {name: fired if isinstance(fired, list) else [fired]}

    assert promtool.test(rule_groups(), found.scrapes, expected) == ""


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each.name)
def test_an_alert_names_metrics_and_labels_that_exist(alert):
    """A label that is misspelt gives no error in Prometheus: the alert would never fire."""
    assert unknown_names(alert.expression, f"{alert.summary} {alert.description}") == []
