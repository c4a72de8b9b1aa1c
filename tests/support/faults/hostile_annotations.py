"""Annotations of a hostile tenant: broken, endless, of the wrong shape, or lies.

All of them come from one `Random`, so that a seed tells everything.
"""

import json
import string
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

LENGTH_MAX = 200_000
"""Kubernetes takes annotations of 256 KiB in all."""
WORDS = ["gpu", "rdma", "fpga", "xpu", "GPU", "", "tpu", "\u0130", "a" * 300]
KEYS = ["minor", "id", "resources", "extension", "vfs", "busID", "ID", "Minor", "", "__proto__"]
NUMBERS = ["1e999", "-1e999", "-0", "0.5", "1" * 400, "NaN", "Infinity", "0x10", "01", "9" * 19]
SIGNS = [
    *map(chr, (*range(0x20), 0x7F, 0x85, 0xA0, 0x200B, 0x202E, 0x2028, 0xFEFF, 0xFFFD, 0x1F4A9)),
    *string.printable,
]


class HostileAnnotations:
    def __init__(self, random: Random, coveted: Sequence[str]) -> None:
        """`coveted` are devices of others."""
        self._random, self._coveted = random, coveted
        self._kinds: list[Callable[[], str]] = [
            self._lie,
            self._mutated,
            self._mutated,
            self._misshapen,
            self._misshapen,
            self._noise,
            self._deep,
            self._endless,
            self._numbers,
            self._repeated,
        ]

    def text(self) -> str:
        return self._random.choice(self._kinds)()[:LENGTH_MAX]

    def _lie(self) -> str:
        """Perfectly well written."""
        return json.dumps(self._document())

    def _document(self) -> dict[str, Any]:
        devices = [self._device() for _ in range(self._random.randint(0, 6))]
        return {self._random.choice(["gpu", "rdma", "fpga"]): devices}

    def _device(self) -> dict[str, Any]:
        device: dict[str, Any] = {
            "minor": self._random.randint(-2, 9),
            "id": self._random.choice([*self._coveted, "", "GPU-9::1", "MIG-1"]),
        }
        if self._random.random() < 0.5:
            device["extension"] = {"vfs": [{"busID": self._random.choice(self._coveted)}]}
        if self._random.random() < 0.5:
            device["resources"] = {"koordinator.sh/gpu-core": self._random.randint(-5, 300)}
        return device

    def _mutated(self) -> str:
        """A document with a few signs taken out, doubled, or put in."""
        text = list(self._lie())
        for _ in range(self._random.randint(1, 8)):
            place = self._random.randrange(len(text) + 1)
            match self._random.randrange(4):
                case 0:
                    del text[place : place + self._random.randint(1, 5)]
                case 1:
                    text[place:place] = text[place : place + 20]
                case 2:
                    text.insert(place, self._random.choice(SIGNS))
                case _:
                    del text[place:]
        return "".join(text)

    def _misshapen(self) -> str:
        """JSON, and anything may stand anywhere."""
        return json.dumps(self._value(self._random.randint(1, 5)), ensure_ascii=False)

    def _value(self, depth: int) -> Any:
        match self._random.randrange(9 if depth else 6):
            case 0:
                return None
            case 1:
                return self._random.random() < 0.5
            case 2:
                return self._random.choice([0, -1, 2**31, -(2**63), 2**64, 1.5, 1e300])
            case 3 | 4 | 5:
                return self._random.choice([*self._coveted, *WORDS, self._scribble(12)])
            case 6:
                return [self._value(depth - 1) for _ in range(self._random.randint(0, 4))]
            case _:
                keys = self._random.choices([*KEYS, *WORDS], k=self._random.randint(0, 5))
                return {key: self._value(depth - 1) for key in keys}

    def _noise(self) -> str:
        return self._scribble(self._random.choice([0, 1, 10, 1000, 60_000]))

    def _scribble(self, length: int) -> str:
        return "".join(self._random.choices(SIGNS, k=length))

    def _deep(self) -> str:
        opening = self._random.choice(["[", '{"gpu":', '{"gpu":[', '[{"a":'])
        return opening * self._random.choice([10, 1000, 30_000])

    def _endless(self) -> str:
        count = self._random.choice([100, 1025, 5000])
        device = json.dumps({"minor": 0, "id": self._random.choice(self._coveted)})
        return '{"gpu":[' + ",".join([device] * count) + "]}"

    def _numbers(self) -> str:
        number = self._random.choice(NUMBERS)
        return f'{{"gpu":[{{"minor":{number},"id":"GPU-9","resources":{{"a/b":{number}}}}}]}}'

    def _repeated(self) -> str:
        key = self._random.choice(['"gpu":[null]', '"gpu":[]', '"gpu":null', '"rdma":[{}]'])
        return "{" + ",".join([key] * self._random.choice([2, 50, 5000])) + "}"
