"""What our commands print, the real kubectl takes as it was meant."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assets import ensure
from cli.test_peerpod import run
from support.builders.peer_pods import a_peer_pod, main
from support.faults.ambiguous_yaml import NASTY
from support.install.printed import printed

pytestmark = pytest.mark.integration


def as_kubectl_reads(text: str, folder: Path) -> list[Any]:
    """The objects after kubectl has decoded them. `label --local` asks no server."""
    done = subprocess.run(
        [str(ensure("kubectl")), "label", "--local", "-f", "-", "read=back", "-o", "json"],
        input=text.encode(),
        capture_output=True,
        check=False,
        timeout=60,
        env={"HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr.decode()
    return list(documents_in(done.stdout.decode()))


def documents_in(text: str) -> Iterator[Any]:
    """JSON documents one after the other, which is how kubectl prints several."""
    decoder = json.JSONDecoder()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].lstrip()


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_a_rewritten_pod_has_the_texts_it_had(output, tmp_path):
    values = {f"v{index}": text for index, text in enumerate(NASTY)}
    raw = a_peer_pod(main("cpu=1", args=list(NASTY)), annotations=values)
    ran = run("rewrite", "-f", "-", "-o", output, stdin=raw)
    [pod] = as_kubectl_reads(ran.out, tmp_path)

    assert pod["spec"]["containers"][0]["args"] == list(NASTY)
    assert values.items() <= pod["metadata"]["annotations"].items()


@pytest.mark.parametrize("output", ["yaml", "json"])
@pytest.mark.parametrize("value", ["y", "1e3", "08", "0o17", "true", ""])
def test_labels_of_manifests_stay_texts(output, value, tmp_path):
    text = printed("peerpods", "--node-label", f"peerpods={value}", "-o", output)
    read = as_kubectl_reads(text, tmp_path)
    [found] = [each for each in read if each["kind"] == "RuntimeClass"]

    assert found["scheduling"]["nodeSelector"] == {"peerpods": value}
