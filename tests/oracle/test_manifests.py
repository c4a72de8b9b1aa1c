"""Whole manifests: our verdict and all its messages beside the server's own create strategies."""

import os

import pytest

import generate_field_types
from support.manifests.random_manifests import Manifests
from support.manifests.verdicts import difference, our_errors

FIXED_SEED = 20_260_417
FRESH_SEED = int(os.environ.get("BURSAR_SEED") or int.from_bytes(os.urandom(4), "big"))
COUNTS = {FIXED_SEED: 1500, FRESH_SEED: 3000}
BATCH = 100


@pytest.mark.parametrize("seed", COUNTS, ids=["fixed", "fresh"])
def test_manifests_are_refused_for_the_same_reasons(oracle, seed):
    manifests = Manifests(seed)
    accepted = refused = 0
    for _ in range(COUNTS[seed] // BATCH):
        asked = [manifests.manifest() for _ in range(BATCH)]
        for manifest, answer in zip(asked, oracle.ask("create", objects=asked), strict=True):
            if answer.get("panic"):
                continue
            found = difference(manifest, our_errors(manifest), answer)
            oracle.assert_same(found, "", about=(seed, manifest))
            is_refused = bool(answer["decoding"] or answer["errors"])
            refused += is_refused
            accepted += not is_refused

    assert min(accepted, refused) > COUNTS[seed] // 5, "the manifests are of one kind only"


def test_the_generated_fields_are_those_of_upstream():
    """`make field-types` has been run since controlplane/go.mod was changed."""
    assert generate_field_types.MODULE.read_text() == generate_field_types.render()
