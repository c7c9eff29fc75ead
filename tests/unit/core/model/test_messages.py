"""Quantities in messages are in Kubernetes units and exact."""

import pytest

from muster_core.model.quantities import quantity


@pytest.mark.parametrize(
    "resource, amount, text",
    [
        ("vcore", 0, "0"),
        ("vcore", 500, "500m"),
        ("vcore", 2000, "2"),
        ("vcore", 2500, "2500m"),
        ("memory", 0, "0"),
        ("memory", 1000, "1000"),
        ("memory", 2**31, "2Gi"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("ephemeral-storage", 5 * 2**30, "5Gi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("memory", 2**70, "1048576Pi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 3, "3"),
    ],
)
def test_an_amount_is_written_as_in_a_manifest(resource: str, amount: int, text: str) -> None:
    assert quantity(resource, amount) == text
