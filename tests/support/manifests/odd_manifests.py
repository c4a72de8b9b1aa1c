"""Manifests with one odd part each, for rules that random manifests hardly reach."""

from collections.abc import Iterator
from typing import Any

from support.manifests.random_manifests import KINDS, as_kubectl_sends

Raw = dict[str, Any]
LABELS = {"app": "web"}
WINDOWS = ["user", "dom\\user", "a\\b\\c", "", "..", "u:x", "bad/dom\\u", "dom\\", "x\x01"]
WINDOWS += ["d" * 256 + "\\u", "u" * 105]
SCHEDULES = ["TZ=UTC", "TZ=UTC 0 0 * * *", "* * * *", "1,,2 * * * *", "@every 1h30m", "@every x"]
SCHEDULES += ["@foo", "1-2-3 * * * *", "1/2/3 * * * *", "* * 0 * *", "5-1 * * * *", "-1 * * * *"]
SCHEDULES += ["*/0 * * * *", "*/-1 * * * *", "99 * * * *", "* * * foo *", "* * * jan-feb sun"]
SCHEDULES += ["0/5 * * * *", "? * * * *", "+1 * * * *", "1-5/2 * * * *"]
INDEXES = ["0-1", "1,3", "2-1", "x", "0,0", "9", "", "1-2-3", "0-9", "0-1,1", "x-1", "1-x"]
ADDRESSES = ["999.1.1.1", "1.2.3.4", "01.2.3.4", "::1", "::ffff:1.2.3.4", "x", "fe80::1%a", ""]
ENV_NAMES = ["é", "a=b", "1", " ", "\t"]
CONFIG_KEYS = [".", "..", "..x", "a b", "k" * 254, "ok"]
PORT_NAMES = ["x" * 16, "a--b", "-a", "a-", "80", "A", "http"]
SYSCTLS = ["net.x", "net/x", "kernel.sem", "fs.mqueue.x", "Bad", "s" * 254, ""]


def odd_manifests() -> Iterator[Raw]:
    for part in (_single(), _pods(), _volumes(), _security(), _workloads(), _jobs()):
        yield from map(as_kubectl_sends, part)


def _object(kind: str, spec: Raw, **meta: Any) -> Raw:
    metadata = {"name": "web", **meta}
    return {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, "spec": spec}


def _container(**fields: Any) -> Raw:
    return {"name": "c0", "image": "example.com/app", **fields}


def _pod(annotations: Raw | None = None, /, **spec: Any) -> Raw:
    spec.setdefault("containers", [_container()])
    return _object("Pod", spec, labels=LABELS, annotations=annotations or {})


def _template(**spec: Any) -> Raw:
    spec.setdefault("containers", [_container()])
    return {"metadata": {"labels": LABELS}, "spec": spec}


def _single() -> Iterator[Raw]:
    """One manifest for each rule that no list below reaches."""
    restarted = {"template": _template(restartPolicy="x")}
    yield _object("Job", restarted)
    spec = {"schedule": "@daily", "concurrencyPolicy": "x", "jobTemplate": {"spec": restarted}}
    yield _object("CronJob", spec)
    selector = {"matchLabels": LABELS}
    spec = {"selector": selector, "template": _template(), "podManagementPolicy": "x"}
    yield _object("StatefulSet", spec)
    yield _pod(hostNetwork=True, containers=[_container(ports=[{"containerPort": 80}])])
    spread = {"maxSkew": 1, "topologyKey": "z", "labelSelector": selector}
    spread |= {"matchLabelKeys": ["app"], "minDomains": 2, "whenUnsatisfiable": "DoNotSchedule"}
    yield _pod(topologySpreadConstraints=[spread])
    yield _pod(os={"name": "linux"}, securityContext={"windowsOptions": {}})
    portal = {"targetPortal": "p", "iqn": "eui.x"}
    for source in ({"nfs": {"server": "s", "path": "/x"}}, {"iscsi": portal}, {"ephemeral": {}}):
        yield _pod(volumes=[{"name": "v", **source}])
    yield _pod(volumes=[{"name": "v", "image": {"pullPolicy": "x"}}])
    claim = {"kind": "PersistentVolumeClaim", "name": "c"}
    storage = {"requests": {"storage": "1Gi"}}
    cloned = {"accessModes": ["ReadWriteOnce"], "resources": storage, "dataSource": claim}
    ephemeral = {"volumeClaimTemplate": {"spec": cloned}}
    yield _pod(volumes=[{"name": "v", "ephemeral": ephemeral}])
    probe = {"tcpSocket": {"port": 80}, "initialDelaySeconds": 1.5}
    yield _pod(containers=[_container(livenessProbe=probe)])
    yield _pod(containers=[_container(livenessProbe={**probe, "initialDelaySeconds": True})])


def _pods() -> Iterator[Raw]:
    for name in PORT_NAMES:
        port = {"name": name, "containerPort": 80, "hostPort": 80}
        yield _pod(containers=[_container(ports=[port, port])], hostNetwork=True)
        yield _pod(containers=[_container(ports=[{**port, "hostPort": 81}])], hostNetwork=True)
        yield _pod(initContainers=[{**_container(ports=[port, port]), "name": "i"}])
    for name in ENV_NAMES:
        yield _pod(containers=[_container(env=[{"name": name}], envFrom=[{"prefix": name}])])
    for key in CONFIG_KEYS:
        source = {"configMapKeyRef": {"name": "x", "key": key}}
        yield _pod(containers=[_container(env=[{"name": "A", "valueFrom": source}])])
    for address in ADDRESSES:
        yield _pod(hostAliases=[{"ip": address, "hostnames": ["a", "B"]}])
    searches = [["a." * 130], ["x"] * 33, ["y" * 60] * 32 + ["z" * 200]]
    for each in searches:
        yield _pod(dnsConfig={"searches": each, "nameservers": ["1.1.1.1"] * 4})
    yield _pod(dnsPolicy="None")
    yield _pod(dnsPolicy="None", dnsConfig={"nameservers": ["1.1.1.1"], "options": [{}]})
    yield _pod(shareProcessNamespace=True, hostPID=True)
    hidden = {"allowPrivilegeEscalation": False, "privileged": True}
    for context in (hidden, {**hidden, "capabilities": {"add": ["CAP_SYS_ADMIN", "X"]}}):
        yield _pod(containers=[_container(securityContext=context)])
    debug = {"name": "d", "image": " i ", "targetContainerName": "nope", "ports": []}
    mount = {"name": "v", "mountPath": "/x", "subPath": "a", "subPathExpr": "b"}
    for extra in ({"resources": {"limits": {}}}, {"volumeMounts": [mount]}, {"stdin": True}):
        yield _pod(ephemeralContainers=[{**debug, **extra}])
    owner = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}
    owned = _pod()
    owned["metadata"]["ownerReferences"] = [owner]
    yield owned
    yield _pod(dnsPolicy="None", dnsConfig={"searches": ["a"]})
    yield _pod(hostnameOverride="h" * 65, setHostnameAsFQDN=True, hostNetwork=True)
    file = {"fileKeyRef": {"key": "K", "volumeName": "v", "path": "p"}}
    variable = _container(env=[{"name": "A", "valueFrom": file}])
    for source in ({"emptyDir": {}}, {"hostPath": {"path": "/x"}}, {}):
        yield _pod(containers=[variable], volumes=[{"name": "v", **source}])
    yield _pod(containers=[variable])
    yield from _containers()


def _containers() -> Iterator[Raw]:
    codes = {"operator": "In", "values": [*range(256)]}
    rules = [{"action": "Restart", "exitCodes": codes}] * 21
    yield _pod(containers=[_container(restartPolicy="Never", restartPolicyRules=rules)])
    yield _pod(initContainers=[{**_container(restartPolicyRules=rules[:1]), "name": "i"}])
    probe = {"exec": {"command": ["x"]}}
    sidecar = {**_container(restartPolicy="Always", livenessProbe=probe), "name": "i"}
    yield _pod(initContainers=[{**sidecar, "lifecycle": {"preStop": {"exec": {}}}}])
    for policy in ({"resourceName": "cpu", "restartPolicy": "RestartContainer"},):
        yield _pod(initContainers=[{**_container(resizePolicy=[policy]), "name": "i"}])
        yield _pod(containers=[_container(resizePolicy=[policy])], restartPolicy="Never")
    device = _container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    yield _pod(containers=[device], volumes=[claim], hostUsers=False, hostPID=True, hostIPC=True)
    wanted = {"key": "metadata.name", "operator": "In", "values": ["a", "B"]}
    for match in (wanted, {**wanted, "values": ["Bad"]}, {**wanted, "key": "x", "operator": "Gt"}):
        required = {"nodeSelectorTerms": [{"matchFields": [match]}]}
        name = "requiredDuringSchedulingIgnoredDuringExecution"
        yield _pod(affinity={"nodeAffinity": {name: required}})


def _volumes() -> Iterator[Raw]:
    for source in (*_projected(), *_sources()):
        yield _pod(volumes=[{"name": "v", **source}])
    yield from _claims()


def _projected() -> list[Raw]:
    item = {"key": "k", "path": "p"}
    token = {"path": "p", "expirationSeconds": 1}
    projections: list[list[Raw]] = [
        [{"secret": {"name": "s", "items": [item, item]}}],
        [{"secret": {"name": "s"}, "configMap": {"name": "c"}}],
        [{"serviceAccountToken": token}],
        [{"serviceAccountToken": {"path": "p", "expirationSeconds": 1 << 33}}],
        [{"serviceAccountToken": {}}],
        [{"downwardAPI": {"items": [{"path": ""}]}}],
    ]
    sources: list[Raw] = [{"projected": {"sources": each}} for each in projections]
    both = {"fieldRef": {"fieldPath": "metadata.name"}, "resourceFieldRef": {"resource": "x"}}
    sources += [{"downwardAPI": {"items": [{"path": "p", **both}, {"path": "p"}]}}]
    return sources


def _sources() -> list[Raw]:
    sources: list[Raw] = [{"fc": {"targetWWNs": ["a"], "lun": lun}} for lun in (None, 256, 5)]
    registries = (("a:1,b", ""), ("a:1", "t" * 65), ("[::1]:1", "t"), ("a", ""))
    sources += [
        {"quobyte": {"registry": registry, "volume": "v", "tenant": tenant}}
        for registry, tenant in registries
    ]
    sources += [
        {"flexVolume": {"driver": "d", "options": {key: "v"}}}
        for key in ("kubernetes.io/x", "a.k8s.io", "example.com/x")
    ]
    sources += [
        {"azureDisk": {"diskName": "d", "diskURI": uri, "kind": kind}}
        for uri in ("/subscriptions/x", "https://x", "x")
        for kind in ("Managed", "Shared", None)
    ]
    portal = {"targetPortal": "p" * 64, "iqn": "iqn.2020-01.com.example:x", "initiatorName": "x"}
    sources += [{"iscsi": portal}, {"iscsi": {"chapAuthSession": True}}]
    sources += [{"hostPath": {}}, {"hostPath": {"path": "/x", "type": "x"}}]
    sources += [{"gitRepo": {"repository": "r", "directory": "/x"}}, {"nfs": {"path": "x"}}]
    sources += [{"flocker": {"datasetName": "a/b", "datasetUUID": "u"}}, {"flocker": {}}]
    sources += [{"storageos": {"volumeName": "Bad", "secretRef": {}}}, {"storageos": {}}]
    sources += [{"csi": {"driver": "Bad_" + "x" * 64, "nodePublishSecretRef": {"name": "Bad"}}}]
    sources += [{"csi": {"driver": "a.b", "nodePublishSecretRef": {}}}, {"csi": {}}]
    sources += [{"cinder": {"volumeID": "v", "secretRef": {}}}, {"cinder": {"volumeID": "v"}}]
    sources += [{"azureDisk": {"diskName": "d", "diskURI": "https://x", "cachingMode": "x"}}]
    sources += [{"azureDisk": {"diskName": "d", "diskURI": "https://x", "kind": "x"}}]
    sources += [{"fc": {"targetWWNs": ["a"], "wwids": ["b"], "lun": 1}}, {"fc": {}}]
    sources += [{"fc": {"wwids": ["b"]}}, {"iscsi": {"targetPortal": "p", "iqn": "x", "lun": 256}}]
    sources += [{"gcePersistentDisk": {"pdName": "d", "partition": 256}}]
    return sources


def _claims() -> Iterator[Raw]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    snapshot = {"apiGroup": "a.io", "kind": "S", "name": "s"}
    changes: list[Raw] = [
        {"accessModes": ["x"], "volumeMode": "x", "storageClassName": "Bad"},
        {"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]},
        {"resources": {"requests": {"storage": "0"}}},
        {"resources": {"requests": {"storage": None}}},
        {"dataSource": snapshot, "dataSourceRef": snapshot},
        {"dataSource": snapshot, "dataSourceRef": {**snapshot, "namespace": "Bad"}},
        {"dataSourceRef": {**snapshot, "namespace": "other"}},
        {"dataSource": snapshot, "dataSourceRef": {**snapshot, "name": "t"}},
        {"dataSource": {"kind": "S", "name": "s"}},
    ]
    for change in ({}, *changes):
        for meta in ({}, {"labels": {"a": "b"}}, {"name": "n", "finalizers": ["a/b"], "uid": "u"}):
            template = {"metadata": meta, "spec": {**spec, **change}}
            ephemeral = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
            mine = {"name": "w", "persistentVolumeClaim": {"claimName": "web-v"}}
            yield _pod(volumes=[ephemeral, mine])
    template = {"spec": spec}
    yield _pod(volumes=[{"name": "v" * 63, "ephemeral": {"volumeClaimTemplate": template}}])
    long = _pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}])
    long["metadata"]["name"] = "n" * 253
    yield long


def _security() -> Iterator[Raw]:
    for name in WINDOWS:
        options = {"runAsUserName": name, "gmsaCredentialSpec": "", "hostProcess": True}
        yield _pod(containers=[_container(securityContext={"windowsOptions": options})])
    for own, inner in ((True, False), (False, True), (True, None), (None, True)):
        contexts = [{"windowsOptions": {"hostProcess": each}} for each in (own, inner)]
        second = {**_container(), "name": "c1"}
        both = [_container(securityContext=contexts[1]), second]
        yield _pod(securityContext=contexts[0], containers=both, hostNetwork=own is None)
    for name in SYSCTLS:
        context = {"sysctls": [{"name": name, "value": "1"}] * 2}
        yield _pod(securityContext=context, hostNetwork=True, hostIPC=True)
    for path in (None, "", " x", "p" * 4096, "x"):
        profile = {"type": "Localhost", "localhostProfile": path}
        both = {"appArmorProfile": profile, "seccompProfile": profile}
        yield _pod(securityContext=both)
        for value in ("localhost/x", "localhost/y", "unconfined"):
            yield _pod(_profiles(value), containers=[_container(securityContext=both)])
    for kind in ("Unconfined", "RuntimeDefault", "Other"):
        profile = {"type": kind}
        both = {"appArmorProfile": profile, "seccompProfile": profile}
        for value in ("unconfined", "runtime/default", "docker/default"):
            yield _pod(_profiles(value), securityContext=both)
            yield _pod(_profiles(value), containers=[_container(securityContext=both)])
    context = {"windowsOptions": {}, "privileged": True, "runAsUser": 1, "procMount": "Default"}
    for system in ("linux", "windows", "plan9", ""):
        own = {"windowsOptions": {}, "fsGroup": 1, "sysctls": [{"name": "a", "value": "1"}]}
        inner = [_container(securityContext=context)]
        extra = {"hostPID": True, "hostUsers": True, "shareProcessNamespace": False}
        spec = {"os": {"name": system}, "securityContext": own, "containers": inner, **extra}
        yield _pod(**spec)
        yield _pod(_profiles("unconfined"), **spec, resources={"claims": []})


def _profiles(value: str) -> Raw:
    return {
        "seccomp.security.alpha.kubernetes.io/pod": value,
        "container.seccomp.security.alpha.kubernetes.io/c0": value,
        "container.apparmor.security.beta.kubernetes.io/c0": value,
    }


def _workloads() -> Iterator[Raw]:
    selector = {"matchLabels": LABELS}
    rolling = [None, {}, {"maxUnavailable": 0, "maxSurge": 0}, {"maxUnavailable": "101%"}]
    rolling += [{"maxUnavailable": "x", "maxSurge": "5"}, {"maxUnavailable": 0, "maxSurge": "1%"}]
    rolling += [{"maxUnavailable": -1}, {"maxSurge": 1}, {"partition": -1}]
    for kind, field in (
        ("Deployment", "strategy"),
        ("DaemonSet", "updateStrategy"),
        ("StatefulSet", "updateStrategy"),
    ):
        for type_ in (None, "Recreate", "OnDelete", "RollingUpdate", "x"):
            for each in rolling:
                if each is not None and "partition" in each and kind != "StatefulSet":
                    continue
                if each and kind == "StatefulSet" and "partition" not in each:
                    continue
                strategy = {"type": type_, "rollingUpdate": each}
                spec = {"selector": selector, "template": _template(), field: strategy}
                yield _object(kind, spec)
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        for chosen in (None, {}, {"matchLabels": {"a": "b"}}, {"matchLabels": {"a b": "c"}}):
            yield _object(kind, {"selector": chosen, "template": _template()})
        match = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
        yield _object(kind, {"selector": match, "template": _template(restartPolicy="Never")})
        wrong = {"matchExpressions": [{"key": "app", "operator": "x", "values": ["a"]}]}
        yield _object(kind, {"selector": wrong, "template": _template(activeDeadlineSeconds=5)})
    yield _object(
        "Deployment",
        {"selector": selector, "template": _template()}
        | {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
    )
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    mount = _container(volumeMounts=[{"name": "data", "mountPath": "/d"}])
    spec = {"selector": selector, "template": _template(containers=[mount], hostname="Bad")}
    yield _object("StatefulSet", {**spec, "volumeClaimTemplates": claims})
    for labels in (None, {}, LABELS):
        template = {**_template(), "metadata": {"labels": labels}}
        yield _object("ReplicationController", {"template": template})
        yield _object("ReplicationController", {"template": template, "selector": {"a": "b"}})
    prefixed = _object("ReplicationController", {"template": _template()}, generateName="a/b%")
    yield prefixed
    yield _pod(foo=1, **{f"x{n}": 1 for n in range(120)})


def _jobs() -> Iterator[Raw]:
    template = _template(restartPolicy="Never")
    for schedule in ("", *SCHEDULES):
        yield _object(
            "CronJob", {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}
        )
    for zone in ("UTC", "", "Local", "a//b", "-x", "..", "A/B"):
        if zone != "A/B":
            job = {"spec": {"template": template}}
            yield _object("CronJob", {"schedule": "@daily", "jobTemplate": job, "timeZone": zone})
    inner = {"template": template, "selector": {"matchLabels": LABELS}, "manualSelector": True}
    yield _object("CronJob", {"schedule": "@daily", "jobTemplate": {"spec": inner}})
    long = _object(
        "CronJob", {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}
    )
    long["metadata"]["name"] = "n" * 53
    yield long
    yield from _job_specs()


def _job_specs() -> Iterator[Raw]:
    template = _template(restartPolicy="Never")
    for name in ("", "me", "/x", "a/", "A/x", "a/b c", "a/" + "x" * 63, "example.com/x"):
        yield _object("Job", {"template": template, "managedBy": name})
    indexed = {"template": template, "completionMode": "Indexed"}
    many = {**indexed, "completions": 200_000, "backoffLimitPerIndex": 1}
    specs: list[Raw] = [
        {**indexed, "parallelism": 2},
        {**indexed, "completions": 3, "parallelism": 200_000},
        {**indexed, "completions": 3, "maxFailedIndexes": 200_000, "backoffLimitPerIndex": 1},
        many,
        {**many, "parallelism": 20_000, "maxFailedIndexes": 20_000},
        {"template": template, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
        {"template": template, "maxFailedIndexes": 1},
        {"template": template, "completionMode": "x"},
        {"template": template, "manualSelector": True},
        {"template": template, "manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
        {"template": template, "selector": {"matchLabels": LABELS}},
        {"template": _template(), "podFailurePolicy": {"rules": []}},
        {"template": _template(restartPolicy="OnFailure"), "podFailurePolicy": {"rules": []}},
        {"template": template, "podReplacementPolicy": "x"},
        {"template": template, "successPolicy": {"rules": []}},
        {**indexed, "completions": 3, "successPolicy": {"rules": []}},
        {**indexed, "completions": 3, "successPolicy": {"rules": [{}] * 21}},
    ]
    for text in INDEXES:
        for count in (None, 1, 5, -1):
            rule = {"succeededIndexes": text, "succeededCount": count}
            specs.append({**indexed, "completions": 4, "successPolicy": {"rules": [rule]}})
    for spec in (*specs, *_failure_policies()):
        yield _object("Job", spec)
    for key in ("job-name", "controller-uid"):
        labelled = {**template, "metadata": {"labels": {key: "x"}}}
        yield _object("Job", {"template": labelled})
    named = _object("Job", {**indexed, "completions": 3})
    named["metadata"]["name"] = "n" * 62
    yield named


def _failure_policies() -> list[Raw]:
    template = _template(restartPolicy="Never")
    conditions = [{"type": "Ready"}, {"type": "a b", "status": "x"}]
    codes = {"operator": "In", "values": [3, 0, 3], "containerName": "nope"}
    rules: list[Raw] = [
        {"action": "Ignore", "onPodConditions": conditions},
        {"action": "Ignore", "onPodConditions": conditions[:1] * 21},
        {"action": "FailIndex", "onExitCodes": codes},
        {"action": "", "onExitCodes": {"values": []}},
        {"action": "x", "onExitCodes": {"operator": "x"}},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [*range(256)]}},
        {"action": "FailJob", "onExitCodes": codes, "onPodConditions": conditions},
        {"action": "FailJob"},
    ]
    specs: list[Raw] = [
        {"template": template, "podFailurePolicy": {"rules": [rule]}} for rule in rules
    ]
    specs.append({"template": template, "podFailurePolicy": {"rules": rules[:1] * 21}})
    replaced = {"podFailurePolicy": {}, "podReplacementPolicy": "TerminatingOrFailed"}
    specs.append({"template": template, **replaced})
    return specs
