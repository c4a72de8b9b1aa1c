"""Whole manifests: our verdict and all its messages beside the server's own create strategies."""

import pytest

import generate_field_types
from support.manifests.random_manifests import Manifests
from support.manifests.verdicts import difference, our_errors
from support.seeds import IS_FIXED, SEED

COUNT = 2_000 if IS_FIXED else 6_000
BATCH = 100


@pytest.mark.seeded
def test_manifests_are_refused_for_the_same_reasons(oracle):
    manifests = Manifests(SEED)
    accepted = refused = 0
    for _ in range(COUNT // BATCH):
        asked = [manifests.manifest() for _ in range(BATCH)]
        for manifest, answer in zip(asked, oracle.ask("create", objects=asked), strict=True):
            if answer.get("panic"):
                continue
            found = difference(manifest, our_errors(manifest), answer)
            oracle.assert_same(found, "", about=(SEED, manifest))
            is_refused = bool(answer["decoding"] or answer["errors"])
            refused += is_refused
            accepted += not is_refused

    assert min(accepted, refused) > COUNT // 5, "the manifests are of one kind only"


def test_the_generated_fields_are_those_of_upstream():
    """`make field-types` has been run since controlplane/go.mod was changed."""
    assert generate_field_types.MODULE.read_text() == generate_field_types.render()
