"""What requests take of the capacity of a device: defaults, valid values, ranges and steps, as in Kubernetes 1.37."""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.model.devices import CapacityLimit
from muster_core.placement.devices.capacity import consumption
from muster_core.placement.devices.versions import quantity, quantity_text

MOST = str(2**63 - 1)


def limit(value: str = "10", *, values: tuple[str, ...] = (), **amounts: str) -> CapacityLimit:
    policy: dict[str, Any] = {name: quantity(amount) for name, amount in amounts.items()}
    return CapacityLimit("memory", quantity(value), values=tuple(map(quantity, values)), **policy)


@pytest.mark.parametrize(
    "of_device, wanted, expected",
    [
        (limit(), "", "10"),
        (limit(), "3", "3"),
        (limit(default="1"), "", "1"),
        (limit(default="1", values=("1", "4")), "2", "4"),
        (limit(default="1", values=("1", "4")), "5", "none"),
        (limit(default="1", least="1", most="4"), "500m", "1"),
        (limit(default="1", least="1", most="4"), "3", "3"),
        (limit(default="1", least="1", most="4"), "5", "none"),
        (limit(default="1", least="1", step="2"), "2", "3"),
        (limit(default="1", least="1", most="4", step="2"), "4", "none"),
        (limit(default="200m", least="200m", most="1", step="100m"), "250m", "300m"),
        (limit(default="200m", least="200m", most="1", step="100m"), "1n", "200m"),
        (limit(default="200m", least="200m", step="100m"), "200000001n", "error"),
        (limit(default="1n", least="1n", step="2"), "2", "3"),
        (limit(MOST, default="1", least="1", step="2"), MOST, "error"),
        (limit(MOST, default="1", least="1", step="1n"), str(2**63 - 2), str(2**63 - 2)),
        (limit(MOST, default="1", least="1", step="1n"), str(2**63), "error"),
        (limit(default="0", least="0"), "-1", "0"),
        (limit(), "-1", "error"),
    ],
)
def test_a_request_takes_the_least_valid_amount(of_device: CapacityLimit, wanted: str, expected: str) -> None:
    found = consumption((of_device,), (("memory", quantity(wanted)),) if wanted else ())
    match expected:
        case "none":
            assert found is None
        case "error":
            assert isinstance(found, str)
        case _:
            assert found == (("memory", quantity(expected)),)


def test_an_error_of_one_capacity_precedes_what_others_lack() -> None:
    cores = limit("1")._replace(name="cores")
    memory = limit(MOST, default="1", least="1", step="2")
    assert isinstance(consumption((cores, memory), (("cores", quantity("2")), ("memory", quantity(MOST)))), str)
    assert consumption((cores,), (("gone", 1),)) is None


@pytest.mark.parametrize("text", ["0", "1", "10Gi", "1536Mi", "1000", "1500000000n", "1n", "2Ei"])
def test_amounts_are_written_as_quantities(text: str) -> None:
    assert quantity_text(quantity(text)) == text
