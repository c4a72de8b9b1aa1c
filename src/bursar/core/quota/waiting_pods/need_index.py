"""An index of waiting groups by need: which group ranks first among those that fit?

It is a treap: a search tree by need and rank, balanced by weights. Each node knows the node
with the lowest rank below it. Adding, removing and finding take logarithmic time. The weights
are hashes of names, which Python salts, so that a tenant cannot choose names that unbalance it.
"""

from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")

Rank: TypeAlias = tuple[int, int, str, str]
"""Priority (negated), second from which its age counts, namespace, name. The lowest goes first."""


class _Node(Generic[T]):
    __slots__ = ("best", "best_rank", "item", "key", "left", "right", "weight")

    def __init__(self, need: int, rank: Rank, item: T) -> None:
        self.key = (need, rank)
        self.item = item
        self.weight = hash(rank)
        self.left: _Node[T] | None = None
        self.right: _Node[T] | None = None
        self.best_rank = rank
        """The lowest rank of this node and all below it."""
        self.best = item
        """The item of that rank. Its node would be a cycle, and a pair would take more memory."""


class NeedIndex(Generic[T]):
    """Items by need and rank. No two items may have both in common."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Node[T] | None = None

    def __bool__(self) -> bool:
        return self._root is not None

    def add(self, need: int, rank: Rank, item: T) -> None:
        node = _Node(need, rank, item)
        if self._root is None:
            self._root = node
            return
        left, right = _split(self._root, node.key)
        self._root = _merge(_merge(left, node), right)

    def remove(self, need: int, rank: Rank) -> None:
        """Remove an item that was added with this need and rank."""
        left, right = _split(self._root, (need, rank))
        assert right is not None, "only what was added is removed"
        self._root = _merge(left, _without_least(right))

    def first(self, need_max: int = 0) -> T | None:
        """The item with the lowest rank among those that need at most this much."""
        best: T | None = None
        best_rank: Rank | None = None
        node = self._root
        while node is not None:
            need, rank = node.key
            if need > need_max:
                node = node.left
                continue
            if best_rank is None or rank < best_rank:
                best_rank, best = rank, node.item
            left = node.left
            if left is not None and left.best_rank < best_rank:
                best_rank, best = left.best_rank, left.best
            node = node.right
        return best


def _updated(node: _Node[T]) -> _Node[T]:
    """The node, after one of its children has changed."""
    best_rank, best = node.key[1], node.item
    for child in (node.left, node.right):
        if child is not None and child.best_rank < best_rank:
            best_rank, best = child.best_rank, child.best
    node.best_rank, node.best = best_rank, best
    return node


def _split(node: _Node[T] | None, key: tuple[int, Rank]) -> tuple[_Node[T] | None, _Node[T] | None]:
    """The nodes before a key, and the others."""
    if node is None:
        return None, None
    if node.key < key:
        node.right, right = _split(node.right, key)
        return _updated(node), right
    left, node.left = _split(node.left, key)
    return left, _updated(node)


def _merge(left: _Node[T] | None, right: _Node[T] | None) -> _Node[T] | None:
    """One tree of two, of which the first has the lower keys."""
    if left is None or right is None:
        return left or right
    if left.weight > right.weight:
        left.right = _merge(left.right, right)
        return _updated(left)
    right.left = _merge(left, right.left)
    return _updated(right)


def _without_least(node: _Node[T]) -> _Node[T] | None:
    if node.left is None:
        return node.right
    node.left = _without_least(node.left)
    return _updated(node)
