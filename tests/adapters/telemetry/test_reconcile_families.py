"""The counters of reconcile loops as metrics."""

from collections import Counter

from bursar.adapters.telemetry.exposition import exposition
from bursar.adapters.telemetry.reconcile_families import reconcile_families
from bursar.app.cluster.reconcile import ReconcileCounters
from support.metrics.printed_metrics import samples


def test_every_loop_shows_its_counters_and_each_class_of_failure():
    refused = ReconcileCounters(
        reconciles=5, writes=2, failures=3, failures_by_class=Counter(ForbiddenError=3)
    )
    loops = {"status": refused, "managed": ReconcileCounters(reconciles=1, gone=1)}
    shown = samples(exposition(reconcile_families(loops)).decode())

    assert shown == {
        'bursar_reconciles_total{loop="status"}': "5",
        'bursar_reconciles_total{loop="managed"}': "1",
        'bursar_reconcile_writes_total{loop="status"}': "2",
        'bursar_reconcile_writes_total{loop="managed"}': "0",
        'bursar_reconcile_gone_total{loop="status"}': "0",
        'bursar_reconcile_gone_total{loop="managed"}': "1",
        'bursar_reconcile_failures_total{loop="status",error="ForbiddenError"}': "3",
    }
