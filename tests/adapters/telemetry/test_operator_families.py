"""Metrics of the operator tell what the conditions of the AAQ object tell."""

from dataclasses import dataclass

from bursar.adapters.telemetry.operator.families import operator_metrics
from support.operator.scene import on_scene


@dataclass
class Limiter:
    limit: int = 8
    in_flight: int = 0
    throttled_total: int = 0
    waiting: int = 0


def metrics(operator):
    return operator_metrics(operator, Limiter(), None).decode().splitlines()


@on_scene
async def test_conditions_phase_and_replicas_are_metrics(scene):
    await scene.create_aaq()
    operator = scene.start()
    assert "bursar_leader 0" in metrics(operator)
    assert not [line for line in metrics(operator) if line.startswith("bursar_operator_")]

    await scene.deploy()
    await scene.make_ready("aaq-server", replicas=0)
    await scene.create_aaq("second")
    await scene.pass_time()

    found = metrics(operator)
    assert "bursar_leader 1" in found
    assert 'bursar_operator_condition{type="Available",reason="NotReady"} 0' in found
    assert 'bursar_operator_condition{type="Degraded",reason="NotReady"} 1' in found
    assert 'bursar_operator_phase{phase="Deployed"} 1' in found
    assert 'bursar_operator_ready_replicas{deployment="aaq-server"} 0' in found
    assert 'bursar_operator_wanted_replicas{deployment="aaq-server"} 2' in found
    assert "bursar_operator_unwanted_objects 1" in found
    created = [line for line in found if line.startswith("bursar_operator_writes_total")]
    assert any('outcome="created"' in line for line in created)
