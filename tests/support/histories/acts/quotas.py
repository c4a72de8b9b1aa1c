"""What administrators and tenants do with quotas and namespaces in a history."""

from dataclasses import replace
from random import Random

from bursar.core.quota.quota import Order, Quota
from bursar.core.quota.scopes import ScopeRule
from support.builders.quota_books import a_namespace, a_quota
from support.histories.simulated_cluster import World

LABELS = ("", "team=red", "team=blue", "team=red tier=gold")
SELECTORS = ("", "team", "team=red", "tier=gold")
HARD = {
    "pods": ("0", "1", "2", "3", "5"),
    "cpu": ("100m", "300m", "700m", "1", "1500m", "2"),
    "requests.cpu": ("500m", "900m", "2"),
    "limits.cpu": ("1", "2"),
    "memory": ("64Mi", "138Mi", "264Mi", "1Gi"),
    "services": ("1",),
}
COUNTED_OBJECTS = " ".join(f"count/things{number}.example.com=1" for number in range(40))
"""Limits that Kubernetes enforces. They take as much of a namespace's bound as two others."""
SCOPES = (
    *("",) * 8,
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "NotTerminating NotBestEffort",
)
ODD_SCOPES = (
    ScopeRule("PriorityClass", "In", ("gold",)),
    ScopeRule("PriorityClass", "In", ("gold", "silver")),
    ScopeRule("PriorityClass", "In", ("bronze",)),
    ScopeRule("PriorityClass", "NotIn", ("silver",)),
    ScopeRule("PriorityClass", "NotIn", ("gold", "bronze")),
    ScopeRule("PriorityClass", "Exists"),
    ScopeRule("PriorityClass", "DoesNotExist"),
    ScopeRule("PriorityClass", "Like", ("gold",)),
    ScopeRule("Terminating", "Exists"),
    ScopeRule("NotTerminating", "Exists"),
    ScopeRule("BestEffort", "Exists"),
    ScopeRule("NotBestEffort", "Exists"),
    ScopeRule("VolumeAttributesClass", "In", ("fast",)),
    ScopeRule("Sometimes", "Exists"),
)
"""Some say what others say, some contradict others, and some cannot be read."""
GATING = ((True, ""), (False, ""), (False, "a policy selects the namespace"), (True, "no policy"))
"""Whether the controller targets a namespace, and how the installed policies disagree."""


def some_scopes(random: Random) -> tuple[ScopeRule, ...]:
    if random.random() < 0.7:
        return a_quota("x", "", scopes=random.choice(SCOPES)).scopes
    return tuple(random.choices(ODD_SCOPES, k=random.randint(1, 5)))


class QuotaActs:
    """The part of a history that has to do with quotas and namespaces."""

    random: Random
    world: World
    names: tuple[str, ...]
    """Namespaces of tenants who mean no harm."""
    all_names: tuple[str, ...]

    # .............................................................. quotas

    def write_quota(self) -> None:
        random = self.random
        own = [f"{name}/{quota}" for name in self.names for quota in ("q", "r", "s")]
        where = random.choice((*own, *("x", "y", "z") * 2))
        hard = " ".join(
            f"{name}={random.choice(amounts)}"
            for name, amounts in HARD.items()
            if random.random() < 0.4
        )
        if random.random() < 0.1:
            hard += f" {COUNTED_OBJECTS}"
        problem = ""
        if random.random() < 0.08:
            # As a rule nothing of the limits is known then.
            hard, problem = random.choice(("", "", hard)), "spec.hard[pods]: no"
        order = random.choice(("backfill", "strict", "fifo"))
        quota = a_quota(where, hard, order=order, selector=random.choice(SELECTORS))
        self.world.put_quota(replace(quota, scopes=some_scopes(random), problem=problem))

    def change_limits(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            hard = dict(quota.hard)
            for name in hard:
                if name in HARD and self.random.random() < 0.5:
                    some = a_quota("x", f"{name}={self.random.choice(HARD[name])}").hard
                    hard[name] = some[name]
            self.world.put_quota(replace(quota, hard=hard))

    def change_order(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            self.world.put_quota(replace(quota, order=self.random.choice(list(Order))))

    def change_scopes(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            self.world.put_quota(replace(quota, scopes=some_scopes(self.random)))

    def delete_quota(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            self.world.remove("quotas", quota.key)

    def some_quota(self) -> Quota | None:
        quotas = self.world.quotas
        return self.random.choice(list(quotas.values())) if quotas else None

    def mend_quota(self) -> None:
        """A quota that could not be read is written as it should be."""
        for quota in self.world.quotas.values():
            if quota.problem:
                self.world.put_quota(replace(quota, problem=""))
                return

    # .............................................................. namespaces

    def relabel(self) -> None:
        """Change the labels of a namespace, or create it."""
        name = self.random.choice(self.all_names)
        before = self.world.namespaces.get(name) or a_namespace(name)
        labels = a_namespace(name, self.random.choice(LABELS)).labels
        self.world.put_namespace(replace(before, labels=labels))

    def retarget(self) -> None:
        """Let a namespace leave those where pods are held back, or come in again.

        The installed policies and the controller may disagree about it.
        """
        namespace = self.world.namespaces.get(self.random.choice(self.all_names))
        if namespace is not None:
            others = [each for each in GATING if each != namespace.gating]
            is_targeted, dispute = self.random.choice(others)
            changed = replace(namespace, is_targeted=is_targeted, dispute=dispute)
            self.world.put_namespace(changed)

    def delete_quotas(self) -> None:
        """Delete all quotas of a namespace in one request."""
        self.delete_quotas_of(self.random.choice(self.all_names))

    def delete_quotas_of(self, name: str) -> None:
        for key in [key for key in self.world.quotas if key.namespace == name]:
            self.world.remove("quotas", key)

    def delete_namespace(self) -> None:
        """Objects go in any order, and the namespace is last. Some quotas come back with it."""
        name, world = self.random.choice(self.all_names), self.world
        if name in world.namespaces:
            if self.random.random() < 0.5:
                self.delete_quotas_of(name)
            for pod in [pod for pod in world.pods if pod.namespace == name]:
                world.remove("pods", pod)
            world.remove("namespaces", name)
