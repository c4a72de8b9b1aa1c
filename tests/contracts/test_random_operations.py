"""The same script of operations on both clusters, step by step: the answers are the same."""

import contextlib
import uuid
from random import Random
from typing import Any

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CRDS, NAMESPACES, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import AlreadyExistsError, Key, NotFoundError
from support.cluster.access import a_client, access_of
from support.cluster.random_operations import THINGS, Side, script
from support.seeds import SEED
from support.until import until

LENGTH = 150
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION = {
    "metadata": {"name": str(THINGS)},
    "spec": {
        "group": THINGS.group,
        "scope": "Namespaced",
        "names": {"plural": THINGS.plural, "kind": THINGS.kind, "singular": "thing"},
        "versions": [
            {
                "name": THINGS.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": ANYTHING, "status": ANYTHING},
                    }
                },
            }
        ],
    },
}


async def prepared(port: Any) -> Side:
    """A side with a namespace of its own, where pods can be and the custom kind is served."""
    namespace = f"operations-{uuid.uuid4().hex[:10]}"
    await port.create(NAMESPACES, {"metadata": {"name": namespace}})
    with contextlib.suppress(AlreadyExistsError):
        account = {"metadata": {"name": "default"}}
        await port.create(SERVICE_ACCOUNTS, account, namespace=namespace)
    with contextlib.suppress(AlreadyExistsError):
        await port.create(CRDS, DEFINITION)
    await until(lambda: is_served(port), "the custom kind is served")
    return Side(port, namespace)


async def is_served(port: Any) -> bool:
    try:
        await port.list(THINGS)
    except NotFoundError:
        return False
    return True


@pytest.mark.seeded
async def test_both_clusters_give_the_same_answers(control_plane):
    memory = MemoryCluster(SYSTEM_CLOCK, source=Random(1))  # noqa: S311
    async with a_client(access_of(control_plane)) as client:
        embedded, real = await prepared(memory), await prepared(client)
        for number, step in enumerate(script(SEED, LENGTH)):
            ours, theirs = await embedded.answer(step), await real.answer(step)

            assert ours == theirs, f"BURSAR_SEED={SEED}, step {number}: {step}"
        await client.delete(NAMESPACES, Key("", real.namespace))
