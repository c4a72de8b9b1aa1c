"""Paths and query strings of the Kubernetes API.

Names come from manifests and command lines. A name that could change the meaning of a path is
refused here, before any server sees it.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from bursar.app.cluster.ports import InvalidError, Key, Query, Resource

_NOT_SEGMENTS: Final = frozenset({"", ".", ".."})


def version_path(resource: Resource) -> str:
    """The version of the API group that a resource belongs to.

    >>> version_path(Resource("", "v1", "pods", "Pod"))
    '/api/v1'
    """
    root = f"/apis/{resource.group}" if resource.group else "/api"
    return f"{root}/{resource.version}"


def collection_path(resource: Resource, namespace: str = "") -> str:
    """All objects of a kind, or those in one namespace.

    >>> collection_path(Resource("apps", "v1", "deployments", "Deployment"), "web")
    '/apis/apps/v1/namespaces/web/deployments'
    """
    scope = ""
    if namespace and resource.is_namespaced:
        scope = f"/namespaces/{_segment(namespace, resource, None)}"
    return f"{version_path(resource)}{scope}/{resource.plural}"


def object_path(resource: Resource, key: Key, subresource: str = "") -> str:
    """One object, or a subresource such as `status`. Raises `InvalidError` for impossible names."""
    if resource.is_namespaced and not key.namespace:
        raise InvalidError(
            "it needs a namespace, and none is given", resource=str(resource), key=key
        )
    name = _segment(key.name, resource, key)
    part = f"/{_segment(subresource, resource, key)}" if subresource else ""
    return f"{collection_path(resource, key.namespace)}/{name}{part}"


def with_parameters(path: str, parameters: Mapping[str, str]) -> str:
    """The path with the parameters that are not empty."""
    given = {name: text for name, text in parameters.items() if text}
    return f"{path}?{urlencode(given)}" if given else path


def selectors(query: Query) -> dict[str, str]:
    return {"labelSelector": query.label_selector, "fieldSelector": query.field_selector}


def _segment(text: str, resource: Resource, key: Key | None) -> str:
    if text in _NOT_SEGMENTS or "/" in text or "%" in text:
        raise InvalidError("not a name that an object can have", resource=str(resource), key=key)
    return quote(text, safe="")
