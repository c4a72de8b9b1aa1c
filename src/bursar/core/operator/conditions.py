"""Phase and conditions of an AAQ object, from what is true of its installation."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
DEGRADED: Final = "Degraded"
IGNORED: Final = "FieldsIgnored"
"""A condition that AAQ does not have: which fields of the spec have no effect."""


class Phase(Enum):
    """AAQ's phases."""

    DEPLOYING = "Deploying"
    DEPLOYED = "Deployed"
    UPGRADING = "Upgrading"
    DELETING = "Deleting"
    DELETED = "Deleted"
    ERROR = "Error"


class Reason(Enum):
    """Reasons of conditions and of events on the AAQ object."""

    DEPLOY_STARTED = "DeployStarted"
    DEPLOY_COMPLETED = "DeployCompleted"
    UPGRADE_STARTED = "UpgradeStarted"
    CONFIG_ERROR = "ConfigError"
    """Another AAQ object is in force, or the spec cannot be used."""
    VERSION_REFUSED = "VersionRefused"
    NOT_READY = "NotReady"
    APPLY_FAILED = "ApplyFailed"
    HEALTHY = "Healthy"
    FIELDS_IGNORED = "FieldsIgnored"
    ALL_USED = "AllUsed"
    DELETE_STARTED = "DeleteStarted"
    DELETE_BLOCKED = "DeleteBlocked"
    DELETE_COMPLETED = "DeleteCompleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    type: str
    is_true: bool
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What is true of the objects of an installation after they were applied."""

    version: str
    """The version of the operator."""
    observed: str
    """The version whose objects were all ready at some time; empty if none was."""
    was_deployed: bool = False
    """The phase before was Deployed."""
    failures: Sequence[str] = ()
    """Objects that could not be applied or deleted, with the API server's words."""
    waiting: Sequence[str] = ()
    """Deployments that are not ready, with numbers."""
    down: Sequence[str] = ()
    """Names of the Deployments among `waiting` that have no ready replica."""
    held_back: Sequence[str] = ()
    """Objects that are applied only when a Deployment is ready."""
    ignored: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    phase: Phase
    conditions: tuple[Condition, ...]
    is_complete: bool = False
    """Everything of the operator's version is in place and ready."""


def judged(known: Installation) -> Judgement:
    """Phase and conditions of the AAQ object in force."""
    is_complete = not (known.failures or known.waiting or known.held_back)
    is_upgrade = bool(known.observed) and known.observed != known.version
    if is_complete:
        phase = Phase.DEPLOYED
    elif is_upgrade:
        phase = Phase.UPGRADING
    else:
        phase = Phase.DEPLOYED if known.was_deployed else Phase.DEPLOYING
    progress = _progressing(known, phase, is_complete=is_complete)
    return Judgement(
        phase=phase,
        conditions=(
            _available(known, progress),
            progress,
            _degraded(known, phase),
            _ignored(known.ignored),
        ),
        is_complete=is_complete,
    )


def _available(known: Installation, progress: Condition) -> Condition:
    """Available: pods are gated and released. It does not need every replica."""
    if known.held_back or (known.failures and not known.observed):
        return _condition(AVAILABLE, progress.reason, progress.message, is_true=False)
    if known.down:
        return _condition(AVAILABLE, Reason.NOT_READY, _nobody(known.down), is_true=False)
    return _condition(AVAILABLE, Reason.DEPLOY_COMPLETED, "Deployment Completed", is_true=True)


def _progressing(known: Installation, phase: Phase, *, is_complete: bool) -> Condition:
    if is_complete or phase is Phase.DEPLOYED:
        return _condition(
            PROGRESSING, Reason.DEPLOY_COMPLETED, "Deployment Completed", is_true=False
        )
    if phase is Phase.UPGRADING:
        text = f"Started upgrade to version {known.version}"
        return _condition(PROGRESSING, Reason.UPGRADE_STARTED, text, is_true=True)
    return _condition(PROGRESSING, Reason.DEPLOY_STARTED, "Started Deployment", is_true=True)


def _degraded(known: Installation, phase: Phase) -> Condition:
    if known.failures:
        return _condition(DEGRADED, Reason.APPLY_FAILED, "; ".join(known.failures), is_true=True)
    # During the first deployment nothing has been ready yet, and nothing is lost.
    if known.waiting and phase is not Phase.DEPLOYING:
        return _condition(DEGRADED, Reason.NOT_READY, "; ".join(known.waiting), is_true=True)
    return _condition(DEGRADED, Reason.HEALTHY, "", is_true=False)


def _ignored(sentences: Sequence[str]) -> Condition:
    if sentences:
        return _condition(IGNORED, Reason.FIELDS_IGNORED, "; ".join(sentences), is_true=True)
    return _condition(IGNORED, Reason.ALL_USED, "", is_true=False)


def _nobody(names: Sequence[str]) -> str:
    return f"no replica is ready of {', '.join(names)}"


def refused(reason: Reason, message: str) -> Judgement:
    """Phase and conditions of an AAQ object that is not in force.

    Another AAQ object is in force, or the spec cannot be used.
    """
    return Judgement(
        phase=Phase.ERROR,
        conditions=(
            _condition(AVAILABLE, reason, message, is_true=False),
            _condition(PROGRESSING, reason, message, is_true=False),
            _condition(DEGRADED, reason, message, is_true=True),
        ),
    )


def deleting(problems: Sequence[str]) -> Judgement:
    """Phase and conditions of an AAQ object that is being deleted."""
    started = "gating stops, waiting pods are released, then the objects are deleted"
    text = "; ".join(problems) or started
    reason = Reason.DELETE_BLOCKED if problems else Reason.DELETE_STARTED
    return Judgement(
        phase=Phase.DELETING,
        conditions=(
            _condition(AVAILABLE, reason, text, is_true=False),
            _condition(PROGRESSING, reason, text, is_true=True),
            _condition(DEGRADED, reason, text, is_true=bool(problems)),
        ),
    )


def deleted() -> Judgement:
    """Phase and conditions of a deleted AAQ object whose installation is removed.

    Only finalizers of other programs still hold the object.
    """
    text = "nothing of the installation is left but quotas and the definitions of their kinds"
    return Judgement(
        phase=Phase.DELETED,
        conditions=(
            _condition(AVAILABLE, Reason.DELETE_COMPLETED, text, is_true=False),
            _condition(PROGRESSING, Reason.DELETE_COMPLETED, text, is_true=False),
            _condition(DEGRADED, Reason.DELETE_COMPLETED, text, is_true=False),
        ),
    )


def _condition(type: str, reason: Reason, message: str, *, is_true: bool) -> Condition:
    return Condition(type=type, is_true=is_true, reason=reason, message=message)
