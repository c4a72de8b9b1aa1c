"""Quotas are judged by the API server's own rules, shown to it as a ResourceQuota."""

import asyncio
import re
from dataclasses import replace
from random import Random

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.transport import Limits
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.app.admission.quotas import QuotaCheck, QuotaWriting
from bursar.app.cluster.ports import (
    BusyError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from bursar.core.quota.quota import QuotaKind
from support.builders.reviews import OpinionatedWriter


def a_writing(*names: str, kind: QuotaKind = QuotaKind.NAMESPACED, **more: object) -> QuotaWriting:
    namespace = "team-a" if kind is QuotaKind.NAMESPACED else ""
    spec = {"hard": dict.fromkeys(names, "1")}
    return QuotaWriting(kind=kind, namespace=namespace, spec=spec, names=names, **more)


def a_check(writer: OpinionatedWriter) -> QuotaCheck:
    return QuotaCheck(writer, clock=SYSTEM_CLOCK, random=Random(1))  # noqa: S311 - not a secret


async def test_the_api_server_is_shown_the_spec_and_stores_nothing():
    writer = OpinionatedWriter()

    verdict = await a_check(writer).judge(a_writing("cpu"))

    assert (verdict.is_allowed, verdict.code) == (True, 202)
    assert verdict.message == "ApplicationAwareResourceQuota request is valid"
    [(namespace, body, is_dry_run)] = writer.created
    assert (namespace, is_dry_run) == ("team-a", True)
    assert body["spec"] == {"hard": {"cpu": "1"}}
    assert re.fullmatch(r"aaq-validating-rq-[0-9a-f]{20}", body["metadata"]["name"])


async def test_a_cluster_wide_quota_is_shown_in_the_default_namespace():
    writer = OpinionatedWriter()

    verdict = await a_check(writer).judge(a_writing("cpu", kind=QuotaKind.CLUSTER))

    assert verdict.message == "ApplicationAwareClusterResourceQuota request is valid"
    assert writer.created[0][0] == "default"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidError('ResourceQuota "x" is invalid: [a: b, c: d]'), "[a: b, c: d]"),
        (ForbiddenError('resourcequotas "x" is forbidden: not today'), "not today"),
        (ForbiddenError('webhook "w" denied the request: exceeded quota: y'), "exceeded quota: y"),
        (NotFoundError('namespaces "team-a" not found'), 'namespaces "team-a" not found'),
    ],
)
async def test_what_the_api_server_refuses_is_refused_without_naming_the_stand_in(error, message):
    verdict = await a_check(OpinionatedWriter(error)).judge(a_writing("cpu"))

    assert (verdict.is_allowed, verdict.code, verdict.message) == (False, 403, message)


@pytest.mark.parametrize(
    "cause",
    [
        "exceeded quota: y, requested: resourcequotas=1, used: resourcequotas=1, limited: ...",
        "status unknown for quota: y, resources: count/resourcequotas",
    ],
)
async def test_a_full_quota_on_resource_quotas_is_no_objection_to_the_spec(cause):
    """The API server validates the spec first. The dry-run adds no ResourceQuota."""
    error = ForbiddenError(f'resourcequotas "x" is forbidden: {cause}')

    verdict = await a_check(OpinionatedWriter(error)).judge(a_writing("cpu"))

    assert verdict.is_allowed


@pytest.mark.parametrize("kind", [BusyError, UnauthorizedError, UnavailableError])
async def test_a_question_that_got_no_answer_is_not_a_broken_rule(kind):
    verdict = await a_check(OpinionatedWriter(kind("later"))).judge(a_writing("cpu"))

    assert (verdict.is_allowed, verdict.code) == (False, 503)
    assert verdict.message.startswith("the quota could not be checked: later")


class SilentWriter(OpinionatedWriter):
    asked = 0

    async def create(self, resource, body, *, namespace="", is_dry_run=False):
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError((resource, body, namespace, is_dry_run))


async def test_silence_ends_before_the_api_server_gives_up_on_us():
    clock = VirtualClock()
    check = QuotaCheck(SilentWriter(), clock=clock, random=Random(1))  # noqa: S311 - not a secret

    async with clock.running():
        verdict = await check.judge(a_writing("cpu"))

    assert (verdict.is_allowed, verdict.code) == (False, 503)
    assert "no answer within 7 s" in verdict.message
    assert clock.monotonic() == 7


async def test_questions_without_an_answer_leave_half_of_the_requests_to_others():
    writer, clock = SilentWriter(), VirtualClock()
    check = QuotaCheck(writer, clock=clock, random=Random(1))  # noqa: S311 - not a secret
    many = 2 * Limits().in_flight_max
    judging = [asyncio.ensure_future(check.judge(a_writing("cpu"))) for _ in range(many)]
    await clock.advance(0)
    assert writer.asked == Limits().in_flight_max // 2

    await clock.advance(7)
    assert {verdict.code for verdict in await asyncio.gather(*judging)} == {503}


async def test_a_quota_whose_spec_stays_as_it_was_is_not_asked_about():
    """In a namespace that is being deleted every question would be answered with no."""
    writer = OpinionatedWriter(ForbiddenError("x: being terminated"))
    writing = a_writing("services", kind=QuotaKind.CLUSTER)
    same = a_writing("services", kind=QuotaKind.CLUSTER, spec_before=writing.spec)

    verdict = await a_check(writer).judge(same)

    assert (verdict.is_allowed, writer.created) == (True, [])


async def test_a_changed_spec_is_asked_about():
    writer = OpinionatedWriter(ForbiddenError("x: no"))

    verdict = await a_check(writer).judge(a_writing("cpu", spec_before={"hard": {"cpu": "2"}}))

    assert verdict.message == "no"


async def test_a_cluster_wide_quota_limits_only_what_pods_can_wait_for():
    names = ("services", "cpu", "count/pods", "requests.storage")

    verdict = await a_check(OpinionatedWriter()).judge(a_writing(*names, kind=QuotaKind.CLUSTER))

    assert (verdict.is_allowed, verdict.code) == (False, 403)
    assert verdict.message == (
        "ApplicationAwareClusterResourceQuota without clusterResourceQuota support, operator "
        "cannot handle non scheduable resources :[count/pods requests.storage services]"
    )


SELECTOR = {"annotations": {"team": "sea"}}


async def test_with_openshift_a_cluster_wide_quota_limits_services_as_well():
    writer = OpinionatedWriter(has_openshift=True)
    names = ("services", "cpu", "requests.storage")
    writing = a_writing(*names, kind=QuotaKind.CLUSTER, selector=SELECTOR)

    verdict = await a_check(writer).judge(writing)

    assert verdict.is_allowed
    namespace, body, is_dry_run = writer.created[1]
    assert (namespace, body["kind"], is_dry_run) == ("", "ClusterResourceQuota", True)
    assert body["spec"] == {
        "quota": {"hard": {"services": "1", "requests.storage": "1"}},
        "selector": SELECTOR,
    }
    assert re.fullmatch(r"aaq-validating-crq-[0-9a-f]{20}", body["metadata"]["name"])


async def test_openshift_is_not_asked_about_what_pods_can_wait_for():
    writer = OpinionatedWriter(has_openshift=True)

    assert (await a_check(writer).judge(a_writing("cpu", kind=QuotaKind.CLUSTER))).is_allowed
    assert len(writer.created) == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            InvalidError('ClusterResourceQuota "x" is invalid: spec.selector: no'),
            403,
            "spec.selector: no",
        ),
        (
            UnavailableError("later"),
            503,
            "the quota could not be checked: later. Nothing was changed; try again",
        ),
    ],
    ids=["refused", "no answer"],
)
async def test_what_openshift_refuses_is_refused(error, code, message):
    writer = OpinionatedWriter(has_openshift=True, cluster_opinion=error)

    verdict = await a_check(writer).judge(a_writing("services", kind=QuotaKind.CLUSTER))

    assert (verdict.is_allowed, verdict.code, verdict.message) == (False, code, message)


async def test_machines_can_be_limited_in_the_whole_cluster():
    names = ("cpu/vmi", "memory/vmi", "instances/vmi", "requests.cpu/vmi")

    verdict = await a_check(OpinionatedWriter()).judge(a_writing(*names, kind=QuotaKind.CLUSTER))

    assert verdict.is_allowed


async def test_one_namespace_may_limit_anything():
    verdict = await a_check(OpinionatedWriter()).judge(a_writing("services", "count/pods"))

    assert verdict.is_allowed


@pytest.mark.parametrize("order", [None, "backfill", "strict", "fifo"])
async def test_a_known_order_is_taken_without_a_word(order):
    verdict = await a_check(OpinionatedWriter()).judge(a_writing("cpu", order=order))

    assert verdict.warnings == ()


async def test_an_unknown_order_is_taken_with_a_warning():
    verdict = await a_check(OpinionatedWriter()).judge(a_writing("cpu", order="random"))

    assert verdict.is_allowed
    assert len(verdict.warnings) == 1
    assert "backfill, strict, fifo" in verdict.warnings[0]
    assert len(verdict.warnings[0]) <= 256


async def test_a_selector_that_cannot_be_read_is_refused_without_a_question():
    writer = OpinionatedWriter()
    wrong = {"selector": {"labels": {}}, "selector_problem": "spec.selector.labels: no"}
    writing = a_writing("cpu", kind=QuotaKind.CLUSTER, **wrong)

    verdict = await a_check(writer).judge(writing)

    assert (verdict.is_allowed, verdict.message) == (False, "spec.selector.labels: no")
    assert writer.created == []


async def test_a_selector_that_was_wrong_before_is_not_refused_again():
    writing = a_writing("cpu", kind=QuotaKind.CLUSTER)
    same = {"selector": {"labels": {}}, "selector_before": {"labels": {}}}
    stored = replace(writing, selector_problem="no", spec_before=writing.spec, **same)

    assert (await a_check(OpinionatedWriter()).judge(stored)).is_allowed
