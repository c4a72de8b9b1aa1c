"""Resource names: which are native, extended, countable only in wholes, or never overcommitted."""

import re
from functools import lru_cache
from typing import Final

from bursar.core.model.quantity import Quantity, QuantityError

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
STORAGE: Final = "storage"
PODS: Final = "pods"
HUGEPAGES_PREFIX: Final = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX: Final = "attachable-volumes-"
NATIVE_DOMAIN: Final = "kubernetes.io/"
QUOTA_REQUESTS_PREFIX: Final = "requests."

_WHOLE_OBJECT_COUNTS: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD_FOR_CONTAINERS: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
STANDARD: Final = (
    _WHOLE_OBJECT_COUNTS
    | _STANDARD_FOR_CONTAINERS
    | {STORAGE, "requests.storage"}
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _STANDARD_FOR_CONTAINERS}
)
"""Names that the API server knows without a domain in front, apart from those of huge pages."""

_NAME_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART_LENGTH_MAX: Final = 63
_LABEL_LENGTH_MAX: Final = 63
_SUBDOMAIN_LENGTH_MAX: Final = 253
_QUALIFIED_LENGTH_MAX: Final = _SUBDOMAIN_LENGTH_MAX + len("/") + _NAME_PART_LENGTH_MAX


# ------------------------------------------------------------------ kinds of names


def is_native(name: str) -> bool:
    """Whether the name has no prefix, or has `kubernetes.io/` anywhere in it, as upstream."""
    return "/" not in name or NATIVE_DOMAIN in name


def is_extended(name: str) -> bool:
    """Whether the name is a vendor's: a qualified name, also with `requests.` in front of it."""
    # Names are remembered, and tenants write them: not those of a megabyte.
    return len(name) <= _QUALIFIED_LENGTH_MAX and _is_extended(name)


@lru_cache(maxsize=4096)
def _is_extended(name: str) -> bool:
    if is_native(name) or name.startswith(QUOTA_REQUESTS_PREFIX):
        return False
    return not qualified_name_errors(QUOTA_REQUESTS_PREFIX + name)


def is_hugepages(name: str) -> bool:
    return name.startswith(HUGEPAGES_PREFIX)


def is_attachable_volume(name: str) -> bool:
    return name.startswith(ATTACHABLE_VOLUMES_PREFIX)


def is_whole(name: str) -> bool:
    """Whether only whole numbers of the resource are allowed. Hugepages do not count as such."""
    return name in _WHOLE_OBJECT_COUNTS or is_extended(name)


def may_overcommit(name: str) -> bool:
    """Whether a request of the resource may be smaller than its limit."""
    return is_native(name) and not is_hugepages(name)


def is_scalar(name: str) -> bool:
    """Whether the scheduler tracks the resource as a plain number beside cpu, memory and so on."""
    return (
        is_extended(name)
        or is_hugepages(name)
        or NATIVE_DOMAIN in name
        or is_attachable_volume(name)
    )


def is_pod_level(name: str) -> bool:
    """Whether the name is allowed in `spec.resources` of a pod."""
    return name in {CPU, MEMORY} or is_hugepages(name)


def is_standard(name: str) -> bool:
    """Whether the API server knows the name without a domain in front, in pods or in quotas."""
    return name in STANDARD or is_hugepages(name.removeprefix(QUOTA_REQUESTS_PREFIX))


def is_standard_for_containers(name: str) -> bool:
    """Whether the name is standard, and containers can request it."""
    return name in _STANDARD_FOR_CONTAINERS or is_hugepages(name)


def page_size(name: str) -> Quantity | None:
    """The size of one page of `hugepages-<size>`, or None if it is not a positive whole number.

    Whether it is whole is checked as upstream does, so a size beyond 64 bits passes.

    >>> page_size("hugepages-2Mi"), page_size("hugepages-xyz")
    (Quantity(2Mi), None)
    """
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX))
    except QuantityError:
        return None
    return size if size.nanos > 0 and size.milli_value() % 1000 == 0 else None


# ------------------------------------------------------------------ how a name may be spelt


def qualified_name_errors(name: str) -> tuple[str, ...]:
    """Every way in which `name` is not a qualified name, in upstream's words and order."""
    parts = name.split("/")
    if len(parts) > 2:
        return (_QUALIFIED_NAME_RULE,)
    errors: list[str] = []
    if len(parts) == 2:
        found = subdomain_errors(parts[0], "bytes") if parts[0] else ("must be non-empty",)
        errors += [f"prefix part {error}" for error in found]
    local = parts[-1]
    if not local:
        errors.append("name part must be non-empty")
    elif bytes_of(local) > _NAME_PART_LENGTH_MAX:
        errors.append(f"name part must be no more than {_NAME_PART_LENGTH_MAX} bytes")
    if not _NAME_PART.fullmatch(local):
        errors.append(f"name part {_NAME_PART_RULE}")
    return tuple(errors)


def label_errors(name: str) -> tuple[str, ...]:
    """Every way in which `name` is not an RFC 1123 label, in upstream's words and order."""
    errors: list[str] = []
    if bytes_of(name) > _LABEL_LENGTH_MAX:
        errors.append(f"must be no more than {_LABEL_LENGTH_MAX} characters")
    if not _LABEL.fullmatch(name):
        errors.append("must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_RULE)
    return tuple(errors)


def subdomain_errors(name: str, unit: str = "characters") -> tuple[str, ...]:
    """Every way in which `name` is not an RFC 1123 subdomain, in upstream's words and order.

    Upstream counts bytes in any case, and calls them so in prefixes of qualified names only.
    """
    errors: list[str] = []
    if bytes_of(name) > _SUBDOMAIN_LENGTH_MAX:
        errors.append(f"must be no more than {_SUBDOMAIN_LENGTH_MAX} {unit}")
    if not _SUBDOMAIN.fullmatch(name):
        errors.append(_SUBDOMAIN_RULE)
    return tuple(errors)


def bytes_of(text: str) -> int:
    """The length of a text as Go counts it."""
    # Half of a surrogate pair arrives upstream as U+FFFD, which is three bytes long as well.
    return len(text.encode(errors="surrogatepass"))


_NAME_PART_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_QUALIFIED_NAME_RULE: Final = (
    f"a valid label key {_NAME_PART_RULE} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
