"""Random specs of quotas of AAQ's kinds: mostly good names, amounts, scopes and selectors."""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from bursar.core.quota.quota import QuotaKind

Value = TypeVar("Value")

NAMES = ("cpu", "pods", "requests.cpu", "limits.memory", "services", "count/services")
NAMES += ("example.com/gpu", "requests.storage", "persistentvolumeclaims", "instances/notebook")
ODD_NAMES = ("", "storage", "limits.hugepages-2Mi", "hugepages-x", "requests.foo", "a b", "a/b/c")
ODD_NAMES += ("A.com/x", "a..b/x", "a/-b", "count/", "/x", "Pods", "kubernetes.io/x", "ä/b")
ODD_NAMES += ("a" * 64, "a/" + "b" * 64, "gold.storageclass.storage.k8s.io/requests.storage")
AMOUNTS = ("0", "1", "5", "10")
ODD_AMOUNTS = ("-1", "-0", "1.5", "1500m", "1000m", "1e3", "1Ki", "1n", "1000000000n", "x", "")
ODD_AMOUNTS += ("1.0000000001", "16777216.000000001", "1e-9", "1e-10", "1.1Ki", "1kk", "1P", "-1n")
SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")
SCOPES += ("CrossNamespacePodAffinity", "VolumeAttributesClass")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
KEYS, ODD_KEYS = ("a", "team"), ("", "a/b", "A.b/c", "-a", "x/" + "b" * 64, "a/b/c")
VALUES, ODD_VALUES = ("x", "y"), ("", "-x", "x y", "ä", "a" * 64)


def generated_quota(random: Random) -> tuple[QuotaKind, dict[str, Any]]:
    odd = random.choice((0.0, 0.1, 0.4))

    def one(good: Sequence[Value], bad: Sequence[Value]) -> Value:
        return random.choice(bad if random.random() < odd else good)

    def several(most: int) -> range:
        return range(random.randint(0, most))

    def requirement(name: str, key: str, values: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {name: key, "operator": one(OPERATORS, ("Gt", "", "in"))}
        if random.random() < 0.5:
            found["values"] = [random.choice(values) for _ in several(2)]
        return found

    def limits() -> dict[str, Any]:
        hard = {one(NAMES, ODD_NAMES): one(AMOUNTS, ODD_AMOUNTS) for _ in several(3)}
        found: dict[str, Any] = {"hard": hard}
        if random.random() < 0.4:
            found["scopes"] = [one(SCOPES, ("Nothing", "")) for _ in several(3)]
        if random.random() < 0.4:
            scopes = [one(SCOPES, ("Nothing", "")) for _ in several(3)]
            rules = [requirement("scopeName", scope, ("high", "low")) for scope in scopes]
            found["scopeSelector"] = {"matchExpressions": rules}
        return found

    if random.random() < 0.6:
        return QuotaKind.NAMESPACED, limits()
    every = (*VALUES, one(VALUES, ODD_VALUES))
    keys = [one(KEYS, ODD_KEYS) for _ in several(2)]
    labels = {
        "matchLabels": {one(KEYS, ODD_KEYS): one(VALUES, ODD_VALUES) for _ in several(2)},
        "matchExpressions": [requirement("key", key, every) for key in keys],
    }
    return QuotaKind.CLUSTER, {"quota": limits(), "selector": {"labels": labels}}
