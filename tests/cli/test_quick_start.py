"""Dataclasses behave the same whether their methods are compiled at once or at the first call."""

import subprocess
import sys

import pytest

PROGRAM = '''
import sys
if sys.argv[1] == "quick":
    from bursar.cli.start.quick_start import start_quickly
    start_quickly()
    start_quickly()
import copy, pickle
from dataclasses import (
    FrozenInstanceError, InitVar, asdict, dataclass, field, fields, replace
)
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

@dataclass(slots=True)
class Odd:
    self: int
    args: InitVar[int]
    seed: InitVar[int] = 5
    made: list[int] = field(default_factory=list, init=False)
    fixed: int = field(default=7, init=False)
    later: int = field(init=False)

    def __post_init__(self, args, seed):
        self.made.append(args + seed)

@dataclass
class Plain:
    fixed: int = field(default=7, init=False)
    named: int = field(default=8, kw_only=True)

class Stubborn(Plain):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1)

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
    Odd(1, 2).made, Odd(1, 2, seed=3).made, Odd(1, args=4).fixed, Odd(self=1, args=2).self,
    tried(lambda: Odd(1, 2).later), tried(lambda: Odd(1)), tried(lambda: Odd(1, 2, fixed=3)),
    tried(lambda: Odd(1, 2, self=3)), Odd(1, 2).made is Odd(1, 2).made,
    Plain(), vars(Plain()), Plain(named=1), tried(lambda: Plain(1)), Stubborn(),
    tried(lambda: Plain(nothing=1)), [Odd(each, each).made for each in range(50)],
]
for each in results:
    print(repr(each))
for _ in range(50):
    Frozen(name="often")
print(Frozen.__init__.__code__.co_varnames, file=sys.stderr)
'''


START = "from bursar.cli.start.quick_start import start_quickly; start_quickly()\n"


def printed(mode: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_dataclasses_behave_the_same():
    plain, quick = printed("plain"), printed("quick")

    assert len(plain[0].splitlines()) > 25
    assert quick[0] == plain[0]


def test_after_some_calls_a_method_is_the_one_of_dataclasses():
    assert printed("quick")[1] == printed("plain")[1]


def outcome(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", START + program], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses are made in another way")
def test_methods_that_are_not_called_are_not_compiled():
    program = (
        "from bursar.core.model.pod import Container\n"
        "print(Container.__eq__.__code__.co_name, Container.__init__.__code__.co_name)"
    )

    assert outcome(program) == "compiled_at_first_call compiled_after_some_calls\n"


def test_a_regular_expression_of_a_module_is_compiled_when_it_is_used():
    program = (
        "from bursar.core.model.quantity import _EXPONENT as late\n"
        "print('_pattern' in vars(late))\n"
        "print(late.fullmatch('e+3').groups(), late.fullmatch('x'), late.pattern)\n"
        "print('_pattern' in vars(late), 'fullmatch' in vars(late))"
    )

    assert outcome(program).splitlines() == [
        "False",
        "('+3',) None [eE]([+-]?[0-9]+)",
        "True True",
    ]


def test_a_regular_expression_of_another_package_or_a_function_is_compiled_at_once():
    program = (
        "import glob, re, click\n"
        "print(type(re.compile('a')), type(glob.magic_check))\n"
        "namespace = {'__name__': 'bursar.x', 're': re}\n"
        "exec('late = re.compile(\"(\")\\ndef now(text): return re.compile(text)', namespace)\n"
        "try:\n    namespace['now']('(')\nexcept re.error as error:\n    print(error)\n"
        "try:\n    namespace['late'].match('(')\nexcept re.error as error:\n    print(error)\n"
    )

    assert outcome(program).splitlines() == [
        "<class 're.Pattern'> <class 're.Pattern'>",
        "missing ), unterminated subpattern at position 0",
        "missing ), unterminated subpattern at position 0",
    ]


def test_msgspec_does_without_typing_extensions_and_others_get_it():
    pytest.importorskip("typing_extensions")
    program = (
        "import sys, msgspec\n"
        "print('typing_extensions' in sys.modules)\n"
        "class Item(msgspec.Struct):\n    name: str\n    sizes: dict[str, int] | None = None\n"
        'print(msgspec.json.decode(b\'{"name": "a", "sizes": {"b": 1}}\', type=Item))\n'
        "import typing_extensions\n"
        "print(typing_extensions.__name__)"
    )

    assert outcome(program).splitlines() == [
        "False",
        "Item(name='a', sizes={'b': 1})",
        "typing_extensions",
    ]


def test_modules_are_the_same_as_python_finds_them():
    show = (
        "import bursar.core.model.pod as module, bursar.core.model as package, sys\n"
        "for each in (module, package):\n"
        "    spec = each.__spec__\n"
        "    print(each.__file__, each.__cached__, each.__package__, spec.parent, spec.origin)\n"
        "    print(list(getattr(each, '__path__', [])), type(each.__loader__), spec.has_location)\n"
        "try:\n    import bursar.core.nothing\nexcept ModuleNotFoundError as error:\n"
        "    print(error, error.name)\n"
    )
    plain = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)

    assert len(plain.stdout.splitlines()) == 5
    assert outcome(show) == plain.stdout
