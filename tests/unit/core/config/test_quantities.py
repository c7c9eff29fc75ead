"""Quantities are read in YuniKorn's notation."""

import pytest

from muster_core.config.document import amounts, as_written, quantity


@pytest.mark.parametrize(
    "resource, text, amount",
    [
        ("vcore", "10", 10_000),
        ("vcore", "500m", 500),
        ("vcore", "0", 0),
        ("vcore", "2k", 2_000_000),
        ("memory", "010", 10),
        ("memory", "1 k", 1000),
        ("memory", "3M", 3_000_000),
        ("memory", "1Ki", 1024),
        ("memory", "2Mi", 2 * 1024**2),
        ("memory", "2 Gi", 2 * 1024**3),
        ("memory", "1Ti", 1024**4),
        ("memory", "1Pi", 1024**5),
        ("memory", "7Ei", 7 * 1024**6),
        ("memory", "9223372036854775807", 2**63 - 1),
        ("pods", "5", 5),
        ("nvidia.com/gpu", "1T", 10**12),
    ],
)
def test_a_quantity_is_digits_and_a_suffix(resource: str, text: str, amount: int) -> None:
    assert quantity(resource, text, "here") == amount


def test_absent_amounts_are_empty() -> None:
    assert amounts(None, "here") == {}


def test_an_amount_is_shown_in_an_exact_unit() -> None:
    assert (as_written("vcore", 1500), as_written("memory", 1500)) == ("1500m", "1500")
