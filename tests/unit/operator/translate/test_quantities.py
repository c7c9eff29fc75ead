"""Kubernetes quantities are read exactly and rounded up at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import MAX_AMOUNT
from muster_operator.translate.values import NANO, amount, nanos

BYTES = "memory"


@pytest.mark.parametrize(
    "written, value",
    [
        ("0", 0),
        ("1", 1),
        ("+5", 5),
        ("1Ki", 1024),
        ("1.5Gi", 1_610_612_736),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("3E", 3 * 10**18),
        ("7Ei", 7 * 2**60),
        ("12e6", 12_000_000),
        ("12E6", 12_000_000),
        ("1e-1", 1),
        ("100m", 1),
        ("1001m", 2),
        ("1n", 1),
        (".5", 1),
        ("5.", 5),
        ("0m", 0),
        ("9223372036854775807", MAX_AMOUNT),
    ],
)
def test_a_quantity_becomes_whole_units_rounded_up(written: str, value: int) -> None:
    assert amount(BYTES, nanos("field", written)) == value


@pytest.mark.parametrize(
    "written, milli", [("1", 1000), ("100m", 100), ("0.1", 100), ("1u", 1), ("1500u", 2), ("2k", 2_000_000)]
)
def test_cpu_becomes_millicores_rounded_up(written: str, milli: int) -> None:
    assert amount("vcore", nanos("field", written)) == milli


@pytest.mark.parametrize(
    "written",
    ["", " ", "1 Gi", "Gi", "1gi", "1KI", "one", "1e", "--1", "1.2.3", ".", "0x10", "\u0661", "NaN", "1e+", "1\t"],
)
def test_an_invalid_quantity_is_rejected_with_its_field_and_a_fix(written: str) -> None:
    with pytest.raises(BadInputError, match=r"^group\.cpu: .*is not a quantity; write a Kubernetes quantity"):
        nanos("group.cpu", written)


@pytest.mark.parametrize(
    "written", ["9223372036854775808", "8Ei", "1e30", "9" * 65, "1e41", "1e-41", "1e99999999999999"]
)
def test_an_out_of_range_quantity_is_rejected(written: str) -> None:
    with pytest.raises(BadInputError, match=r"64 bits|out of range|too long"):
        nanos("field", written)


@pytest.mark.parametrize("value", [True, 1.5, [], {}, 2**63])
def test_a_quantity_that_is_neither_text_nor_integer_is_rejected(value: object) -> None:
    with pytest.raises(BadInputError):
        nanos("field", value)


def test_null_is_the_zero_quantity() -> None:
    assert nanos("field", None) == 0


@given(st.integers(0, MAX_AMOUNT))
def test_a_plain_integer_keeps_its_value(value: int) -> None:
    assert nanos("field", str(value)) == nanos("field", value) == value * NANO


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_sums_are_rounded_once(left: int, right: int) -> None:
    total = nanos("a", f"{left}n") + nanos("b", f"{right}n")
    assert amount(BYTES, total) == -(-(left + right) // NANO)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_rejected(written: str) -> None:
    try:
        value = nanos("field", written)
    except BadInputError:
        return
    assert abs(value) <= MAX_AMOUNT * NANO
