"""The servers of benchmarks answer what the benchmarks send. Nothing else checks their programs."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["admission", "admission_peerpods", "extender"])
def test_the_server_of_a_benchmark_answers_all_its_requests(name):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        benchmark = importlib.import_module(name)
        load = importlib.import_module("review_load")
    finally:
        sys.path.remove(str(BENCHMARKS))
    requests = benchmark.all_requests()

    found = load.measured(benchmark.SERVER, requests, lambda _: load.AT_ONCE)

    rounds = {kind: len(each) for kind, each in found.items()}
    assert rounds == dict.fromkeys(requests, load.ROUNDS)
