"""Validation of one `resources` block: names, amounts, requests and limits, claims.

The rules are the same for containers, for a pod's own resources and for overhead,
except for the names that are allowed. Upstream visits names in random order; here
they come sorted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import Final

from bursar.core.model.names import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    is_extended,
    is_hugepages,
    is_native,
    is_pod_level,
    is_standard,
    is_standard_for_containers,
    is_whole,
    label_errors,
    may_overcommit,
    page_size,
    qualified_name_errors,
)
from bursar.core.model.pod import ClaimReference, ResourceRequirements
from bursar.core.model.problem import (
    JsonText,
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import NOTHING, ResourceList

_POD_LEVEL_NAMES: Final = (CPU, HUGEPAGES_PREFIX, MEMORY)


class KnownClaims:
    """The claims of a pod that its containers can refer to."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names) - {""}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @cached_property
    def refusal(self) -> str:
        """The message for any other claim.

        It lists all of them. There can be very many, and very many refusals, so it is made
        once, and only if there is one.
        """
        choice = ": " + ", ".join(sorted(self._names)) if self._names else " which is empty"
        return f"must be one of the names in pod.spec.resourceClaims{choice}"


NO_CLAIMS: Final = KnownClaims()


def validate_requirements(
    resources: ResourceRequirements,
    path: str,
    *,
    claims: KnownClaims = NO_CLAIMS,
    pod_level: bool = False,
    broken_pages_allowed: bool = False,
) -> Iterator[Problem]:
    """Validate the block at `path`. Its claims must be among `known`.

    `broken_pages_allowed` lets hugepages be something else than whole pages, as the
    API server does for a pod that was stored that way before the rule existed.
    """
    for side, amounts, compared_with in (
        ("limits", resources.limits, NOTHING),
        ("requests", resources.requests, resources.limits),
    ):
        yield from validate_resource_list(
            amounts,
            f"{path}.{side}",
            compared_with=compared_with,
            pod_level=pod_level,
            broken_pages_allowed=broken_pages_allowed,
        )
    yield from _requests_against_limits(resources, path)
    names = {*resources.limits, *resources.requests}
    if any(map(is_hugepages, names)) and names.isdisjoint({CPU, MEMORY}):
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _claim_problems(resources.claims, claims, f"{path}.claims")


def validate_resource_list(
    amounts: ResourceList,
    path: str,
    *,
    compared_with: ResourceList = NOTHING,
    pod_level: bool = False,
    broken_pages_allowed: bool = False,
) -> Iterator[Problem]:
    """Validate each name and amount.

    `compared_with` are the limits of these requests. They matter only beyond 64 bits,
    where a comparison changes how upstream reads the number afterwards.
    """
    for name, amount in sorted(amounts.items(), key=lambda item: item[0]):
        place = f"{path}[{name}]"
        yield from _pod_level_name(name, place) if pod_level else _container_name(name, place)
        yield from validate_amount(name, amount, place)
        if broken_pages_allowed:
            continue
        if breaks_pages(name, _after_comparison(amount, compared_with.get(name))):
            detail = f"{amount} is not positive integer multiple of {name}"
            yield invalid(place, str(amount), detail)


def validate_amount(name: str, amount: Quantity, field: str) -> tuple[Problem, ...]:
    """Validate an amount: it is not negative, and whole if the resource is countable.

    Whether it is whole is asked as upstream asks it: in thousandths, in 64 bits. An
    amount too large for that counts as whole, or as whatever the overflow leaves.
    """
    problems: list[Problem] = []
    if amount.is_negative:
        problems.append(invalid(field, str(amount), "must be greater than or equal to 0"))
    if is_whole(name) and amount.milli_value() % 1000:
        problems.append(invalid(field, amount, "must be an integer"))
    return tuple(problems)


def breaks_pages(name: str, amount: Quantity) -> bool:
    """Whether hugepages are not a whole number of pages, or their name has no page size."""
    if not is_hugepages(name):
        return False
    size = page_size(name)
    if size is None:
        return True
    # A page beyond 64 bits can come out as 0 bytes. Upstream panics on the division; we refuse.
    page_bytes = size.value()
    return page_bytes == 0 or amount.value() % page_bytes != 0


def _after_comparison(amount: Quantity, other: Quantity | None) -> Quantity:
    """Comparing with a number in arbitrary precision turns `amount` into one as well."""
    if other is None or not other.big:
        return amount
    return replace(amount, big=True)


# ------------------------------------------------------------------ names


def _qualified_name(name: str, field: str) -> list[Problem]:
    errors = qualified_name_errors(name)
    if not errors and "/" not in name and not is_standard(name):
        errors = ("must be a standard resource type or fully qualified",)
    return [invalid(field, JsonText(name), error) for error in errors]


def _container_name(name: str, field: str) -> list[Problem]:
    problems = _qualified_name(name, field)
    if "/" not in name:
        if not is_standard_for_containers(name):
            problems.append(
                invalid(field, JsonText(name), "must be a standard resource for containers")
            )
    elif not is_native(name) and not is_extended(name):
        problems.append(
            invalid(field, JsonText(name), "doesn't follow extended resource name standard")
        )
    return problems


def _pod_level_name(name: str, field: str) -> list[Problem]:
    problems = _qualified_name(name, field)
    if not problems and not is_pod_level(name):
        problems.append(not_supported(field, JsonText(name), _POD_LEVEL_NAMES))
    return problems


# ------------------------------------------------------------------ requests against limits


def _requests_against_limits(resources: ResourceRequirements, path: str) -> Iterator[Problem]:
    for name in sorted(resources.requests):
        request, limit = resources.requests[name], resources.limits.get(name)
        if limit is None:
            if not may_overcommit(name):
                detail = "Limit must be set for non overcommitable resources"
                yield required(f"{path}.limits", detail)
        elif request != limit and not may_overcommit(name):
            yield _exceeded(path, request, f"must be equal to {name} limit of {limit}")
        elif request > limit:
            yield _exceeded(path, request, f"must be less than or equal to {name} limit of {limit}")


def _exceeded(path: str, request: Quantity, detail: str) -> Problem:
    return invalid(f"{path}.requests", str(request), detail)


# ------------------------------------------------------------------ claims


def _claim_problems(
    claims: tuple[ClaimReference, ...], known: KnownClaims, path: str
) -> Iterator[Problem]:
    seen = _SeenClaims()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        if not claim.name:
            yield required(place)
            continue
        yield from seen.overlaps(claim, place)
        if claim.name not in known:
            yield not_found(place, claim.name, known.refusal)


class _SeenClaims:
    """What earlier entries of a list refer to: claims, and requests in them."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._parts: Counter[str] = Counter()
        """How many keys there are of the form `<claim>/...`, by claim."""

    def overlaps(self, claim: ClaimReference, place: str) -> Iterator[Problem]:
        """Compare with the claims seen before, and add this one to them."""
        if claim.name in self._keys:
            yield duplicate(place, claim.name)
            return
        key = claim.name
        if claim.request:
            key = f"{claim.name}/{claim.request}"
            for error in label_errors(claim.request):
                yield invalid(f"{place}.request", claim.request, error)
            if key in self._keys:
                yield duplicate(place, key)
                return
        else:
            # A whole claim overlaps with every request of it that came before, one by one.
            yield from repeat(duplicate(place, claim.name), self._parts[claim.name])
        self._keys.add(key)
        whole, slash, _ = key.partition("/")
        if slash:
            self._parts[whole] += 1
