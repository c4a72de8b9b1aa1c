"""What is wrong with one `resources` block: names, amounts, requests against limits, claims.

The rules are the same for containers, for a pod's own resources and for overhead,
except for the names that are allowed. Upstream visits names in random order; here
they come sorted.
"""

from collections.abc import Collection
from dataclasses import replace
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


def validate_requirements(
    resources: ResourceRequirements,
    path: str,
    *,
    claim_names: Collection[str] = (),
    pod_level: bool = False,
    broken_pages_allowed: bool = False,
) -> tuple[Problem, ...]:
    """Judge the block at `path`, whose claims must be among `claim_names`.

    `broken_pages_allowed` lets hugepages be something else than whole pages, as the
    API server does for a pod that was stored that way before the rule existed.
    """
    problems: list[Problem] = []
    for side, amounts, compared_with in (
        ("limits", resources.limits, NOTHING),
        ("requests", resources.requests, resources.limits),
    ):
        problems += validate_resource_list(
            amounts,
            f"{path}.{side}",
            compared_with=compared_with,
            pod_level=pod_level,
            broken_pages_allowed=broken_pages_allowed,
        )
    problems += _requests_against_limits(resources, path)
    names = {*resources.limits, *resources.requests}
    if any(map(is_hugepages, names)) and names.isdisjoint({CPU, MEMORY}):
        problems.append(forbidden(path, "HugePages require cpu or memory"))
    problems += _claim_problems(resources.claims, claim_names, f"{path}.claims")
    return tuple(problems)


def validate_resource_list(
    amounts: ResourceList,
    path: str,
    *,
    compared_with: ResourceList = NOTHING,
    pod_level: bool = False,
    broken_pages_allowed: bool = False,
) -> tuple[Problem, ...]:
    """Judge every name and amount by itself.

    `compared_with` are the limits of these requests. They matter only beyond 64 bits,
    where a comparison changes how upstream reads the number afterwards.
    """
    problems: list[Problem] = []
    for name, amount in sorted(amounts.items(), key=lambda item: item[0]):
        field = f"{path}[{name}]"
        problems += _pod_level_name(name, field) if pod_level else _container_name(name, field)
        problems += validate_amount(name, amount, field)
        if broken_pages_allowed:
            continue
        if breaks_pages(name, _after_comparison(amount, compared_with.get(name))):
            detail = f"{amount} is not positive integer multiple of {name}"
            problems.append(invalid(field, str(amount), detail))
    return tuple(problems)


def validate_amount(name: str, amount: Quantity, field: str) -> tuple[Problem, ...]:
    """Judge one amount of the named resource: not negative, and whole where it must be.

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
    """True for hugepages that are not a whole number of pages, or whose name has no page size."""
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


def _requests_against_limits(resources: ResourceRequirements, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for name in sorted(resources.requests):
        request, limit = resources.requests[name], resources.limits.get(name)
        if limit is None:
            if not may_overcommit(name):
                problems.append(
                    required(f"{path}.limits", "Limit must be set for non overcommitable resources")
                )
        elif request != limit and not may_overcommit(name):
            problems.append(_exceeded(path, request, f"must be equal to {name} limit of {limit}"))
        elif request > limit:
            problems.append(
                _exceeded(path, request, f"must be less than or equal to {name} limit of {limit}")
            )
    return problems


def _exceeded(path: str, request: Quantity, detail: str) -> Problem:
    return invalid(f"{path}.requests", str(request), detail)


# ------------------------------------------------------------------ claims


def _claim_problems(
    claims: tuple[ClaimReference, ...], known: Collection[str], path: str
) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        field = f"{path}[{index}]"
        if not claim.name:
            problems.append(required(field))
            continue
        problems += _overlaps(claim, seen, field)
        if claim.name not in known:
            problems.append(not_found(field, claim.name, _choice_of_claims(known)))
    return problems


def _overlaps(claim: ClaimReference, seen: set[str], field: str) -> list[Problem]:
    """Compare with the claims `seen` before, and add this one to them."""
    if claim.name in seen:
        return [duplicate(field, claim.name)]
    if not claim.request:
        # A whole claim overlaps with every request of it that came before, one by one.
        parts = [key for key in seen if "/" in key and key.partition("/")[0] == claim.name]
        seen.add(claim.name)
        return [duplicate(field, claim.name)] * len(parts)
    key = f"{claim.name}/{claim.request}"
    problems = [
        invalid(f"{field}.request", claim.request, error) for error in label_errors(claim.request)
    ]
    if key in seen:
        problems.append(duplicate(field, key))
    seen.add(key)
    return problems


def _choice_of_claims(known: Collection[str]) -> str:
    choice = ": " + ", ".join(sorted(known)) if known else " which is empty"
    return f"must be one of the names in pod.spec.resourceClaims{choice}"
