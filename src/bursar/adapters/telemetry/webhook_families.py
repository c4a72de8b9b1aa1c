"""Metrics of the webhook: reviews of all kinds, and reviews of peer pods, by result."""

from collections.abc import Iterator, Mapping

from bursar.adapters.telemetry.exposition import Family, Sample, table


def webhook_families(
    reviews: Mapping[str, int], peer_pods: Mapping[str, int], overwritten: int
) -> Iterator[Family]:
    return table(
        "bursar_",
        admission_reviews_total=_by_end(reviews),
        peerpods_reviewed_total=_by_end(peer_pods),
        peerpods_annotations_overwritten_total=overwritten,
    )


def _by_end(counts: Mapping[str, int]) -> Iterator[Sample]:
    return (Sample(count, {"end": end}) for end, count in sorted(counts.items()))
