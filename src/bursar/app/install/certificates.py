"""RBAC for certificates: rights to serve the certificate of a Secret, and to make and renew it.

The functions return rules, which other manifests make Roles of. A Role that names objects permits
their list and watch too, because Bursar's requests name the object in their field selector.
"""

from bursar.app.certificates import aaq_names
from bursar.app.certificates.names import CA_SECRET, CONFIGURATIONS, TLS_SECRET
from bursar.app.install.documents import OBSERVE, Document, permission


def serving_rules(tls_secret: str = TLS_SECRET) -> list[Document]:
    """Rules in Bursar's namespace for every process with `--tls-secret`: read that Secret."""
    return [permission(OBSERVE, "secrets", names=(tls_secret,))]


def keeping_rules(*, is_like_aaq: bool = False) -> list[Document]:
    """Rules in Bursar's namespace for a controller with `--keep-certificates`: write both Secrets.

    They include `serving_rules`. With `--aaq-certificates` they also include a ConfigMap.

    RBAC cannot restrict the creation of Secrets by name.
    """
    names = (aaq_names.CA_SECRET, aaq_names.TLS_SECRET) if is_like_aaq else (CA_SECRET, TLS_SECRET)
    found = [
        permission((*OBSERVE, "patch"), "secrets", names=names),
        permission(("create",), "secrets"),
    ]
    if is_like_aaq:
        # The role of the election permits the creation of ConfigMaps.
        found.append(permission((*OBSERVE, "patch"), "configmaps", names=(aaq_names.BUNDLE,)))
    return found


def bundle_rules() -> list[Document]:
    """Cluster-wide rules for a controller with `--keep-certificates`: write `caBundle`s."""
    return [
        permission(
            (*OBSERVE, "patch"),
            resource.plural,
            group=resource.group,
            names=[name for each, name in CONFIGURATIONS if each == resource],
        )
        for resource in dict.fromkeys(resource for resource, _ in CONFIGURATIONS)
    ]
