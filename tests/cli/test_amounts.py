"""Amounts as tables show them."""

import pytest

from bursar.cli.output.amounts import short_amount
from bursar.core.model.quantity import Quantity


@pytest.mark.parametrize(
    ("resource", "amount", "shown", "rounded_down"),
    [
        ("memory", "0", "0", "0"),
        ("memory", "1", "1", "1"),
        ("memory", "1023", "1023", "1023"),
        ("memory", "1Gi", "1Gi", "1Gi"),
        ("memory", "1536Mi", "1.5Gi", "1.5Gi"),
        ("memory", "1070Mi", "1.04Gi", "1.04Gi"),
        ("memory", "65811260Ki", "62.8Gi", "62.7Gi"),
        ("memory", "1048575Ki", "1Gi", "1023Mi"),
        ("memory", "128974848", "123Mi", "123Mi"),
        ("memory", "-1536Mi", "-1.5Gi", "-1.5Gi"),
        ("memory", "7Ei", "7Ei", "7Ei"),
        ("ephemeral-storage", "10G", "9.31Gi", "9.31Gi"),
        ("requests.memory", "1536Mi", "1.5Gi", "1.5Gi"),
        ("requests.memory/vmi", "1536Mi", "1.5Gi", "1.5Gi"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "1536Mi", "1.5Gi", "1.5Gi"),
        ("hugepages-2Mi", "1536Mi", "1.5Gi", "1.5Gi"),
        ("cpu", "1.5", "1500m", "1500m"),
        ("cpu", "4", "4", "4"),
        ("cpu", "12345678n", "13m", "13m"),
        ("limits.cpu", "1.5", "1500m", "1500m"),
        ("cpu", "9990.36", "9990.4", "9990.3"),
        ("cpu", "20k", "20000", "20000"),
        ("pods", "20k", "20000", "20000"),
        ("nvidia.com/gpu", "8", "8", "8"),
    ],
)
def test_amounts_are_short(resource, amount, shown, rounded_down):
    assert short_amount(resource, Quantity.parse(amount)) == shown
    assert short_amount(resource, Quantity.parse(amount), rounds_down=True) == rounded_down
