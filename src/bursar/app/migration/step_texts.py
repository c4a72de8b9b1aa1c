"""What each step of a move does, in one sentence."""

from collections.abc import Mapping
from typing import Final

from bursar.app.migration.plan import Step

STEP_TEXTS: Final[Mapping[Step, str]] = {
    Step.GUARD: "Refuse pods of gated namespaces that would be created without the gate.",
    Step.PROTECT: "Remove AAQ's ownerReferences, so that no quota is deleted with the AAQ object.",
    Step.STOP_OPERATOR: "Scale AAQ's operator to 0, and wait until its pods are gone.",
    Step.STOP_CONTROLLER: "Scale AAQ's controller to 0, and wait until its pods are gone.",
    Step.REMOVE_CONTROLLER: "Delete AAQ's Deployment aaq-controller, whose name Bursar needs.",
    Step.SHARE_GATE: "Let AAQ's webhook leave alone the pods that Bursar has gated.",
    Step.INSTALL: "Apply Bursar's manifests, and start its controller.",
    Step.INSTALL_SERVER: "Apply Bursar's webhook, and wait until it is ready.",
    Step.INSTALL_WEBHOOKS: "Apply Bursar's webhook configurations.",
    Step.START: "Wait until Bursar leads and gates pods.",
    Step.REMOVE_WEBHOOKS: "Delete AAQ's webhook configurations.",
    Step.REMOVE_SERVER: "Delete AAQ's server, and wait until its pods are gone.",
    Step.REMOVE_LOCKS: "Delete AAQ's lock objects, which Bursar does not need.",
    Step.UNGUARD: "End the refusal of pods without the gate.",
    Step.STOP_BURSAR: "Scale Bursar's controller to 0, and wait until its pods are gone.",
    Step.REMOVE_BURSAR: "Delete Bursar's Deployment aaq-controller, whose name AAQ needs.",
    Step.LOCK: "Lock all gated namespaces, so that AAQ counts all pods before it releases one.",
    Step.UNINSTALL: "Delete Bursar's objects, except what gates pods and what quotas depend on.",
    Step.START_AAQ: "Scale AAQ's operator to its replicas from before the move.",
    Step.AWAIT_AAQ: "Wait until AAQ's controller and server are ready and its webhook is there.",
    Step.REMOVE_GATE: "Delete Bursar's policies that gate pods.",
    Step.VERIFY: "Check with dry-run that AAQ gates pods.",
}
