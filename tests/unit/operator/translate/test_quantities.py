"""Kubernetes quantities are read exactly and rounded up at the end."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import MAX_AMOUNT
from muster_operator.translate.pods import pod_resources
from muster_operator.translate.values import NANO, amount, nanos
from tests.unit.operator.controller.objects import Raw

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


# -- What a pod takes is what kube-scheduler counts: the documentation's examples, and its own arithmetic.
# The table ``pods_of_kube_scheduler.json`` was computed by ``PodRequests`` of k8s.io/component-helpers v0.36.1
# (reading the status too) for pods made at random: containers, sidecars, overhead, pod-level resources, resizes
# under way.

MI = 2**20
EXAMPLES = yaml.safe_load((Path(__file__).parents[3] / "cases" / "pod-requests.yaml").read_text())
TABLE = json.loads((Path(__file__).parent / "pods_of_kube_scheduler.json").read_text())


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["page"] for example in EXAMPLES])
def test_the_documentation_examples_take_the_documented_resources(example: Raw) -> None:
    takes = {
        name: MI * int(amount.removesuffix("Mi")) if isinstance(amount, str) else amount
        for name, amount in example["takes"].items()
    }
    assert pod_resources(example["spec"], example.get("status", {})) == {**takes, "pods": 1}


@pytest.mark.parametrize("entry", TABLE, ids=[str(number) for number in range(len(TABLE))])
def test_pod_resources_match_kube_scheduler(entry: Raw) -> None:
    assert pod_resources(entry["spec"], entry["status"]) == {**entry["takes"], "pods": 1}
