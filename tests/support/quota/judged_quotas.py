"""Quotas that admission refuses and accepts, with the words of the refusal."""

import uuid

from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.quota.quota import QuotaKind

KIND = {QuotaKind.NAMESPACED: APPLICATION_QUOTAS, QuotaKind.CLUSTER: CLUSTER_QUOTAS}
PRIORITY = "PriorityClass"


def scoped(*expressions, **hard):
    found = [
        {"scopeName": scope, "operator": operator, **({"values": values} if values else {})}
        for scope, operator, values in expressions
    ]
    return {"hard": hard or {"pods": "1"}, "scopeSelector": {"matchExpressions": found}}


def limits(**hard):
    return {
        "hard": {name.replace("__", "/").replace("_", "."): text for name, text in hard.items()}
    }


STANDARD = "must be a standard resource type or fully qualified"
UNFIT = "unsupported scope applied to resource"
REFUSED = {
    "unknown name": ({"hard": {"services": "1", "servicess": "1", "pods": "3"}}, STANDARD),
    "misspelt prefix": ({"hard": {"request.cpu": "1"}}, STANDARD),
    "plural": ({"hard": {"cpus": "1"}}, STANDARD),
    "storage": ({"hard": {"storage": "1"}}, "must be a standard resource for quota"),
    "no name": ({"hard": {"": "1"}}, "name part must"),
    "odd name": ({"hard": {"a b": "1"}}, "name part must"),
    "odd domain": ({"hard": {"Example.com/gpu": "1"}}, "must"),
    "two slashes": ({"hard": {"a/b/c": "1"}}, "must"),
    "empty prefix": ({"hard": {"/gpu": "1"}}, "must"),
    "empty name": ({"hard": {"example.com/": "1"}}, "must"),
    "long name": ({"hard": {f"example.com/{'x' * 64}": "1"}}, "must"),
    "long domain": ({"hard": {f"{'x.' * 127}x/gpu": "1"}}, "must"),
    "negative": ({"hard": {"pods": "-1"}}, "must be greater than or equal to 0"),
    "negative cpu": ({"hard": {"requests.cpu": "-1m"}}, "must be greater than or equal to 0"),
    "negative number": ({"hard": {"pods": -1}}, "must be greater than or equal to 0"),
    "half a pod": ({"hard": {"pods": "500m"}}, "must be an integer"),
    "a bit more than many pods": ({"hard": {"pods": "16777216.000000001"}}, "must be an integer"),
    "half a device": ({"hard": {"example.com/gpu": "1.5"}}, "must be an integer"),
    "half a VM's CPU": ({"hard": {"cpu/vmi": "500m"}}, "must be an integer"),
    "no quantity": ({"hard": {"pods": "1e1.5"}}, "quantities must match the regular expression"),
    "unknown scope": ({"hard": {"pods": "1"}, "scopes": ["Besteffort"]}, "unsupported scope"),
    "contradiction": (
        {"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]},
        "conflicting scopes",
    ),
    "other contradiction": (
        {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]},
        "conflicting scopes",
    ),
    "unfit for best effort": ({"hard": {"requests.cpu": "1"}, "scopes": ["BestEffort"]}, UNFIT),
    "unfit storage": ({"hard": {"ephemeral-storage": "1"}, "scopes": ["NotBestEffort"]}, UNFIT),
    "unfit for volumes": ({"hard": {"pods": "1"}, "scopes": ["VolumeAttributesClass"]}, UNFIT),
    "unknown scope name": (scoped(("Priority", "Exists", ())), "unsupported scope"),
    "unfit expression": (scoped((PRIORITY, "Exists", ()), **{"ephemeral-storage": "1"}), UNFIT),
    "operator of a plain scope": (scoped(("BestEffort", "DoesNotExist", ())), "must be 'Exists'"),
    "no values": (scoped((PRIORITY, "In", ())), "must be at least one value"),
    "no values either": (scoped((PRIORITY, "NotIn", ())), "must be at least one value"),
    "needless values": (scoped((PRIORITY, "Exists", ["a"])), "must be no value"),
    "contradicting expressions": (
        scoped(("BestEffort", "Exists", ()), ("NotBestEffort", "Exists", ())),
        "conflicting scopes",
    ),
    "lower-case operator": (scoped((PRIORITY, "in", ["a"])), '"in"'),
}
ACCEPTED = {
    "everything": {
        "hard": {
            "pods": "1",
            "requests.cpu": "1500m",
            "limits.memory": "1Gi",
            "ephemeral-storage": "1e3",
            "requests.hugepages-1Gi": "1",
            "requests.example.com/gpu": "1.5",
            "cpu/vmi": "1000m",
            "requests.cpu/vmi": "500m",
        }
    },
    "no limits": {},
    "empty limits": {"hard": {}},
    "numbers": {"hard": {"pods": 3, "cpu": 2}},
    "scopes": {"hard": {"pods": "1", "cpu": "1"}, "scopes": ["NotBestEffort", "Terminating"]},
    "foreign names under a scope": {"hard": {"cpu/vmi": "1"}, "scopes": ["BestEffort"]},
    "one scope twice": {"hard": {"pods": "1"}, "scopes": ["BestEffort", "BestEffort"]},
    "contradiction in two notations": {
        **scoped(("NotBestEffort", "Exists", ())),
        "scopes": ["BestEffort"],
    },
    "priorities": scoped((PRIORITY, "In", ["a", "b"]), (PRIORITY, "NotIn", ["c"])),
    "any priority": scoped((PRIORITY, "Exists", ())),
    "no priority": scoped((PRIORITY, "DoesNotExist", ())),
    "empty selector": {"hard": {"pods": "1"}, "scopeSelector": {}},
}
NAMESPACED_ONLY = {
    "huge pages": {"hard": {"hugepages-2Mi": "0"}},
    "objects": {"hard": {"services": "1", "count/deployments.apps": "2", "secrets": "0"}},
    "storage of a class": {"hard": {"fast.storageclass.storage.k8s.io/requests.storage": "1Gi"}},
    "volumes": {
        "hard": {"persistentvolumeclaims": "1", "requests.storage": "1Gi"},
        "scopes": ["VolumeAttributesClass"],
    },
}


def selecting(**labels):
    return {"quota": {"hard": {"pods": "1"}}, "selector": {"labels": labels}}


def requirement(operator, *values, key="team"):
    found = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return selecting(matchExpressions=[found])


SELECTORS_REFUSED = {
    "lower-case operator": (requirement("in", "a"), '"in"'),
    "unknown operator": (requirement("Gt", "1"), '"Gt"'),
    "no values": (requirement("In"), "values set can't be empty"),
    "needless values": (requirement("Exists", "a"), "values set must be empty"),
    "odd key": (requirement("Exists", key="a b"), "name part must"),
    "odd value": (requirement("In", "?"), "a valid label must be"),
    "long value": (requirement("NotIn", "x" * 64), "must be"),
    "odd label": (selecting(matchLabels={"a b": "c"}), "name part must"),
    "odd label value": (selecting(matchLabels={"a": "?"}), "a valid label must be"),
    "services": (
        {"quota": {"hard": {"services": "1"}}, "selector": {}},
        "non scheduable resources :[services]",
    ),
    "counts": (
        {"quota": {"hard": {"count/pods": "1"}}, "selector": {}},
        "non scheduable resources :[count/pods]",
    ),
    "volumes": (
        {"quota": {"hard": {"requests.storage": "1"}}, "selector": {}},
        "non scheduable resources :[requests.storage]",
    ),
}
SELECTORS_ACCEPTED = {
    "all": {"quota": {"hard": {"pods": "1"}}, "selector": {}},
    "null": {"quota": {"hard": {"pods": "1"}}, "selector": {"labels": None, "annotations": None}},
    "labels": selecting(matchLabels={"team": "a", "example.com/x": ""}),
    "expressions": {
        "quota": {"hard": {"pods": "1"}},
        "selector": {
            "labels": {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["b", ""]},
                    {"key": "a", "operator": "NotIn", "values": ["c"]},
                    {"key": "a", "operator": "Exists"},
                    {"key": "d", "operator": "DoesNotExist"},
                ]
            },
            "annotations": {"a": "b c"},
        },
    },
}


def cases():
    """Kind, spec, and what the refusal says; None if the quota is accepted."""
    for title, (spec, words) in REFUSED.items():
        yield f"{title}", (QuotaKind.NAMESPACED, spec, words)
        yield f"cluster, {title}", (QuotaKind.CLUSTER, {"quota": spec, "selector": {}}, words)
    for title, spec in ACCEPTED.items():
        yield f"{title}", (QuotaKind.NAMESPACED, spec, None)
        yield f"cluster, {title}", (QuotaKind.CLUSTER, {"quota": spec, "selector": {}}, None)
    for title, spec in NAMESPACED_ONLY.items():
        yield title, (QuotaKind.NAMESPACED, spec, None)
    for title, (spec, words) in SELECTORS_REFUSED.items():
        yield f"selector, {title}", (QuotaKind.CLUSTER, spec, words)
    for title, spec in SELECTORS_ACCEPTED.items():
        yield f"selector, {title}", (QuotaKind.CLUSTER, spec, None)


CASES = dict(cases())


def body_of(kind, spec):
    resource = KIND[kind]
    name = f"v{uuid.uuid4().hex[:8]}"
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": {"name": name}, "spec": spec}
