"""How much there is, what is used of it and what waits, per node and altogether."""

from hypothesis import given
from hypothesis import strategies as st

from bursar.app.capacity.report import capacity_report
from bursar.app.capacity.usage import ExtendedUsage, usage_of
from bursar.core.model.node import Node
from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.pod_row import PodRow, row_of
from support.builders.pods import parsed

VM = "kata.peerpods.io/vm"


def a_node(name: str, amounts: str, offered: str | None = None) -> Node:
    allocatable = parsed(amounts if offered is None else offered)
    return Node(name=name, capacity=parsed(amounts), allocatable=allocatable)


def a_row(name: str, node: str = "", amounts: str = f"{VM}=1", **fields) -> PodRow:
    resources = ResourceRequirements(requests=parsed(amounts), limits=parsed(amounts))
    container = Container(name="c", resources=resources)
    return row_of(Pod(namespace="n", name=name, node_name=node, containers=(container,), **fields))


NODES = [a_node("b", f"{VM}=2"), a_node("a", f"{VM}=10", f"{VM}=8"), a_node("plain", "cpu=4")]
ROWS = [
    a_row("1", "a"),
    a_row("2", "a", f"{VM}=2"),
    a_row("3", "b"),
    a_row("4", "b", f"{VM}=3"),
    a_row("ended", "a", phase="Succeeded"),
    a_row("other", "a", "cpu=1"),
    a_row("waits"),
    a_row("gated", scheduling_gates=("g",)),
    a_row("lost", "gone"),
]


def test_each_node_has_a_line_and_nothing_is_free_on_one_in_debt():
    lines = capacity_report(NODES, ROWS, VM)
    shown = [
        (line.node, str(line.capacity), str(line.allocatable), str(line.used), str(line.free))
        for line in lines.nodes
    ]

    assert shown == [
        ("a", "10", "8", "3", "5"),
        ("b", "2", "2", "4", "0"),
        ("gone", "None", "None", "1", "0"),
    ]
    assert [line.pods for line in lines.nodes] == [2, 2, 1]


def test_total_counts_what_is_free_node_by_node():
    total = capacity_report(NODES, ROWS, VM).total

    amounts = (total.capacity, total.allocatable, total.used, total.free)
    assert tuple(map(str, amounts)) == ("12", "10", "8", "5")
    assert total.pods == 5


def test_who_has_no_node_waits():
    lines = capacity_report(NODES, ROWS, VM)

    assert (str(lines.waiting), lines.waiting_pods, lines.gated_pods) == ("2", 2, 1)


def test_any_resource_can_be_asked_for():
    cpu = capacity_report(NODES, ROWS, "cpu")
    pods = capacity_report([a_node("a", "pods=4")], ROWS, "pods")

    assert [(line.node, str(line.used)) for line in cpu.nodes] == [("a", "1"), ("plain", "0")]
    assert [(line.node, str(line.used)) for line in pods.nodes] == [
        *(("a", "3"), ("b", "2"), ("gone", "1")),
    ]
    assert str(pods.waiting) == "2"


# ------------------------------------------------------------------ the book of use


def test_use_is_counted_by_pod_and_not_by_event():
    book = ExtendedUsage()
    told = [book.see(a_row("1", "a")) for _ in range(3)]

    assert told == [{"a"}, set(), set()]
    assert book.used("a", VM) == 1
    assert book.used("b", VM) == book.used("a", "example.com/foo") == 0


def test_use_ends_with_the_pod():
    book = usage_of([a_row("1", "a"), a_row("2", "a"), a_row("3", "a")])

    assert book.used("a", VM) == 3
    assert book.see(a_row("1", "a", phase="Failed")) == {"a"}
    assert book.lose(a_row("2", "a")) == {"a"}
    assert book.lose(a_row("2", "a")) == set()
    assert book.used("a", VM) == 1


def test_pod_without_a_node_uses_nothing_yet():
    book = ExtendedUsage()

    assert book.see(a_row("1")) == set()
    assert book.see(a_row("1", "a")) == {"a"}
    assert book.see(a_row("1", "b")) == {"a", "b"}
    assert (book.used("a", VM), book.used("b", VM)) == (0, 1)


def test_what_waits_is_counted_as_in_the_lines_and_follows_every_change():
    book = usage_of(ROWS)
    lines = capacity_report(NODES, ROWS, VM)

    assert book.waiting(VM) == (2, 2, 1) == (int(str(lines.waiting)), 2, lines.gated_pods)
    assert book.see(a_row("gated")) == set()
    assert book.waiting(VM) == (2, 2, 0)
    assert book.see(a_row("waits", "a")) == {"a"}
    assert book.waiting(VM) == (1, 1, 0)
    assert book.lose(a_row("gated")) == set()
    assert book.waiting(VM) == book.waiting("example.com/foo") == (0, 0, 0)


STAGES = st.sampled_from(
    [
        {},
        {"scheduling_gates": ("g",)},
        {"node": "a"},
        {"node": "b"},
        {"node": "a", "phase": "Failed"},
        {"phase": "Failed"},
        {"amounts": "cpu=1"},
        {"amounts": f"{VM}=3"},
    ]
)


@given(st.lists(st.tuples(st.sampled_from("xyz"), STAGES | st.none()), max_size=20))
def test_after_any_history_the_book_says_what_the_lines_say(history):
    book, rows = ExtendedUsage(), {}
    for name, stage in history:
        if stage is None:
            book.lose(rows.pop(name, a_row(name)))
        else:
            rows[name] = a_row(name, **stage)
            book.see(rows[name])
    lines = capacity_report(NODES, rows.values(), VM)

    expected = (int(str(lines.waiting)), lines.waiting_pods, lines.gated_pods)
    assert book.waiting(VM) == expected
    for line in lines.nodes:
        assert book.used(line.node, VM) == int(str(line.used))
