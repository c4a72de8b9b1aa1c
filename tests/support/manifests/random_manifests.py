"""Random manifests of pods and workloads: good ones, and ones broken in a few places.

A manifest starts as a good one. Each change is made at a random place: a value for the field's type
that may not suit, a subtree made from the field types, a field that does not exist, a field less,
an item twice. The same seed gives the same manifests.
"""

import json
import random
from copy import deepcopy
from typing import Any

from bursar.wire.validation.field_types import FIELD_TYPES

Raw = dict[str, Any]
KINDS = {
    "Pod": "v1",
    "PodTemplate": "v1",
    "ReplicationController": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}
FIELDS = {
    kind: dict(pair.split("=", 1) for pair in fields.split())
    for kind, fields in FIELD_TYPES.items()
}
TEXTS = ["", "a", "web", "Bad_Name", "a.b", "-x", "x-", "x" * 64, "a" * 254, "é", "/abs", "../up"]
TEXTS += ["..x", "a/b", "a b", " pad ", "None", "Always", "Never", "data", "1.2.3.4", "example.com"]
TEXTS += ["example.com/x", "25%", "0", "5", "-1", "<&>"]
SUITABLE = {
    "name": ["web", "app", "data", "c0", "a.b", "UP", "", "http", "x" * 64],
    "image": ["example.com/app:1", "nginx", "", " nginx"],
    "restartPolicy": ["Always", "OnFailure", "Never", "Alwyas", "", "NotRequired"]
    + ["RestartContainer"],
    "dnsPolicy": ["ClusterFirst", "Default", "None", "ClusterFirstWithHostNet", "clusterfirst"],
    "imagePullPolicy": ["Always", "IfNotPresent", "Never", "never", ""],
    "protocol": ["TCP", "UDP", "SCTP", "tcp", ""],
    "operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "in", ""],
    "effect": ["NoSchedule", "PreferNoSchedule", "NoExecute", "", "Evict"],
    "key": ["app", "example.com/k", "a b", "", "zone", "k" * 64],
    "value": ["x", "", "a b", "ok.value", "5", "v" * 64],
    "type": ["RollingUpdate", "Recreate", "OnDelete", "Localhost", "RuntimeDefault", "Unconfined"]
    + ["Directory", "", "Ready", "rolling"],
    "fieldPath": ["metadata.name", "status.podIP", "metadata.labels['a']", "metadata.labels"]
    + ["metadata.annotations['A B']", "spec.host", "spec.foo", "status.phase['x']", ""],
    "resource": ["limits.cpu", "requests.memory", "limits.hugepages-2Mi", "cpu", ""],
    "divisor": ["1", "1m", "1Mi", "0", "3", "1k"],
    "containerName": ["c0", "app", ""],
    "topologyKey": ["zone", "kubernetes.io/hostname", "", "a b"],
    "whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway", "", "Maybe"],
    "nodeAffinityPolicy": ["Honor", "Ignore", "x"],
    "nodeTaintsPolicy": ["Honor", "Ignore", ""],
    "mountPath": ["/data", "/x", "", "rel", "/a:b"],
    "devicePath": ["/dev/x", "", "/dev/../y", "/data"],
    "subPath": ["a/b", "/abs", "../x", ""],
    "subPathExpr": ["$(X)", "/abs", ""],
    "mountPropagation": ["None", "HostToContainer", "Bidirectional", "x"],
    "recursiveReadOnly": ["Disabled", "Enabled", "IfPossible", "x"],
    "schedule": ["*/5 * * * *", "@hourly", "@every 1h", "* * * *", "61 * * * *", "a b c d e"]
    + ["0 0 * jan mon", "@never", "1-2-3 * * * *", "*/0 * * * *", "TZ=UTC 0 0 * * *", "@every x"],
    "timeZone": ["UTC", "Etc/UTC", "", "Local", "No where", "../x"],
    "concurrencyPolicy": ["Allow", "Forbid", "Replace", "Deny"],
    "completionMode": ["Indexed", "NonIndexed", "x"],
    "podReplacementPolicy": ["Failed", "TerminatingOrFailed", "x"],
    "podManagementPolicy": ["OrderedReady", "Parallel", "x"],
    "action": ["FailJob", "Ignore", "Count", "FailIndex", "Restart", "RestartAllContainers", ""],
    "status": ["True", "False", "Unknown", "x", ""],
    "succeededIndexes": ["0-1", "1,3", "2-1", "x", "0,0", "9", ""],
    "managedBy": ["example.com/me", "me", "", "a/b/c", "kubernetes.io/job-controller"],
    "ip": ["10.0.0.1", "010.0.0.1", "::1", "::ffff:1.2.3.4", "x", "1.2.3", "fe80::1%a"],
    "hostIP": ["10.0.0.1", "x", ""],
    "path": ["a/b", "/abs", "../x", "..data", "", "x"],
    "scheme": ["HTTP", "HTTPS", "http", ""],
    "medium": ["Memory", "", "x", "HugePages"],
    "volumeMode": ["Block", "Filesystem", "x"],
    "resourceName": ["cpu", "memory", "disk", ""],
    "terminationMessagePolicy": ["File", "FallbackToLogsOnError", "x"],
    "procMount": ["Default", "Unmasked", "x"],
    "fsGroupChangePolicy": ["Always", "OnRootMismatch", "x"],
    "supplementalGroupsPolicy": ["Merge", "Strict", "x"],
    "seLinuxChangePolicy": ["Recursive", "MountOption", "x"],
    "preemptionPolicy": ["PreemptLowerPriority", "Never", "", "x"],
    "apiVersion": ["v1", "v2", "", "apps/v1"],
    "iqn": ["iqn.2020-01.com.example:x", "iqn.x", "eui.0123456789abcdef", "x", ""],
    "initiatorName": ["iqn.2020-01.com.example:x", "naa.x", "y"],
    "diskURI": ["https://a.blob", "/subscriptions/x", "x", ""],
    "kind": ["Managed", "Shared", "Dedicated", "PersistentVolumeClaim", "Event", "x"],
    "cachingMode": ["None", "ReadOnly", "ReadWrite", "x"],
    "driver": ["csi.example.com", "Bad_", "", "x" * 64],
    "runAsUserName": ["user", "dom\\user", "a\\b\\c", "", "..", "u:x", "bad/dom\\u"],
    "claimName": ["claim", ""],
    "secretName": ["s", ""],
    "volumeName": ["data", "nope", "Bad"],
    "creationTimestamp": ["2026-01-01T00:00:00Z"],
    "deletionTimestamp": ["2026-01-01T00:00:00Z"],
}
LIST_TEXTS = {
    "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod", "x"],
    "nameservers": ["1.1.1.1", "x", "::1", "01.1.1.1"],
    "searches": ["example.com", "a_b.c", ".", "Bad", "x."],
    "matchLabelKeys": ["app", "tier", "a b"],
    "mismatchLabelKeys": ["app", "tier"],
    "finalizers": ["example.com/f", "orphan", "foregroundDeletion", "a b"],
    "add": ["NET_ADMIN", "CAP_SYS_ADMIN"],
    "values": ["x", "a b", "5", ""],
}
NUMBERS = [0, 1, 2, 5, 30, 80, 443, 511, 600, 65535, 65536, -1, 1 << 31, (1 << 31) - 1, 100, 101]
AMOUNTS = ["100m", "1", "64Mi", "1Gi", "0", "500m"]
RESOURCES = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "storage"]
LABELS = [{"app": "web"}, {"app": "web", "tier": "a"}, {"a b": "x"}, {"app": "-"}, {}]
ANNOTATIONS = ["controller.kubernetes.io/pod-deletion-cost", "kubernetes.io/config.mirror"]
ANNOTATIONS += ["seccomp.security.alpha.kubernetes.io/pod", "a b"]
ANNOTATIONS += ["container.seccomp.security.alpha.kubernetes.io/c0"]
ANNOTATIONS += ["container.apparmor.security.beta.kubernetes.io/c0"]
ANNOTATIONS += ["container.apparmor.security.beta.kubernetes.io/nope"]
PROFILES = ["runtime/default", "unconfined", "localhost/x", "localhost//x", "5", "05", "-3", "x"]
NOT_GENERATED = {"status", "managedFields", "selfLink", "podCertificate", "clusterTrustBundle"}
NOT_GENERATED |= {"overhead", "stopSignal", "creationTimestamp", "deletionTimestamp"}
NOT_GENERATED |= {"namespace", "resourceVersion", "generation", "schedulingGroup"}
TOP = {"apiVersion", "kind"}


def _routes(kind: str) -> dict[str, list[tuple[str, str]]]:
    """The shortest way to each type below a kind: the fields, each with its type."""
    found: dict[str, list[tuple[str, str]]] = {}
    waiting: list[tuple[str, list[tuple[str, str]]]] = [(kind, [])]
    for type_, way in waiting:
        for name, inner in FIELDS[type_].items():
            target = inner.strip("[]{}")
            if name not in NOT_GENERATED and target in FIELDS and target not in found:
                found[target] = [*way, (name, inner)]
                waiting.append((target, found[target]))
    return found


def as_kubectl_sends(manifest: Raw) -> Raw:
    """The manifest with the keys of each object sorted."""
    sent: Raw = json.loads(json.dumps(manifest, sort_keys=True))
    return sent


ROUTES = {kind: _routes(kind) for kind in KINDS}


class Manifests:
    """A source of manifests. `choose` is the only source of chance."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)  # noqa: S311 - a test has to repeat

    def manifest(self, *, changes: int | None = None) -> Raw:
        made = self.good()
        if changes is None:
            changes = self.choose.choice([0, 1, 1, 1, 1, 2, 2, 3])
        for _ in range(changes):
            self.change(made)
        return as_kubectl_sends(made)

    # -------------------------------------------------------------- good ones

    def good(self) -> Raw:
        pick = self.choose
        kind = pick.choice(["Pod"] * 6 + [*KINDS])
        made: Raw = {"apiVersion": KINDS[kind], "kind": kind, "metadata": {"name": "web"}}
        if pick.random() < 0.3:
            made["metadata"]["annotations"] = {"example.com/note": "Hello"}
        if pick.random() < 0.05:
            made["metadata"]["generateName"] = pick.choice(["web-", "Web-", "a.b"])
        spec = self.pod_spec()
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        match kind:
            case "Pod":
                made["metadata"]["labels"] = labels
                made["spec"] = spec
            case "PodTemplate":
                made["template"] = template
            case "ReplicationController":
                made["spec"] = {"replicas": 2, "template": template}
            case "Job" | "CronJob":
                spec["restartPolicy"] = pick.choice(["OnFailure", "Never"])
                job: Raw = {"template": template}
                if pick.random() < 0.3:
                    job |= {"completions": 3, "completionMode": "Indexed"}
                made["spec"] = (
                    job
                    if kind == "Job"
                    else {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job}}
                )
            case _:
                made["spec"] = {"selector": {"matchLabels": labels}, "template": template}
        if kind == "StatefulSet":
            made["spec"]["serviceName"] = "web"
        return deepcopy(made)

    def pod_spec(self) -> Raw:
        pick = self.choose
        containers = [self.container(f"c{index}") for index in range(pick.choice([1, 1, 2]))]
        spec: Raw = {"containers": containers, "volumes": [{"name": "data", "emptyDir": {}}]}
        if pick.random() < 0.2:
            spec["initContainers"] = [{"name": "init", "image": "example.com/init"}]
        if pick.random() < 0.2:
            spec["tolerations"] = [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]
        if pick.random() < 0.2:
            spec["securityContext"] = {"runAsUser": 1000, "runAsNonRoot": True}
        if pick.random() < 0.2:
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            required = {"nodeSelectorTerms": [term]}
            name = "requiredDuringSchedulingIgnoredDuringExecution"
            spec["affinity"] = {"nodeAffinity": {name: required}}
        return spec

    def container(self, name: str) -> Raw:
        pick = self.choose
        made: Raw = {"name": name, "image": "example.com/app:1"}
        if pick.random() < 0.5:
            made["ports"] = [{"name": "http", "containerPort": 8080}]
        if pick.random() < 0.5:
            made["env"] = [{"name": "A", "value": "b"}]
        if pick.random() < 0.5:
            made["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        if pick.random() < 0.3:
            made["readinessProbe"] = {"httpGet": {"path": "/", "port": "http"}}
        if pick.random() < 0.3:
            made["resources"] = {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}
        return made

    # -------------------------------------------------------------- changes

    def change(self, made: Raw) -> None:
        """Change one place of the manifest."""
        if self.choose.random() < 0.5:
            self.graft(made)
            return
        holder, type_ = self._place(made)
        fields = FIELDS[type_]
        pick = self.choose
        way = pick.random()
        # Not at the top: objects of another kind or version are not what is asked about.
        present = [name for name in holder if name in fields and name not in NOT_GENERATED | TOP]
        if way < 0.12:
            holder[pick.choice(["foo", "Image", "nmae", "restartpolicy"])] = "x"
        elif way < 0.2 and present:
            name = pick.choice(present)
            holder[name] = self._wrong_type(fields[name])
        elif way < 0.3 and present and type_ not in KINDS:
            del holder[pick.choice(present)]
        elif way < 0.4 and (lists := [n for n in present if isinstance(holder[n], list)]):
            items = holder[pick.choice(lists)]
            items += deepcopy(items)
        else:
            name = pick.choice(sorted(fields.keys() - NOT_GENERATED - TOP - {"uid"}))
            if type_ not in KINDS or name == "spec":
                holder[name] = self.value(fields[name], name, depth=2)

    def graft(self, made: Raw) -> None:
        """Put a random object of a random type where the manifest can have one."""
        pick = self.choose
        ways = ROUTES[made["kind"]]
        type_ = pick.choice(sorted(ways))
        holder: Raw = made
        *way, (name, wanted) = ways[type_]
        for step, inner in way:
            found = holder.get(step)
            if inner[0] == "[":
                if not isinstance(found, list) or not found:
                    found = holder[step] = [self._object(inner[1:-1], 0)]
                found = pick.choice(found)
            elif not isinstance(found, dict):
                found = holder[step] = {}
            if not isinstance(found, dict):
                return
            holder = found
        grafted = self.value(wanted, name, depth=3)
        if isinstance(grafted, list) and isinstance(holder.get(name), list):
            grafted = holder[name] + grafted
        holder[name] = grafted

    def _place(self, made: Raw) -> tuple[Raw, str]:
        """A random object in the manifest, and its type. Deep ones are as likely as flat ones."""
        places: list[tuple[Raw, str]] = []
        self._collect(made, made["kind"], places)
        deep = [place for place in places if place[1] not in KINDS]
        return self.choose.choice(deep)

    def _collect(self, value: Any, type_: str, places: list[tuple[Raw, str]]) -> None:
        if type_[0] == "[" and isinstance(value, list):
            for item in value:
                self._collect(item, type_[1:-1], places)
        elif type_ in FIELDS and isinstance(value, dict):
            places.append((value, type_))
            for name, inner in FIELDS[type_].items():
                if name in value:
                    self._collect(value[name], inner, places)

    def _wrong_type(self, type_: str) -> Any:
        wrong = {"s": [5, True, ["x"], {"a": "b"}], "b": ["true", 1], "i": ["5", 1.5, 1 << 40]}
        return self.choose.choice(wrong.get(type_[0], ["x", 7, None]))

    # -------------------------------------------------------------- values by type

    def value(self, type_: str, name: str, *, depth: int) -> Any:
        pick = self.choose
        if type_[0] == "[":
            count = pick.choice([0, 1, 1, 2])
            if type_ == "[s]" and name in LIST_TEXTS:
                return [pick.choice(LIST_TEXTS[name]) for _ in range(count)]
            return [self.value(type_[1:-1], name, depth=depth) for _ in range(count)]
        if type_ == "{q}":
            return {
                pick.choice(RESOURCES): pick.choice(AMOUNTS) for _ in range(pick.choice([1, 2]))
            }
        if name == "annotations" and pick.random() < 0.8:
            return {pick.choice(ANNOTATIONS): pick.choice(PROFILES) for _ in range(2)}
        if type_[0] == "{":
            return dict(pick.choice(LABELS))
        if type_ in FIELDS:
            return self._object(type_, depth)
        return pick.choice(self._scalars(type_, name))

    def _scalars(self, type_: str, name: str) -> list[Any]:
        most = NUMBERS[:-4] if self.choose.random() < 0.8 else NUMBERS
        kinds: dict[str, list[Any]] = {
            "s": SUITABLE.get(name, TEXTS),
            "i": most,
            "l": most,
            "b": [True, False],
            "q": SUITABLE.get(name, AMOUNTS),
            "x": [0, 1, 80, 70000, "http", "25%", "0%", "101%", "", "x--y"],
            "t": ["2026-01-01T00:00:00Z", "yesterday"],
            "o": [{}],
        }
        return kinds[type_]

    def _object(self, type_: str, depth: int) -> Raw:
        fields = sorted(FIELDS[type_].keys() - NOT_GENERATED)
        if type_ == "ObjectMeta":
            fields.remove("uid")
        if depth <= 0:
            fields = [name for name in fields if len(FIELDS[type_][name]) == 1]
        most = min(len(fields), 2 if type_ in {"VolumeProjection", "Volume"} else 4)
        chosen = self.choose.sample(fields, self.choose.randint(0, most)) if fields else []
        if "name" in fields and self.choose.random() < 0.8:
            chosen.append("name")
        return {
            name: self.value(FIELDS[type_][name], name, depth=depth - 1)
            for name in sorted({*chosen})
        }
