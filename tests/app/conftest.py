"""Fixtures of several modules."""

import pytest

from support.quota.aaq_controller import AaqScene


@pytest.fixture
async def scene():
    """A cluster with AAQ's kinds. Modules that need more have a scene of their own."""
    scene = AaqScene()
    await scene.furnish()
    return scene
