"""Manifests of a Job that stops gating and releases all pods, before Bursar is removed.

Without it, pods that wait at the moment of an uninstallation would wait for ever. The Job runs as
the controller's service account, because the policies that protect gates let only this account
remove them. The Job's role adds what the account may not do otherwise: to delete the objects that
gate pods, and to read a pod again that changed before its gate was removed.

The Job does not delete the Lease and the Secrets of certificates: the leader, which still runs,
would create them again. Kubernetes deletes them with the controller's service account, which is
their owner.
"""

from typing import Final

from bursar.app.install.documents import Document, document, granted, permission
from bursar.app.install.workloads import (
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
    WorkloadSettings,
    labels_of,
)
from bursar.app.names import CONTROLLER
from bursar.app.quota.release.force_release import GATING_OBJECTS, LIMIT_OBJECTS

REMOVAL: Final = "bursar-removal"
"""The Job, and the ClusterRole and binding that it needs."""
ARGUMENTS: Final = ("release", "--all", "--stop-gating", "--yes")
SECONDS_MAX: Final = 240
"""Less than the five minutes for which `helm uninstall` waits."""


def removal_documents(settings: WorkloadSettings) -> tuple[Document, ...]:
    """The ClusterRole, its binding to the controller's service account, and the Job."""
    labels = labels_of("removal")
    home = settings.namespace
    rules = [
        *(
            permission(("delete",), resource.plural, group=resource.group, names=(key.name,))
            for resource, key in (*GATING_OBJECTS, *LIMIT_OBJECTS)
        ),
        permission(("get",), "pods"),
    ]
    access = granted(REMOVAL, rules, account=CONTROLLER, home=home, labels=labels)
    job = document("batch/v1", "Job", REMOVAL, namespace=home, labels=labels)
    job["spec"] = {
        "backoffLimit": 3,
        "activeDeadlineSeconds": SECONDS_MAX,
        "template": {"metadata": {"labels": dict(labels)}, "spec": _pod(settings)},
    }
    return (*access, job)


def _pod(settings: WorkloadSettings) -> Document:
    container: Document = {
        "name": "release",
        "image": settings.image,
        "args": list(ARGUMENTS),
        "resources": {
            "requests": {"cpu": "100m", "memory": "96Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": dict(RESTRICTED_CONTAINER),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "serviceAccountName": CONTROLLER,
        "priorityClassName": "system-cluster-critical",
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": dict(RESTRICTED_POD),
        "containers": [container],
    }
