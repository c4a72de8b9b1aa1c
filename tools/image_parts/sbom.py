"""The bill of materials of an image: every Debian package and Python distribution, as SPDX 2.3."""

import json
import re
import uuid
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from image_parts.debian import SUITE, Package
from image_parts.wheels import Wheel

PLACE: Final = "usr/share/bursar/sbom.spdx.json"
NOASSERTION: Final = "NOASSERTION"
LICENCES: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: MIT License": "MIT",
    "MIT": "MIT",
}
"""SPDX's names for licences that older wheels name in their own words.

google-re2 is the one that says no more than BSD; its text is that of BSD-3-Clause.
"""
Document = dict[str, Any]


def document(
    own: Wheel, wheels: list[Wheel], debian: list[Package], *, architecture: str, epoch: int
) -> bytes:
    """The document of an image. The same contents make the same bytes."""
    image = {
        "SPDXID": "SPDXRef-Image",
        "name": "bursar-image",
        "versionInfo": own.version,
        "primaryPackagePurpose": "CONTAINER",
        "downloadLocation": NOASSERTION,
        "filesAnalyzed": False,
        "licenseConcluded": NOASSERTION,
        "licenseDeclared": NOASSERTION,
        "copyrightText": NOASSERTION,
    }
    bursar = _of_wheel(own, purpose="APPLICATION")
    others = [_of_wheel(wheel) for wheel in wheels] + [_of_debian(found) for found in debian]
    inside = [bursar, *sorted(others, key=lambda package: str(package["SPDXID"]))]
    contents = json.dumps([architecture, epoch, inside])
    written = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"bursar-{own.version}-{architecture}",
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, contents)}",
        "creationInfo": {
            "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: bursar-make-image"],
        },
        "packages": [image, *inside],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image"),
            *[_relation("SPDXRef-Image", "CONTAINS", str(found["SPDXID"])) for found in inside],
            *[
                _relation(str(bursar["SPDXID"]), "DEPENDS_ON", _identifier("pypi", wheel.name))
                for wheel in wheels
            ],
        ],
    }
    return json.dumps(written, indent=1).encode() + b"\n"


def licence_of(wheel: Wheel) -> str:
    """The licence that a wheel declares, in SPDX's words; NOASSERTION if they are not known."""
    metadata = wheel.metadata
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    said = [metadata["License"] or "", *metadata.get_all("Classifier", [])]
    return next((LICENCES[words] for words in said if words in LICENCES), NOASSERTION)


def _of_wheel(wheel: Wheel, purpose: str = "LIBRARY") -> Document:
    found = _package(
        identifier=_identifier("pypi", wheel.name),
        name=wheel.name,
        version=wheel.version,
        sha256=wheel.sha256,
        purl=f"pkg:pypi/{wheel.name}@{quote(wheel.version)}",
    )
    return found | {"licenseDeclared": licence_of(wheel), "primaryPackagePurpose": purpose}


def _of_debian(found: Package) -> Document:
    qualifiers = f"?arch={found.architecture}&distro={SUITE}"
    document = _package(
        identifier=_identifier("deb", found.name),
        name=found.name,
        version=found.version,
        sha256=found.sha256,
        purl=f"pkg:deb/debian/{quote(found.name)}@{quote(found.version)}{qualifiers}",
    )
    source = re.sub(r"\s*\(.*", "", found.control.get("Source", found.name))
    return document | {
        "licenseComments": f"/usr/share/doc/{found.name}/copyright",
        "sourceInfo": f"built from the Debian source package {source}",
        "supplier": "Organization: Debian",
    }


def _package(*, identifier: str, name: str, version: str, sha256: str, purl: str) -> Document:
    return {
        "SPDXID": identifier,
        "name": name,
        "versionInfo": version,
        "downloadLocation": NOASSERTION,
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": sha256}],
        "licenseConcluded": NOASSERTION,
        "licenseDeclared": NOASSERTION,
        "copyrightText": NOASSERTION,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }
        ],
    }


def _identifier(kind: str, name: str) -> str:
    """An identifier of SPDX, which may hold letters, digits, dots and hyphens."""
    return f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


def _relation(subject: str, kind: str, object: str) -> Document:
    return {
        "spdxElementId": subject,
        "relationshipType": kind,
        "relatedSpdxElement": object,
    }
