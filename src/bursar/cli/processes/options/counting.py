"""Options that say how pods are counted. Every command that counts pods has them.

A view cannot reach the sidecars of a controller. Told of their number, it shows the pods that
they count as not counted.
"""

from collections.abc import Mapping
from typing import Any, Final

import click

from bursar.app.counting.settings import CountingSettings
from bursar.cli.devices.counting_options import device_counting_from, device_counting_options
from bursar.cli.options import one_of, together
from bursar.cli.peerpods.counting_options import (
    peer_pod_counting_from,
    peer_pod_counting_options,
)
from bursar.cli.processes.options.sidecar import (
    sidecar_number_option,
    sidecar_options,
    sidecars_from,
)
from bursar.core.kubevirt.mode import VmiMode

_COMMON: Final = together(
    one_of("--vmi-mode", VmiMode.POD_USAGE, "How pods of KubeVirt's VMs are counted."),
    peer_pod_counting_options,
    device_counting_options,
    click.option(
        "--counting-policies/--without-counting-policies",
        "counting_policies",
        default=False,
        show_default=True,
        help="Count pods by CountingPolicies. The controller then keeps pods whole in memory.",
    ),
)
counting_options: Final = together(_COMMON, sidecar_options)
"""`counting_from` makes settings of what the command receives."""
view_counting_options: Final = together(_COMMON, sidecar_number_option)
"""The same for commands that show what a controller counts."""


def counting_from(chosen: Mapping[str, Any]) -> CountingSettings:
    return CountingSettings(
        vmi_mode=VmiMode(chosen["vmi_mode"]),
        peer_pods=peer_pod_counting_from(chosen),
        devices=device_counting_from(chosen),
        sidecars=sidecars_from(chosen),
        policies=bool(chosen.get("counting_policies")),
    )
