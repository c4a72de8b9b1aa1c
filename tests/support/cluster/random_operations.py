"""A seeded list of operations on the ports, and what one cluster answers to each.

The operations are plain data. Where a cluster chooses a value itself (a uid, a resourceVersion,
a generated name), they say `$uid`, `$now`, `$old`, `$made` or `$namespace`. Each cluster puts
in its own value, and takes it out of its answers again, so that the answers of two clusters can
be compared word by word.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bursar.app.cluster.kinds import BINDINGS, CONFIG_MAPS, LEASES, PODS, SECRETS
from bursar.app.cluster.ports import (
    ClusterError,
    Key,
    Patch,
    PatchKind,
    Preconditions,
    Query,
    Resource,
)

THINGS = Resource("operations.bursar.io", "v1", "things", "Thing")
"""A custom kind with a status of its own and no schema to speak of."""
KINDS = (CONFIG_MAPS, CONFIG_MAPS, SECRETS, LEASES, THINGS, PODS, PODS)
NAMES = RESIZED, BOUND = "a", "b"
"""A pod that is on a node which does not exist cannot be resized on a real server."""
APPLIED = ("x", "y")
"""Names that only appliers write to: who else wrote a field, the embedded cluster forgets."""
POD_FIELDS = (
    "activeDeadlineSeconds", "nodeName", "nodeSelector", "preemptionPolicy", "priority",
    "restartPolicy", "schedulerName", "schedulingGates", "terminationGracePeriodSeconds",
)  # fmt: skip
"""What is compared of a pod's spec beside containers; of the rest, few defaults are filled in."""
OTHERS_OBJECTS = ("kube-root-ca.crt",)
NEVER = "1"
"""A revision and a uid that no object has."""

Raw = dict[str, Any]


@dataclass(frozen=True)
class Step:
    verb: str
    resource: Resource
    name: str = ""
    body: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [self.verb, self.resource.plural, self.name, json.dumps(self.body)]
        return " ".join([*said, *(f"{name}={value}" for name, value in self.options.items())])


# ------------------------------------------------------------------ the script


def script(seed: int, length: int) -> list[Step]:
    author = _Author(Random(seed))  # noqa: S311 - the same script for the same seed
    return [author.step() for _ in range(length)]


class _Author:
    def __init__(self, random: Random) -> None:
        self.random = random

    def step(self) -> Step:
        resource, name = self.random.choice(KINDS), self.random.choice(NAMES)
        verbs: list[tuple[int, Callable[[Resource, str], Step]]] = [
            (9, self._create),
            (5, self._merge),
            (5, self._steps),
            (3, self._status),
            (4, self._delete),
            (3, self._apply),
            (1, self._bind),
            (1, self._resize),
            (1, lambda resource, name: Step("get", resource, name)),
            (2, self._list),
        ]
        chosen = self.random.choices([each for _, each in verbs], [count for count, _ in verbs])
        return chosen[0](resource, name)

    def _dry(self) -> Raw:
        return {"is_dry_run": True} if self.random.random() < 0.15 else {}

    def _text(self) -> str:
        return self.random.choice(("", "1", "2", "three"))

    def _metadata(self) -> Raw:
        parts: list[Raw] = [
            {},
            {"labels": {"app": self._text()}},
            {"labels": {"app": "web", "tier": self._text()}, "annotations": {"note": "ä"}},
            {"finalizers": ["example.com/hold"]},
            {"finalizers": ["example.com/hold", "example.com/other"], "labels": {}},
            {"annotations": {"Example.com/UPPER": self._text()}, "generation": 7},
        ]
        return dict(self.random.choice(parts))

    def _content(self, resource: Resource, name: str) -> Raw:
        text = self._text()
        if resource == PODS:
            return {"spec": self._pod_spec(name)}
        choices: dict[Resource, list[Raw]] = {
            CONFIG_MAPS: [{}, {"data": {"k": text}}, {"data": {"k": text, "l": "2"}}],
            SECRETS: [{}, {"stringData": {"k": text}}, {"data": {"k": "YQ=="}}],
            LEASES: [{}, {"spec": {"holderIdentity": text or "me"}}],
            THINGS: [{}, {"spec": {"size": 3, "text": text}}, {"status": {"ready": True}}],
        }
        return dict(self.random.choice(choices[resource]))

    def _pod_spec(self, name: str) -> Raw:
        resources: list[Raw] = [
            {},
            {"requests": {"cpu": "0.5"}},
            {"requests": {"cpu": "100m", "memory": "1024Ki"}, "limits": {"cpu": "1"}},
            {"limits": {"cpu": "1500m", "memory": "1Gi"}},
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        ]
        container = {"name": "c", "image": "i", "resources": self.random.choice(resources)}
        gates = {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]}
        extra: list[Raw] = [{}, gates, gates, {"activeDeadlineSeconds": 60}]
        if name == BOUND:
            extra.append({"nodeName": "none"})
        spec = {"containers": [container], "schedulerName": "nobody"}
        return {**spec, **self.random.choice(extra)}

    def _create(self, resource: Resource, name: str) -> Step:
        body = {"apiVersion": resource.api_version, "kind": resource.kind}
        metadata = {"name": name, **self._metadata()}
        twist = self.random.random()
        options: Raw = self._dry()
        if twist < 0.1:
            metadata |= {"generateName": "made-"}
            del metadata["name"]
        elif twist < 0.3:
            bad: list[Raw] = [
                {"name": "Upper"}, {"name": ""}, {"labels": {"app": "not ok"}},
                {"labels": {"/x": "1"}}, {"finalizers": ["plain"]}, {"resourceVersion": "5"},
                {"namespace": "elsewhere"}, {"annotations": {"a b": "c"}}, {"uid": NEVER},
                {"labels": {"app": "x" * 64}}, {"generateName": "Bad-"},
            ]  # fmt: skip
            metadata |= self.random.choice(bad)
        elif twist < 0.33:
            options |= {"namespace": "not-there"}
        elif twist < 0.36:
            body |= {"kind": "Wrong"}
        return Step(
            "create",
            resource,
            name,
            {**body, "metadata": metadata, **self._content(resource, name)},
            options,
        )

    def _merge(self, resource: Resource, name: str) -> Step:
        metadata: list[Raw] = [
            {}, {"labels": {"app": self._text()}}, {"labels": {"app": None}}, {"labels": None},
            {"annotations": {"note": self._text()}}, {"finalizers": None},
            {"finalizers": ["example.com/hold"]}, {"finalizers": ["example.com/new"]},
            {"resourceVersion": "$now"}, {"resourceVersion": "$old"}, {"resourceVersion": NEVER},
            {"resourceVersion": ""}, {"uid": "$uid"}, {"uid": NEVER}, {"name": "other"},
            {"namespace": "elsewhere"}, {"generation": 9}, {"creationTimestamp": None},
            {"labels": {"app": "not ok"}}, {"deletionTimestamp": None},
        ]  # fmt: skip
        body = {"metadata": self.random.choice(metadata), **self._change(resource)}
        return Step("merge", resource, name, body, self._dry())

    def _change(self, resource: Resource) -> Raw:
        text = self._text()
        choices: dict[Resource, list[Raw]] = {
            CONFIG_MAPS: [{}, {"data": {"k": text}}, {"data": {"k": None}}, {"data": None}],
            SECRETS: [{}, {"data": {"k": "Yg=="}}, {"stringData": {"l": text}}],
            LEASES: [{}, {"spec": {"holderIdentity": text or "you"}}, {"spec": None}],
            THINGS: [{}, {"spec": {"size": 4}}, {"spec": {"text": None}}, {"status": {"n": 1}}],
            PODS: [
                {}, {"spec": {"activeDeadlineSeconds": 30}},
                {"spec": {"nodeSelector": {f"a{text}": "b"}}},
                {"spec": {"schedulingGates": [{"name": "example.com/b"}]}},
                {"spec": {"schedulingGates": None}}, {"spec": {"priority": 3}},
            ],
        }  # fmt: skip
        return dict(self.random.choice(choices[resource]))

    def _steps(self, resource: Resource, name: str) -> Step:
        root = "/spec" if resource in {LEASES, THINGS, PODS} else "/data"
        operations = [
            {"op": "add", "path": "/metadata/labels", "value": {"app": "new"}},
            {"op": "add", "path": "/metadata/labels/app", "value": "2"},
            {"op": "remove", "path": "/metadata/labels/app"},
            {"op": "replace", "path": "/metadata/labels/app", "value": "web"},
            {"op": "test", "path": "/metadata/labels/app", "value": "web"},
            {"op": "test", "path": "/metadata/labels/none", "value": None},
            {"op": "test", "path": "/metadata/uid", "value": "$uid"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "$old"},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "$old"},
            {"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/copy"},
            {"op": "move", "from": "/metadata/labels/app", "path": "/metadata/labels/tier"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"},
            {"op": "remove", "path": f"{root}/schedulingGates/0"},
            {"op": "remove", "path": root},
            {"op": "test", "path": f"{root}/k", "value": "1"},
            {"op": "invent", "path": "/metadata/labels/app"},
        ]
        count = self.random.choice((1, 1, 2, 3))
        return Step("steps", resource, name, self.random.sample(operations, count), self._dry())

    def _status(self, resource: Resource, name: str) -> Step:
        bodies: list[Raw] = [
            {"status": {"phase": "Running"}},
            {"status": {"phase": "Succeeded"}, "metadata": {"labels": {"by": "status"}}},
            {"status": {"message": self._text() or "four"}, "spec": {"size": 9}},
            {"metadata": {"resourceVersion": "$old"}, "status": {"message": "stale"}},
        ]
        options = {"subresource": "status", **self._dry()}
        return Step("merge", resource, name, self.random.choice(bodies), options)

    def _delete(self, resource: Resource, name: str) -> Step:
        choices: list[Raw] = [
            {}, {}, {"uid": "$uid"}, {"uid": NEVER}, {"resource_version": "$now"},
            {"resource_version": "$old"}, {"uid": "$uid", "resource_version": NEVER},
        ]  # fmt: skip
        grace = self.random.choice((None, None, 0, 1000))
        name = self.random.choice((name, name, name, *APPLIED))
        return Step("delete", resource, name, self.random.choice(choices), {"grace_seconds": grace})

    def _apply(self, _: Resource, __: str) -> Step:
        resource = self.random.choice((CONFIG_MAPS, THINGS))
        name, text = self.random.choice(APPLIED), self.random.choice(("1", "2"))
        part = "data" if resource == CONFIG_MAPS else "spec"
        fields: list[Raw] = [
            {}, {part: {"k": text}}, {part: {"k": text, "l": text}}, {part: {"m": "3"}},
        ]  # fmt: skip
        metadata: list[Raw] = [
            {}, {"labels": {"app": text}}, {"annotations": {"note": text}},
            {"resourceVersion": "$old"}, {"resourceVersion": "$now"}, {"uid": NEVER},
            {"name": "other"}, {"managedFields": []},
        ]  # fmt: skip
        body = {
            "apiVersion": resource.api_version,
            "kind": self.random.choice((resource.kind,) * 9 + ("Wrong",)),
            "metadata": {"name": name, **self.random.choice(metadata)},
            **self.random.choice(fields),
        }
        manager = self.random.choice(("one", "one", "two", "three", ""))
        options = {"manager": manager, "is_forced": self.random.random() < 0.3, **self._dry()}
        return Step("apply", resource, name, body, options)

    def _bind(self, _: Resource, __: str) -> Step:
        name = BOUND
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "none"}}
        return Step("create", BINDINGS, name, body)

    def _resize(self, _: Resource, __: str) -> Step:
        amounts = {"requests": {"cpu": self.random.choice(("50m", "1", "4"))}}
        body = {"spec": {"containers": [{"name": "c", "image": "i", "resources": amounts}]}}
        return Step("merge", PODS, RESIZED, body, {"subresource": "resize"})

    def _list(self, resource: Resource, _: str) -> Step:
        choices: list[Raw] = [
            {}, {"label_selector": "app=web"}, {"label_selector": "app!=web"},
            {"label_selector": "tier"}, {"label_selector": "app in (1,2),!tier"},
            {"field_selector": "metadata.name=a"}, {"label_selector": "app===1"},
            {"field_selector": "spec.foo=1"},
        ]  # fmt: skip
        limit = self.random.choice((0, 1, 2))
        return Step("list", resource, "", self.random.choice(choices), {"limit": limit})


# ------------------------------------------------------------------ one side


@dataclass
class Side:
    """A cluster that is told the script, and what it made up so far."""

    port: Any
    namespace: str
    seen: dict[tuple[Resource, str], list[tuple[str, str]]] = field(default_factory=dict)
    """The uids and revisions of each object, as they were seen."""
    made: list[str] = field(default_factory=list)
    uids: list[str] = field(default_factory=list)

    async def answer(self, step: Step) -> Any:
        """What the cluster says to a step, without anything it made up."""
        try:
            return self._neutral(step.resource, await self._done(step))
        except ClusterError as error:
            # A custom kind is judged twice and complains twice.
            causes = dict.fromkeys(error.causes)
            words = [type(error).__name__, error.code, error.reason, *causes, error.message]
            return [self._without_own_words(_shortened(str(word))) for word in words]

    async def _done(self, step: Step) -> Any:
        key = Key(self.namespace, step.name)
        body = self._filled_in(step, step.body)
        options = dict(step.options)
        port, resource = self.port, step.resource
        match step.verb:
            case "create":
                options.setdefault("namespace", self.namespace)
                made = await port.create(resource, body, **options)
                return self._noted(resource, made, options)
            case "get":
                return self._noted(resource, await port.get(resource, key), {})
            case "merge" | "steps" | "apply":
                kinds = {"merge": PatchKind.MERGE, "steps": PatchKind.JSON}
                patch = Patch(
                    kind=kinds.get(step.verb, PatchKind.APPLY),
                    body=body,
                    field_manager=options.pop("manager", ""),
                    is_forced=options.pop("is_forced", False),
                )
                after = await port.patch(resource, key, patch, **options)
                return self._noted(resource, after, options)
            case "delete":
                wanted = Preconditions(**body) if body else None
                return await port.delete(resource, key, preconditions=wanted, **options)
            case _:
                return await self._listed(resource, body, options["limit"])

    async def _listed(self, resource: Resource, selectors: Raw, limit: int) -> list[Any]:
        query = Query(namespace=self.namespace, **selectors)
        page = await self.port.list(resource, query, limit=limit)
        items = [*page.items]
        while page.next_page:
            page = await self.port.list(resource, query, limit=limit, page=page.next_page)
            items += page.items
        found = [json.loads(item) for item in items]
        own = [each for each in found if each["metadata"]["name"] not in OTHERS_OBJECTS]
        # Names that were made up sort differently on each side.
        own.sort(key=lambda each: self._without_own_words(each["metadata"]["name"]))
        return [self._noted(resource, json.dumps(each).encode(), {}) for each in own]

    def _filled_in(self, step: Step, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._filled_in(step, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._filled_in(step, inner) for inner in value]
        states = self.seen.get((step.resource, step.name)) or [(NEVER, NEVER)]
        own = {"$uid": states[-1][0], "$now": states[-1][1], "$old": states[0][1]}
        return own.get(value, value) if isinstance(value, str) else value

    def _noted(self, resource: Resource, raw: bytes, options: Raw) -> Raw:
        """Remember what the server made up, and put in its place whether it is new."""
        body: Raw = json.loads(raw)
        metadata = body.get("metadata") or {}
        if "uid" not in metadata:
            return body
        if metadata.get("generateName") and metadata["name"] not in self.made:
            self.made.append(metadata["name"])
        if metadata["uid"] not in self.uids:
            self.uids.append(metadata["uid"])
        state = (metadata["uid"], metadata.get("resourceVersion", ""))
        states = self.seen.setdefault((resource, metadata["name"]), [])
        body["is_known"] = state in states
        if options.get("is_dry_run"):
            # Nothing was stored, and what a creator wrote there may be told back.
            metadata.pop("resourceVersion", None)
        if not options.get("is_dry_run") and state not in states:
            states.append(state)
        return body

    def _neutral(self, resource: Resource, body: Any) -> Any:
        if isinstance(body, list):
            return [self._neutral(resource, each) for each in body]
        if not isinstance(body, dict) or body.get("kind") == "Status":
            return None
        metadata = dict(body["metadata"])
        for name in ("creationTimestamp", "deletionTimestamp", "uid", "resourceVersion"):
            metadata[name] = name in metadata
        managed = metadata.pop("managedFields", None) or ()
        metadata["appliers"] = {
            each["manager"]: each["fieldsV1"] for each in managed if each["operation"] == "Apply"
        }
        neutral = {**body, "metadata": metadata}
        if resource == PODS:
            neutral["spec"] = _pod_spec(body["spec"])
            neutral["status"] = _pod_status(body.get("status") or {})
        return json.loads(self._without_own_words(json.dumps(neutral, sort_keys=True)))

    def _without_own_words(self, text: str) -> str:
        text = text.replace(self.namespace, "$namespace")
        for uid in self.uids:
            text = text.replace(uid, "$uid")
        for number, name in enumerate(self.made):
            text = text.replace(name, f"$made{number}")
        text = re.sub(r"\bmade-\w{5}\b", "$made", text)
        return re.sub(r"\(\d+\)", "($revision)", text)


def _shortened(text: str) -> str:
    """Without what only the server can say: a diff of a pod, or where its Go code knows kinds."""
    return text.partition("\\n")[0].partition(": no kind ")[0]


def _pod_spec(spec: Raw) -> Raw:
    containers = [
        {name: each.get(name) for name in ("name", "image", "resources")}
        for each in spec["containers"]
    ]
    return {"containers": containers, **{name: spec.get(name) for name in POD_FIELDS}}


def _pod_status(status: Raw) -> Raw:
    conditions = [
        {name: each.get(name) for name in ("type", "status", "reason", "message")}
        for each in status.get("conditions") or ()
    ]
    known = {name: status.get(name) or None for name in ("phase", "qosClass", "message")}
    return {**known, "conditions": conditions}
