"""Capacity set by hand, while others write to the same node."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import pytest

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.capacity.override import (
    ATTEMPTS_MAX,
    NOT_TRIED,
    OverrideRequest,
    override_node,
    override_nodes,
)
from bursar.app.capacity.sources import read_node, read_nodes, read_rows
from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import (
    ConflictError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    UnavailableError,
)
from bursar.core.model.selectors.selector import EVERYTHING
from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.capacity import CapacityAction, Declaration
from support.virtual_time import MachineClock, in_virtual_time

FOO = "example.com/foo"


class Town:
    def __init__(self) -> None:
        self.cluster = MemoryCluster(MachineClock(), source=Random(1))  # noqa: S311 - a seed
        self.rivals = 0
        """How often somebody writes to the node between our reading it and our writing."""

    async def read(self):
        seen = await read_node(self.cluster, "a")
        if self.rivals:
            self.rivals -= 1
            annotations = {"rival": str(self.rivals)}
            patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"annotations": annotations}})
            await self.cluster.patch(NODES, Key("", "a"), patch)
        return seen

    async def change(self, amounts, *, used=0, **fields):
        wish = OverrideRequest(amounts=amounts, **fields)
        return await override_node(self.cluster, self.read, lambda *_: used, wish)

    async def stored(self):
        return json.loads(await self.cluster.get(NODES, Key("", "a")))


@asynccontextmanager
async def a_town():
    town = Town()
    await town.cluster.create(NODES, {"metadata": {"name": "a"}, "status": {}})
    yield town


in_town = in_virtual_time(on=a_town)


@in_town
async def test_node_that_changes_meanwhile_is_read_again(town):
    town.rivals = 2
    changed = await town.change({FOO: 5})
    stored = await town.stored()

    assert changed.is_written
    assert stored["status"]["capacity"] == stored["status"]["allocatable"] == {FOO: "5"}
    assert stored["metadata"]["annotations"]["rival"] == "0"


@in_town
async def test_node_that_never_rests_is_given_up(town):
    town.rivals = ATTEMPTS_MAX
    with pytest.raises(ConflictError):
        await town.change({FOO: 5})

    assert "capacity" not in (await town.stored()).get("status", {})


@in_town
async def test_one_objection_stops_the_whole_change_of_a_node(town):
    await town.change({FOO: 5})
    changed = await town.change({FOO: 2, "example.com/bar": 1}, used=3)

    assert not changed.is_written
    assert changed.objections == (f"{FOO}: 3 in use",)
    assert (await town.stored())["status"]["capacity"] == {FOO: "5"}


@in_town
async def test_too_many_resources_are_too_many_even_by_force(town):
    many = {f"example.com/r{number}": 1 for number in range(65)}
    changed = await town.change(many, is_forced=True)

    assert changed.objections == ("more than 64 resources",)


@in_town
async def test_wishes_about_other_resources_stay(town):
    await town.change({FOO: 5})
    await town.change({"example.com/bar": 1})
    forgotten = await town.change({FOO: None}, is_removal=True)
    annotations = (await town.stored())["metadata"]["annotations"]

    assert forgotten.settlements[0].action is CapacityAction.WITHDRAW
    assert json.loads(annotations["bursar.io/capacity"]) == {"example.com/bar": 1}
    assert json.loads(annotations["bursar.io/capacity-owner"]) == {"example.com/bar": 1}


FOUR = Declaration(name="four", resource=FOO, amount=4, selector=EVERYTHING)


@in_town
async def test_where_a_declaration_takes_over_only_the_wish_goes(town):
    await town.change({FOO: 2})
    gone = {"is_removal": True, "declarations": (FOUR,)}
    changed = await town.change({FOO: None}, used=2, **gone)
    stored = await town.stored()

    assert (changed.is_done, changed.is_written, changed.declared) == (True, True, {FOO: 4})
    assert stored["status"]["capacity"] == {FOO: "2"}
    assert stored["metadata"]["annotations"] == {"bursar.io/capacity-owner": f'{{"{FOO}": 2}}'}
    assert not (await town.change({FOO: None}, used=2, is_forced=True, **gone)).is_written


@in_town
async def test_declaration_for_other_nodes_or_resources_takes_nothing_over(town):
    await town.change({FOO: 2})
    elsewhere = replace(FOUR, selector=parse_selector("zone=a"))
    other = replace(FOUR, resource="example.com/bar")
    changed = await town.change(
        {FOO: None}, is_removal=True, declarations=(elsewhere, other), used=2
    )

    assert (changed.objections, changed.declared) == ((f"{FOO}: 2 in use",), {})


@in_town
async def test_what_a_person_sets_is_set_whatever_is_declared(town):
    changed = await town.change({FOO: 2}, declarations=(FOUR,))

    assert (changed.settlements[0].amount, changed.declared) == (2, {})


async def each(town, **failures):
    """Change nodes `a` to `c`, of which some cannot be read."""

    def reading(name):
        async def read():
            if name in failures:
                raise failures[name]
            return await read_node(town.cluster, name)

        return read

    reads = {name: reading(name) for name in ("a", "b", "c")}
    for name in ("b", "c"):
        await town.cluster.create(NODES, {"metadata": {"name": name}, "status": {}})
    return await override_nodes(
        town.cluster, reads, lambda *_: 0, OverrideRequest(amounts={FOO: 1})
    )


@in_town
async def test_what_fails_on_one_node_stops_no_other(town):
    changes = await each(town, a=NotFoundError("gone"), b=ValueError("unreadable"))

    assert [(one.node, one.is_written, one.failure) for one in changes] == [
        ("a", False, "gone"),
        ("b", False, "unreadable"),
        ("c", True, ""),
    ]


@in_town
async def test_cluster_that_does_not_answer_is_not_asked_about_the_rest(town):
    changes = await each(town, b=UnavailableError("no answer"))

    assert [one.is_done for one in changes] == [True, False, False]
    assert [one.failure for one in changes] == ["", "no answer", NOT_TRIED]


@in_town
async def test_cluster_is_read_in_whole(town):
    await town.change({FOO: 5})
    (seen,) = await read_nodes(town.cluster)

    assert seen.item.marked == {FOO: 5}
    assert await read_rows(town.cluster) == await read_rows(town.cluster, node="a") == []
