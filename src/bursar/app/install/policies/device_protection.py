"""A policy that says who may record on a pod which devices it was allocated.

The agent shows kubelet's clients the devices that the annotation of an allocator names. A tenant
can update its own pods. Without the policy it could claim any device of its kind on the node, or
hide the devices that it has. The annotation of a pod can be written at its creation, by an update
of the pod or its status, and by a Binding, whose annotations the API server copies to the pod.
"""

import re
from collections.abc import Sequence
from typing import Final

from bursar.app.install.documents import (
    ADMINISTRATORS,
    PART_OF_BURSAR,
    Document,
    admission_policy,
    rule,
    validation,
)
from bursar.core.devices.source import KOORDINATOR

WRITE_DEVICES: Final = "write-devices.bursar.io"
ONLY_ALLOCATORS: Final = (
    f"annotation {KOORDINATOR.annotation} says which devices a pod was allocated; only the "
    "scheduler that allocates them may write it"
)
_USER: Final = re.compile(r"[-A-Za-z0-9:._@/]+")


def device_protection_documents(writers: Sequence[str]) -> tuple[Document, ...]:
    """The policy, for all namespaces. Raises `ValueError` for a name that no user has.

    `writers` are names of users, such as `system:serviceaccount:NAMESPACE:NAME`.
    """
    for user in writers:
        if not _USER.fullmatch(user):
            raise ValueError(f"{user!r} is not the name of a user")
    annotation = f"metadata.?annotations[?'{KOORDINATOR.annotation}']"
    # There is no old object at a creation.
    is_changed = (
        f"request.operation == 'CREATE' ? object.{annotation}.hasValue() : "
        f"object.{annotation} != oldObject.{annotation}"
    )
    is_other = (
        f"!(request.userInfo.username in '{','.join(writers)}'.split(',')) && "
        f"!('{ADMINISTRATORS}' in request.userInfo.groups)"
    )
    updated = ("pods", "pods/status", "pods/resize", "pods/ephemeralcontainers")
    spec: Document = {
        "matchConstraints": {
            "resourceRules": [
                rule(["CREATE", "UPDATE"], *updated),
                rule(["CREATE"], "pods/binding", "bindings"),
            ]
        },
        "matchConditions": [
            {"name": "devices-changed", "expression": is_changed},
            {"name": "not-an-allocator", "expression": is_other},
        ],
        "validations": [validation("false", ONLY_ALLOCATORS)],
    }
    return admission_policy("Validating", WRITE_DEVICES, spec, {}, labels=PART_OF_BURSAR)
