"""What the operator decides: versions, TLS, phases and conditions."""

import pytest

from bursar.core.operator.conditions import (
    Installation,
    Phase,
    Reason,
    deleting,
    judged,
    refused,
)
from bursar.core.operator.tls import DEFAULT_TLS, TlsChoice, TlsSecurityProfile, tls_choice
from bursar.core.operator.versions import Step, step

# ------------------------------------------------------------------ versions


@pytest.mark.parametrize(
    ("installed", "own", "expected"),
    [
        ("", "1.0.0", Step.FIRST),
        ("1.0.0", "1.0.0", Step.SAME),
        ("1.0.0", "1.0.1", Step.CHANGE),
        ("1.0.1", "1.0.0", Step.CHANGE),
        ("1.4.0", "1.9.0", Step.CHANGE),
        ("v1.4.2", "1.3.9", Step.CHANGE),
        ("1.4.0", "1.2.0", Step.REFUSED),
        ("1.4.0", "2.0.0", Step.CHANGE),
        ("2.0.0", "1.9.0", Step.REFUSED),
        ("main", "1.0.0", Step.CHANGE),
        ("1.0.0", "main", Step.CHANGE),
    ],
)
def test_a_rollback_is_allowed_by_one_minor_version(installed, own, expected):
    assert step(installed, own) is expected


# ------------------------------------------------------------------ TLS


@pytest.mark.parametrize(
    ("profile", "choice"),
    [
        (None, DEFAULT_TLS),
        (TlsSecurityProfile(type="Intermediate"), DEFAULT_TLS),
        (TlsSecurityProfile(type="Modern"), TlsChoice(version="VersionTLS13")),
        (
            TlsSecurityProfile(type="Custom", version="VersionTLS13", ciphers=("AES128-SHA",)),
            TlsChoice(version="VersionTLS13"),
        ),
        (
            TlsSecurityProfile(
                type="Custom",
                version="VersionTLS12",
                ciphers=("TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            ),
            TlsChoice(version="VersionTLS12", suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)),
        ),
        (TlsSecurityProfile(type="Custom"), TlsChoice(version="VersionTLS12")),
    ],
)
def test_profiles_become_settings_of_the_processes(profile, choice):
    assert tls_choice(profile) == choice


def test_what_cannot_be_honoured_is_said():
    old = tls_choice(TlsSecurityProfile(type="Old"))
    custom = tls_choice(
        TlsSecurityProfile(
            type="Custom", version="VersionTLS11", ciphers=("DHE-RSA-AES128-GCM-SHA256",)
        )
    )

    assert (old.version, len(old.ignored)) == ("", 1)
    assert "TLS 1.2 is the oldest" in old.ignored[0]
    assert custom.version == "VersionTLS12"
    assert "VersionTLS11" in custom.ignored[0]
    assert "DHE-RSA-AES128-GCM-SHA256" in custom.ignored[1]


# ------------------------------------------------------------------ conditions


def summary(judgement):
    conditions = {each.type: each for each in judgement.conditions}
    return judgement.phase, {name: each.is_true for name, each in conditions.items()}


def installation(**known):
    return Installation(version="2.0.0", observed=known.pop("observed", "2.0.0"), **known)


def test_a_first_deployment_is_available_when_everything_is_ready():
    starting = installation(
        observed="",
        waiting=["aaq-server: none"],
        down=["aaq-server"],
        held_back=["MutatingWebhookConfiguration gating-mutator"],
    )

    assert summary(judged(starting)) == (
        Phase.DEPLOYING,
        {"Available": False, "Progressing": True, "Degraded": False, "FieldsIgnored": False},
    )
    done = judged(installation(observed=""))
    assert done.is_complete
    assert summary(done) == (
        Phase.DEPLOYED,
        {"Available": True, "Progressing": False, "Degraded": False, "FieldsIgnored": False},
    )


def test_a_replica_that_is_not_ready_degrades_and_the_last_one_makes_unavailable():
    one = judged(installation(was_deployed=True, waiting=["aaq-server: 1 of 2"]))
    none = judged(
        installation(was_deployed=True, waiting=["aaq-server: 0 of 2"], down=["aaq-server"])
    )

    assert summary(one)[1] == {
        "Available": True,
        "Progressing": False,
        "Degraded": True,
        "FieldsIgnored": False,
    }
    assert not summary(none)[1]["Available"]
    messages = {each.type: each.message for each in none.conditions}
    assert messages["Degraded"] == "aaq-server: 0 of 2"
    assert messages["Available"] == "no replica is ready of aaq-server"
    assert none.phase is Phase.DEPLOYED


def test_an_upgrade_progresses_and_stays_available():
    upgrade = judged(installation(observed="1.9.0", waiting=["aaq-server: 1 of 2"]))

    assert summary(upgrade)[0] is Phase.UPGRADING
    assert summary(upgrade)[1]["Available"]
    assert summary(upgrade)[1]["Progressing"]
    assert "2.0.0" in next(e.message for e in upgrade.conditions if e.type == "Progressing")


def test_objects_that_cannot_be_applied_degrade():
    later = judged(installation(was_deployed=True, failures=["Service a: no"]))
    first = judged(installation(observed="", failures=["Service a: no"]))

    assert summary(later)[1]["Degraded"]
    assert summary(later)[1]["Available"]
    assert not summary(first)[1]["Available"]
    assert [e.reason for e in later.conditions if e.type == "Degraded"] == [Reason.APPLY_FAILED]


def test_fields_without_effect_have_a_condition_and_degrade_nothing():
    found = judged(installation(ignored=["spec.workload: unused"]))

    assert summary(found)[1]["FieldsIgnored"]
    assert not summary(found)[1]["Degraded"]


def test_refusal_and_deletion():
    assert summary(refused(Reason.CONFIG_ERROR, "second")) == (
        Phase.ERROR,
        {"Available": False, "Progressing": False, "Degraded": True},
    )
    assert summary(deleting(())) == (
        Phase.DELETING,
        {"Available": False, "Progressing": True, "Degraded": False},
    )
    blocked = deleting(["3 pods still have the gate"])
    assert summary(blocked)[1]["Degraded"]
    assert blocked.conditions[0].reason is Reason.DELETE_BLOCKED
