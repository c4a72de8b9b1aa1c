"""Rules for each kind of volume."""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from bursar.core.model.names import bytes_of, label_errors, subdomain_errors
from bursar.core.model.problem import (
    JsonText,
    Problem,
    invalid,
    not_supported,
    required,
    too_long,
)
from bursar.wire.validation.formats import (
    descending_path,
    each_invalid,
    file_mode,
    in_range,
    unreserved_path,
    without_backsteps,
)
from bursar.wire.validation.pods.claims import claim_template
from bursar.wire.validation.section import Section

Rule: TypeAlias = Callable[[Section], Iterator[Problem]]

_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PAIRS: Final = "must be a host:port pair or multiple pairs separated by commas"
_IQN: Final = re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+:[^,;*&$|\t\n\f\r ]+\Z", re.ASCII)
_EUI: Final = re.compile(r"\Aeui.[A-Za-z0-9]{16}\Z")
_NAA: Final = re.compile(r"\Anaa.[A-Za-z0-9]{32}\Z")


def needs(*names: str) -> Rule:
    """The rule that these texts or lists are not empty."""

    def rule(source: Section) -> Iterator[Problem]:
        for name in names:
            if not source.value.get(name):
                yield required(source.at(name))

    return rule


def _host_path(source: Section) -> Iterator[Problem]:
    if not (path := source.text("path")):
        yield required(source.at("path"))
        return
    yield from without_backsteps(source.at("path"), path)
    kind = source.text("type")
    if kind not in _HOST_PATH_TYPES:
        yield not_supported(source.at("type"), JsonText(kind), _HOST_PATH_TYPES)


def _git(source: Section) -> Iterator[Problem]:
    yield from needs("repository")(source)
    yield from descending_path(source.at("directory"), source.text("directory"))


def _disk(name: str) -> Rule:
    def rule(source: Section) -> Iterator[Problem]:
        yield from needs(name)(source)
        partition = source.number("partition")
        if not 0 <= partition <= 255:
            yield invalid(source.at("partition"), partition, in_range(1, 255))

    return rule


def _files(name: str) -> Rule:
    """A Secret or ConfigMap whose keys become files."""

    def rule(source: Section) -> Iterator[Problem]:
        yield from needs(name)(source)
        yield from file_mode(source.at("defaultMode"), source.maybe_number("defaultMode"))
        for item in source.items("items"):
            yield from key_to_path(item)

    return rule


def key_to_path(item: Section) -> Iterator[Problem]:
    yield from needs("key", "path")(item)
    yield from unreserved_path(item.at("path"), item.text("path"))
    yield from file_mode(item.at("mode"), item.maybe_number("mode"))


def _nfs(source: Section) -> Iterator[Problem]:
    yield from needs("server", "path")(source)
    if not source.text("path").startswith("/"):
        yield invalid(source.at("path"), source.text("path"), "must be an absolute path")


def _iscsi(source: Section) -> Iterator[Problem]:
    yield from needs("targetPortal", "iqn")(source)
    if name := source.text("iqn"):
        yield from _initiator(source.at("iqn"), name)
    lun = source.number("lun")
    if not 0 <= lun <= 255:
        yield invalid(source.at("lun"), lun, in_range(0, 255))
    wants_secret = source.flag("chapAuthDiscovery") or source.flag("chapAuthSession")
    if wants_secret and not source.has("secretRef"):
        yield required(source.at("secretRef"))
    if (initiator := source.maybe_text("initiatorName")) is not None:
        yield from _initiator(source.at("initiatorname"), initiator)


def _initiator(field: str, name: str) -> Iterator[Problem]:
    if not name.startswith(("iqn", "eui", "naa")):
        yield invalid(field, name, "must be valid format starting with iqn, eui, or naa")
        return
    shape = {"iqn": _IQN, "eui": _EUI, "naa": _NAA}[name[:3]]
    if not shape.search(name):
        yield invalid(field, name, "must be valid format")


def _fibre_channel(source: Section) -> Iterator[Problem]:
    names, ids = source.texts("targetWWNs"), source.texts("wwids")
    if not names and not ids:
        detail = "must specify either targetWWNs or wwids, but not both"
        yield required(source.at("targetWWNs"), detail)
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(source.at("targetWWNs"), names, detail)
    lun = source.maybe_number("lun")
    if names and lun is None:
        yield required(source.at("lun"), "lun is required if targetWWNs is specified")
    elif names and lun is not None and not 0 <= lun <= 255:
        yield invalid(source.at("lun"), lun, in_range(0, 255))


def _quobyte(source: Section) -> Iterator[Problem]:
    registry = source.text("registry")
    if not registry:
        yield required(source.at("registry"), _PAIRS)
    elif bytes_of(source.text("tenant")) >= 65:
        detail = "must be a UUID and may not exceed a length of 64 characters"
        yield required(source.at("tenant"), detail)
    else:
        for pair in registry.split(","):
            if not re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*", pair, re.DOTALL):
                yield invalid(source.at("registry"), registry, _PAIRS)
    yield from needs("volume")(source)


def _flocker(source: Section) -> Iterator[Problem]:
    name, uuid = source.text("datasetName"), source.text("datasetUUID")
    if not name and not uuid:
        yield required(source.path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(source.path, "resource", detail)
    if "/" in name:
        yield invalid(source.at("datasetName"), name, "must not contain '/'")


def _flex(source: Section) -> Iterator[Problem]:
    yield from needs("driver")(source)
    for key in source.text_map("options"):
        domain = f".{key.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{source.at('options')}[{key}]", key, detail)


def _with_secret(*names: str) -> Rule:
    def rule(source: Section) -> Iterator[Problem]:
        yield from needs(*names)(source)
        secret = source.maybe_child("secretRef")
        if secret is not None:
            yield from needs("name")(secret)

    return rule


def _azure_disk(source: Section) -> Iterator[Problem]:
    yield from needs("diskName", "diskURI")(source)
    uri = source.text("diskURI")
    caching = source.text("cachingMode") if source.has("cachingMode") else "ReadWrite"
    kind = source.text("kind") if source.has("kind") else "Shared"
    modes, kinds = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")
    if caching not in modes:
        yield not_supported(source.at("cachingMode"), JsonText(caching), modes)
    if kind not in kinds:
        yield not_supported(source.at("kind"), JsonText(kind), kinds)
    if kind == "Managed":
        if not uri.startswith("/subscriptions/"):
            shape = (
                "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/"
                "microsoft.compute/disks/{disk-id}"
            )
            yield not_supported(source.at("diskURI"), uri, (shape,))
    elif not uri.startswith("https://"):
        shape = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield not_supported(source.at("diskURI"), uri, (shape,))


def _storage_os(source: Section) -> Iterator[Problem]:
    yield from _with_secret("volumeName")(source)
    for name in ("volumeName", "volumeNamespace"):
        if text := source.text(name):
            yield from each_invalid(source.at(name), text, label_errors(text))


def _csi(source: Section) -> Iterator[Problem]:
    driver = source.text("driver")
    yield from needs("driver")(source)
    if driver:
        if bytes_of(driver) > 63:
            yield too_long(source.at("driver"), 63)
        yield from each_invalid(source.at("driver"), driver, subdomain_errors(driver.lower()))
    secret = source.maybe_child("nodePublishSecretRef")
    if secret is not None:
        yield from needs("name")(secret)
        if name := secret.text("name"):
            yield from each_invalid(source.at("name"), name, subdomain_errors(name))


def _ephemeral(source: Section) -> Iterator[Problem]:
    template = source.maybe_child("volumeClaimTemplate")
    if template is None:
        yield required(source.at("volumeClaimTemplate"))
    else:
        yield from claim_template(template)


def pull_policy(field: str, policy: str) -> Iterator[Problem]:
    allowed = ("Always", "IfNotPresent", "Never")
    if policy and policy not in allowed:
        yield not_supported(field, JsonText(policy), allowed)


SOURCES: Final[dict[str, Rule]] = {
    "emptyDir": needs(),
    "hostPath": _host_path,
    "gitRepo": _git,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": needs("endpoints", "path"),
    "flocker": _flocker,
    "persistentVolumeClaim": needs("claimName"),
    "rbd": needs("monitors", "image"),
    "cinder": _with_secret("volumeID"),
    "cephfs": needs("monitors"),
    "quobyte": _quobyte,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "configMap": _files("name"),
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
}
"""The rules by volume type. Image, downwardAPI and projected volumes are in `volumes`."""
