"""CEL selectors of devices: their result, what they can read, and what is refused."""

from __future__ import annotations

import pytest

from muster_core.model.devices import Attribute, DeviceKind, QualifiedName
from muster_core.placement.devices import expressions, versions

GPU = "gpu.example.com"
ATTRIBUTES: dict[QualifiedName, Attribute] = {
    (GPU, "index"): ("int", 5),
    (GPU, "model"): ("string", "A100"),
    (GPU, "shared"): ("bool", True),
    (GPU, "uuid"): ("string", "GPU-1"),
    (GPU, "version"): ("version", "1.10.0+build"),
    ("other.example.com", "rack"): ("string", "r1"),
}
KIND = DeviceKind(GPU, tuple(sorted(ATTRIBUTES.items())), (((GPU, "memory"), "80Gi"),))


def result(expression: str, kind: DeviceKind = KIND) -> bool | str:
    program = expressions.compiled(expression)
    return program if isinstance(program, str) else expressions.matches(program, expression, kind)


@pytest.mark.parametrize(
    "expression, expected",
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].index > 3 && device.attributes["gpu.example.com"].shared', True),
        ('device.attributes["gpu.example.com"].model.lowerAscii().matches("^a")', True),
        ('device.attributes["gpu.example.com"].?missing.orValue(false)', False),
        ('device.attributes["nobody.example.com"].?missing.orValue(true)', True),
        ('"nobody.example.com" in device.attributes', False),
        ('has(device.attributes["other.example.com"].rack)', True),
        ('cel.bind(a, device.attributes["gpu.example.com"], a.index == 5 && a.model == "A100")', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0', True),
        ('device.capacity["gpu.example.com"].memory == quantity("81920Mi")', True),
        ('quantity("1.5").add(quantity("500m")) == quantity("2") && quantity("2").isInteger()', True),
        ('quantity("1").sub(2).sign() == -1 && quantity("3").asInteger() == 3', True),
        ('device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.9.0"))', True),
        ('device.attributes["gpu.example.com"].version == semver("1.10.0")', True),
        ('semver("v1", true).major() == 1 && isSemver("1.0") == false && isQuantity("1Ki")', True),
        (
            'semver("1.0.0-rc.1").isLessThan(semver("1.0.0-rc.2")) && semver("1.0.0-rc.2").isLessThan(semver("1.0.0"))',
            True,
        ),
        ("device.allowMultipleAllocations", False),
        ('device.attributes["gpu.example.com"].exists(name, name == "uuid")', True),
    ],
)
def test_a_selector_has_the_result_of_kubernetes(expression: str, expected: bool) -> None:  # noqa: FBT001 - data
    assert result(expression) is expected


@pytest.mark.parametrize(
    "expression, error",
    [
        ('device.attributes["gpu.example.com"].missing', 'no such key: "missing"'),
        ("device.missing", 'no such key: "missing"'),
        ('device.attributes["gpu.example.com"].model', "it is of type STRING and not a bool"),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(semver("1.0.0"))', "no such overload"),
        ('quantity("many") == quantity("1")', "invalid quantity"),
        ('"text"', "must evaluate to bool"),
        ("device.driver ==", "Syntax error"),
        ("ip('::1') == ip('::1')", "undeclared reference to 'ip'"),
        ("true || " * 2000 + "true", "longer than 10240 characters"),
    ],
)
def test_an_expression_that_cannot_be_evaluated_is_an_error_and_not_a_refusal(expression: str, error: str) -> None:
    found = result(expression)
    assert isinstance(found, str)
    assert error in found


NESTED = "[1,2,3,4].all(x, [1,2,3,4].all(y, [1,2,3,4].all(z, [1,2,3,4].all(w, x + y + z + w > 0))))"
LISTS = "cel.bind(a, [0], cel.bind(b, [0], cel.bind(c, [a,a,a,a], cel.bind(d, [b,b,b,b], c == d))))"
TEXTS = f"cel.bind(a, '{'x' * 900}', cel.bind(b, a+a+a+a+a+a, (b+b+b+b+b+b).size() > 0))"
SPLIT = f"[{','.join('1' * 100)}].all(x, [1,2,3].all(z, '{'a' * 4000}'.split('').size() > 0))"


@pytest.mark.parametrize("expression", [NESTED, LISTS, TEXTS, SPLIT])
def test_an_expression_that_may_take_long_is_refused(expression: str) -> None:
    found = result(expression)
    assert isinstance(found, str)
    assert "may take too long" in found


@pytest.mark.parametrize(
    "expression, read",
    [
        ('device.attributes["gpu.example.com"].model == "A100"', {"model"}),
        ('cel.bind(a, device.attributes["gpu.example.com"], a.index > 1 && a["model"] == "x")', {"index", "model"}),
        ('device.attributes["gpu.example.com"].exists(name, name == "uuid")', None),
        ('device["attributes"]["gpu.example.com"].index == 5', None),
        ('device.attributes["gpu.example.com"][device.driver] == 5', None),
        ('device.attributes[?"gpu.example.com"].orValue({}) == {}', None),
        ('cel.bind(a, device.attributes["gpu.example.com"], a == {})', None),
        ('device.attributes["gpu.example.com"]["\\x61"] == 5', None),
    ],
)
def test_an_expression_that_names_what_it_reads_sees_only_that(expression: str, read: set[str] | None) -> None:
    program = expressions.compiled(expression)
    assert not isinstance(program, str)
    seen = {name for (_, name), _ in program.seen(KIND).attributes}
    assert seen == ({name for _, name in ATTRIBUTES} if read is None else read)


@pytest.mark.parametrize(
    "text, amount",
    [
        ("1", 10**9),
        ("1Ki", 1024 * 10**9),
        ("1e3", 10**12),
        ("1.5", 1_500_000_000),
        ("-2m", -2_000_000),
        ("1n", 1),
        (".5u", 500),
    ],
)
def test_a_quantity_is_read_as_kubernetes_does(text: str, amount: int) -> None:
    assert versions.quantity(text) == amount


@pytest.mark.parametrize("text", ["", "1.2", "1.2.03", "1.2.3-01", "v1.2.3", "1.2.3-"])
def test_a_text_that_is_no_semantic_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid semantic version"):
        versions.version(text)
