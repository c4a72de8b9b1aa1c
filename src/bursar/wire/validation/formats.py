"""The syntax of texts in a manifest: what is wrong with one, in the API server's words."""

import re
from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from bursar.core.model.names import bytes_of, label_errors, subdomain_errors
from bursar.core.model.problem import Problem, Value, invalid

INT32_MAX: Final = (1 << 31) - 1
FILE_MODE_MAX: Final = 0o777
FILE_MODE_RULE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than zero"


def each_invalid(field: str, value: Value, errors: Iterable[str]) -> Iterator[Problem]:
    """One problem of the same field and value for each text."""
    for error in errors:
        yield invalid(field, value, error)


def nonnegative(field: str, value: int | None) -> Iterator[Problem]:
    if value is not None and value < 0:
        yield invalid(field, value, NEGATIVE)


def file_mode(field: str, mode: int | None) -> Iterator[Problem]:
    if mode is not None and not 0 <= mode <= FILE_MODE_MAX:
        yield invalid(field, mode, FILE_MODE_RULE)


def in_range(lowest: int, highest: int) -> str:
    return f"must be between {lowest} and {highest}, inclusive"


# ------------------------------------------------------------------ names


def masked_prefix(name: str) -> str:
    """A generateName as the server checks it: one that ends in a dash is fine."""
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name


def label_of_prefix(name: str) -> tuple[str, ...]:
    return label_errors(masked_prefix(name))


def subdomain_of_prefix(name: str) -> tuple[str, ...]:
    return subdomain_errors(masked_prefix(name))


def search_domain_errors(name: str) -> tuple[str, ...]:
    errors: list[str] = []
    if bytes_of(name) > 253:
        errors.append("must be no more than 253 characters")
    if not _SEARCH_DOMAIN.fullmatch(name):
        errors.append(_SEARCH_DOMAIN_RULE)
    return tuple(errors)


def port_name_errors(name: str) -> tuple[str, ...]:
    errors: list[str] = []
    if bytes_of(name) > 15:
        errors.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", name):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        errors.append("must contain at least one letter (a-z)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return tuple(errors)


def port_errors(number: int) -> tuple[str, ...]:
    return () if 1 <= number <= 65535 else (in_range(1, 65535),)


def user_id_errors(number: int) -> tuple[str, ...]:
    return () if 0 <= number <= INT32_MAX else (in_range(0, INT32_MAX),)


def env_name_errors(name: str) -> tuple[str, ...]:
    """A name that is empty is missing, which is another error."""
    if all(" " <= char <= "~" and char != "=" for char in name):
        return ()
    return (
        (
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='"
        ),
    )


def config_key_errors(key: str) -> tuple[str, ...]:
    errors: list[str] = []
    if bytes_of(key) > 253:
        errors.append("must be no more than 253 characters")
    if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
        errors.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
            "regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if key in {".", ".."}:
        errors.append(f"must not be '{key}'")
    elif key.startswith(".."):
        errors.append("must not start with '..'")
    return tuple(errors)


def header_name_errors(name: str) -> tuple[str, ...]:
    if re.fullmatch(r"[-A-Za-z0-9]+", name):
        return ()
    return (
        (
            "a valid HTTP header must consist of alphanumeric characters or '-' "
            "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
        ),
    )


def percent_errors(text: str) -> tuple[str, ...]:
    if re.fullmatch(r"[0-9]+%", text):
        return ()
    return (
        (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        ),
    )


# ------------------------------------------------------------------ addresses


def ip_errors(text: str) -> tuple[str, ...]:
    octets = text.split(".")
    if len(octets) == 4 and all(re.fullmatch(r"[0-9]+", octet) for octet in octets):
        return _ipv4_errors(octets)
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return (_NO_ADDRESS,)
    if address.scope_id is not None:
        return (_NO_ADDRESS,)
    return () if address.ipv4_mapped is None else ("must not be an IPv4-mapped IPv6 address",)


def _ipv4_errors(octets: list[str]) -> tuple[str, ...]:
    stripped = [octet.lstrip("0") or "0" for octet in octets]
    try:
        IPv4Address(".".join(stripped))
    except AddressValueError:
        return (_NO_ADDRESS,)
    return () if stripped == octets else ("must not have leading 0s",)


# ------------------------------------------------------------------ paths in volumes


def descending_path(field: str, path: str) -> Iterator[Problem]:
    """A path below a folder: relative, without `..`."""
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from without_backsteps(field, path)


def without_backsteps(field: str, path: str) -> Iterator[Problem]:
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..'")


def unreserved_path(field: str, path: str) -> Iterator[Problem]:
    """A descending path that does not begin like the folders kubelet keeps beside it."""
    yield from descending_path(field, path)
    if path.startswith("..") and not path.startswith("../"):
        yield invalid(field, path, "must not start with '..'")


_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_SEARCH_LABEL: Final = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH_DOMAIN: Final = re.compile(rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*")
_SEARCH_DOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', "
    "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_SEARCH_DOMAIN.pattern}')"
)
