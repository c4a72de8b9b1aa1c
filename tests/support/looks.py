"""Count the work that a function does on a pod, instead of measuring its time.

What counts is how often a name is hashed, compared or searched, and how often an amount is read.
Twice as long a list is twice as much work; if each entry were compared with all others, it
would be four times as much. The counts are the same on every machine, however busy.
"""

from bursar.core.model.quantity import Quantity


class Looks:
    def __init__(self) -> None:
        self.count = 0
        looks = self

        class Name(str):
            __slots__ = ()

            def __hash__(self) -> int:
                looks.count += 1
                return str.__hash__(self)

            def __eq__(self, other: object) -> bool:
                looks.count += 1
                return str.__eq__(self, other)

            def __contains__(self, part: str) -> bool:
                looks.count += 1
                return str.__contains__(self, part)

        class Amount(Quantity):
            __slots__ = ()

            def __getattribute__(self, name: str) -> object:
                looks.count += 1
                return Quantity.__getattribute__(self, name)

        self._name = Name
        self._amount = Amount

    def name(self, text: str) -> str:
        """A text that counts each time it is hashed, compared or searched."""
        return self._name(text)

    def amount(self, value: int) -> Quantity:
        """A quantity that counts each time an attribute of it is read."""
        return self._amount(value * 10**9)
