"""Dataclasses behave the same whether their methods are compiled at once or at the first call."""

import subprocess
import sys

import pytest

PROGRAM = '''
import sys
if sys.argv[1] == "quick":
    from bursar.cli.quick_start import start_quickly
    start_quickly()
    start_quickly()
import copy, pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property

@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    name: str
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    size: int = 3

@dataclass(order=True)
class Ordered:
    """Has an order."""
    first: int
    second: str = "b"
    hidden: int = field(default=0, repr=False, compare=False)

    def __post_init__(self):
        self.first += 1

class Below(Ordered):
    pass

@dataclass(frozen=True)
class Child(Frozen):
    more: tuple[int, ...] = ()

    @cached_property
    def count(self):
        return len(self.more)

def tried(work):
    try:
        return work()
    except Exception as error:
        return type(error).__name__, str(error)

one, two = Frozen(name="a"), Frozen(name="a", labels={"x": "y"})
results = [
    one, two, one == two, one == Frozen(name="a"), one != 3, hash(one) == hash(two),
    replace(one, size=4), asdict(two), [each.name for each in fields(Frozen)],
    tried(lambda: Frozen()), tried(lambda: Frozen("a")), tried(lambda: setattr(one, "name", "b")),
    tried(lambda: delattr(one, "name")), tried(lambda: setattr(one, "none", "b")),
    pickle.loads(pickle.dumps(two)) == two, copy.deepcopy(two) == two, Frozen.__match_args__,
    Ordered(1), Ordered(1) < Ordered(2), sorted([Ordered(2), Below(1), Ordered(0)][::2]),
    Below(1), tried(lambda: Below(1) < Ordered(2)), tried(lambda: hash(Ordered(1))),
    Child(name="c", more=(1, 2)), Child(name="c", more=(1, 2)).count, Child(name="c") == one,
    tried(lambda: Ordered()), tried(lambda: Ordered(1, 2, 3, 4)), Frozen.__init__.__qualname__,
    Ordered.__repr__.__qualname__, {Frozen(name="k"): 1}[Frozen(name="k")],
    [isinstance(FrozenInstanceError("x"), AttributeError)],
]
for each in results:
    print(repr(each))
print(Frozen.__init__.__code__.co_varnames, file=sys.stderr)
'''


def printed(mode: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_dataclasses_behave_the_same():
    plain, quick = printed("plain"), printed("quick")

    assert len(plain[0].splitlines()) > 25
    assert quick[0] == plain[0]


def test_after_its_first_call_a_method_is_the_one_of_dataclasses():
    assert printed("quick")[1] == printed("plain")[1]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses are made in another way")
def test_methods_that_are_not_called_are_not_compiled():
    program = (
        "from bursar.cli.quick_start import start_quickly; start_quickly()\n"
        "from bursar.core.model.pod import Container\n"
        "print(Container.__eq__.__code__.co_name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "compiled_at_first_call\n"
