"""How the terminal application tells the thread of the cluster to end."""

import threading
from collections.abc import Callable


class Stop:
    """Tells a cluster in another thread to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._call: Callable[[], None] | None = None

    def set(self) -> None:
        with self._lock:
            self._is_set, call = True, self._call
        if call is not None:
            call()

    def on_set(self, call: Callable[[], None]) -> None:
        """Have `call` called by `set`; call it at once if `set` was called before."""
        with self._lock:
            self._call, is_set = call, self._is_set
        if is_set:
            call()
