"""The bounds that all connections of a server share, and which client gives way at a bound.

At a bound, the server does not refuse the new client: it would refuse the kubelet's probes while
another client holds all places. Instead, the address that holds the most gives way, so a client
that takes very much is itself refused.
"""

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Final, Protocol

from bursar.adapters.serving.limits import ServerLimits
from bursar.app.log import Log

REPORT_SECONDS: Final = 60.0
"""Shortest time between two log lines about refused clients."""

LOG: Final = Log("serving")


class Phase(Enum):
    HANDSHAKE = "handshake"
    IDLE = "idle"
    """No request is arriving or being answered."""
    ARRIVING = "arriving"
    CHECKING = "checking"
    """The head of a request has arrived, and a guard decides about it."""
    ANSWERING = "answering"
    STREAMING = "streaming"
    CLOSING = "closing"
    """The last response is sent; further input is discarded."""


class Bounded(Protocol):
    """A connection, as far as bounds concern it."""

    @property
    def address(self) -> str: ...

    @property
    def phase(self) -> Phase: ...

    @property
    def is_stalled(self) -> bool:
        """Whether the client does not read what was sent to it."""

    held_bytes: int

    def abort(self) -> None: ...

    def expel(self) -> None:
        """Refuse the request that is arriving, with 503."""


_COST: Final = {Phase.IDLE: 0, Phase.CLOSING: 0, Phase.HANDSHAKE: 1, Phase.ARRIVING: 2}
"""The phases in which a connection can be closed, those that lose the least first."""


def _cost(connection: Bounded) -> int | None:
    """What closing the connection costs its client. None: a request is being answered."""
    return _COST.get(connection.phase, 3 if connection.is_stalled else None)


class Bounds:
    """Counts connections, handshakes and bytes of one server."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self.connections: dict[Bounded, None] = {}
        """Open connections, the oldest first."""
        self._by_address: dict[str, dict[Bounded, None]] = {}
        self._handshakes: dict[Bounded, None] = {}
        self.bytes_in_flight = 0
        self.refused: Counter[str] = Counter()
        """Clients that were refused or disconnected at a bound, by the bound."""
        self._reported: Counter[str] = Counter()
        self._report_at = 0.0

    def admit(self, connection: Bounded) -> bool:
        """Count a new connection, if the bounds allow it."""
        limits, own = self._limits, self._by_address.get(connection.address, {})
        is_admitted = True
        if len(own) >= limits.connections_per_address_max:
            is_admitted = self._close_one("connections", own)
        elif len(self.connections) >= limits.connections_max:
            crowds = sorted(self._by_address.values(), key=len, reverse=True)
            is_admitted = any(self._close_one("connections", crowd) for crowd in crowds)
            most = limits.connections_max + limits.connections_spare
            is_admitted = is_admitted or (not own and len(self.connections) < most)
        if is_admitted and connection.phase is Phase.HANDSHAKE:
            self._admit_handshake(connection)
        if is_admitted:
            self.connections[connection] = None
            self._by_address.setdefault(connection.address, {})[connection] = None
        else:
            self.refused["connections"] += 1
        return is_admitted

    def _admit_handshake(self, connection: Bounded) -> None:
        if len(self._handshakes) >= self._limits.handshakes_max:
            crowded, _ = Counter(each.address for each in self._handshakes).most_common(1)[0]
            oldest = next(each for each in self._handshakes if each.address == crowded)
            self._close("handshakes", oldest)
        self._handshakes[connection] = None

    def established(self, connection: Bounded) -> None:
        """Count a handshake as finished."""
        self._handshakes.pop(connection, None)

    def forget(self, connection: Bounded) -> None:
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._handshakes.pop(connection, None)
        self._set_held(connection, 0)
        own = self._by_address[connection.address]
        del own[connection]
        if not own:
            del self._by_address[connection.address]

    def hold(self, connection: Bounded, held_bytes: int) -> None:
        """Set how many bytes a connection holds, and make room if that is too much for all."""
        is_more = held_bytes > connection.held_bytes
        self._set_held(connection, held_bytes)
        while is_more and self.bytes_in_flight > self._limits.bytes_in_flight_max:
            victim = self._largest_holder()
            if victim is None:
                return
            self.refused["bytes"] += 1
            self._set_held(victim, 0)
            if victim.phase is Phase.ARRIVING:
                victim.expel()
            else:
                victim.abort()
            is_more = victim is not connection

    def _largest_holder(self) -> Bounded | None:
        """The connection that gives way: the largest one of the address that holds the most bytes.

        None if that address holds no more than an equal share and the spare bytes are not used up:
        then requests of other addresses, which are being answered, hold the bytes.
        """
        by_address: Counter[str] = Counter()
        for each in self.connections:
            if each.held_bytes:
                by_address[each.address] += each.held_bytes
        able = [each for each in self.connections if each.held_bytes and _gives_way(each)]
        if not able:
            return None
        greediest = max((each.address for each in able), key=by_address.__getitem__)
        most = self._limits.bytes_in_flight_max
        is_modest = by_address[greediest] <= most // len(by_address)
        if is_modest and self.bytes_in_flight <= most + self._limits.bytes_spare:
            return None
        return max(
            (each for each in able if each.address == greediest), key=lambda each: each.held_bytes
        )

    def _set_held(self, connection: Bounded, held_bytes: int) -> None:
        self.bytes_in_flight += held_bytes - connection.held_bytes
        connection.held_bytes = held_bytes

    def _close_one(self, bound: str, crowd: Iterable[Bounded]) -> bool:
        """Close the connection whose client loses the least, the oldest first."""
        cheapest, least = None, len(_COST)
        for each in crowd:
            cost = _cost(each)
            if cost is not None and cost < least:
                cheapest, least = each, cost
            if not least:
                break
        if cheapest is not None:
            self._close(bound, cheapest)
        return cheapest is not None

    def _close(self, bound: str, connection: Bounded) -> None:
        self.refused[bound] += 1
        self.forget(connection)
        connection.abort()

    def report(self, now: float) -> None:
        """Log how many clients were refused since the last report, at most once a minute."""
        if now < self._report_at or self.refused == self._reported:
            return
        self._report_at = now + REPORT_SECONDS
        news = self.refused - self._reported
        self._reported = self.refused.copy()
        LOG.warning("clients were disconnected, because the server is at a limit", **news)


def _gives_way(connection: Bounded) -> bool:
    return connection.phase is Phase.ARRIVING or connection.is_stalled
