"""Our verdict on a manifest beside that of upstream: the same messages, as far as they are claimed.

Not claimed are values of which upstream prints a Go struct, names and UIDs that the server makes,
the order of a StatefulSet's added volumes, which is random, and words about values of a wrong type.
"""

import json
import re
from typing import Any

from bursar.wire.documents.stream import read_documents
from bursar.wire.model.objects import ObjectError, read_objects
from bursar.wire.validation.verdict import verdict_on

Raw = dict[str, Any]
STRICT = "strict decoding error: "
UNREADABLE = "unreadable: "
NEEDS_ADMISSION = "must not be specified when serviceAccountName is not set"
"""The ServiceAccount plugin sets the name before validation."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def our_errors(manifest: Raw) -> list[str]:
    """What we say about a manifest; one that Bursar cannot read has one error."""
    text = json.dumps(manifest, sort_keys=True).encode()
    try:
        (entry,) = [each for document in read_documents([text]) for each in read_objects(document)]
    except ObjectError as error:
        return [f"{UNREADABLE}{error}"]
    pod = entry.decoded if manifest["kind"] == "Pod" else entry.decoded.pod
    return [*verdict_on(manifest["kind"], entry.value, pod).errors]


def difference(manifest: Raw, ours: list[str], upstream: Raw) -> str:
    """How the two verdicts differ; empty if they do not. `upstream` is an answer of the oracle."""
    decoding = upstream["decoding"]
    if ours and ours[0].startswith(UNREADABLE):
        return "" if decoding or upstream["errors"] else f"upstream accepts it; ours: {ours}"
    if decoding.startswith(STRICT):
        found = [text for text in ours if text.startswith(STRICT)]
        return "" if found == [decoding] else f"ours: {found}, upstream: {decoding}"
    if decoding:
        return "" if ours else f"ours accepts it; upstream: {decoding}"
    theirs = {_plain(manifest, text) for text in upstream["errors"] if NEEDS_ADMISSION not in text}
    said = {_plain(manifest, text) for text in ours}
    missing = sorted(text for text in theirs if not any(_is_claim(each, text) for each in said))
    extra = sorted(text for text in said if not any(_is_claim(text, each) for each in theirs))
    return f"only upstream: {missing}, only ours: {extra}" if missing or extra else ""


def _plain(manifest: Raw, text: str) -> str:
    text = _UUID.sub("uid", text)
    meta = manifest["metadata"]
    prefix = meta.get("generateName")
    if isinstance(prefix, str) and prefix and not meta.get("name"):
        text = re.sub(rf"(?<={re.escape(prefix[:58])})[a-z0-9]{{5}}\b", "xxxxx", text)
    if manifest["kind"] == "StatefulSet":
        text = re.sub(r"volumes\[\d+\]", "volumes[]", text)
    return text


def _is_claim(ours: str, theirs: str) -> bool:
    """Whether our text is theirs, or theirs without the value."""
    if ours == theirs:
        return True
    field, middle, detail = ours.partition(": Invalid value: ")
    return bool(middle) and theirs.startswith(field + middle) and theirs.endswith(f": {detail}")
