"""All metrics, by section and by name."""

from typing import Final

from bursar.adapters.telemetry.catalogue.agent import NODE
from bursar.adapters.telemetry.catalogue.books import ENFORCEMENT, LEDGER, QUOTAS, WAITING
from bursar.adapters.telemetry.catalogue.controller import (
    CAPACITY,
    INFORMERS,
    KEPT_CERTIFICATES,
    LOOPS,
    POLICIES,
    SIDECARS,
)
from bursar.adapters.telemetry.catalogue.disk import DISK
from bursar.adapters.telemetry.catalogue.every_process import (
    EVENTS,
    PROCESS,
    SERVED_CERTIFICATE,
    TRACES,
    WEBHOOKS,
)
from bursar.adapters.telemetry.catalogue.extender import POOLS
from bursar.adapters.telemetry.catalogue.metric import Metric
from bursar.adapters.telemetry.catalogue.operator import INSTALLATION

SECTIONS: Final = (
    QUOTAS,
    WAITING,
    ENFORCEMENT,
    SIDECARS,
    LEDGER,
    INFORMERS,
    EVENTS,
    LOOPS,
    POLICIES,
    SERVED_CERTIFICATE,
    KEPT_CERTIFICATES,
    CAPACITY,
    WEBHOOKS,
    INSTALLATION,
    POOLS,
    NODE,
    TRACES,
    DISK,
    PROCESS,
)

METRICS: Final[dict[str, Metric]] = {
    each.name: each for section in SECTIONS for each in section.metrics
}
