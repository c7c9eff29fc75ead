"""An invalid configuration is rejected with the file, the path, the value, the rule and the fix.

Each file of `invalid/` has one error; its first line is the expected message.
"""

from pathlib import Path

import pytest

from muster_core.config.document import MOST, MOST_CHARACTERS
from muster_core.config.load import examine, load, validate
from muster_core.model.errors import ConfigurationError
from tests.unit.core.config.tree import a_file, unplaced

INVALID = sorted((Path(__file__).parent / "invalid").glob("*.yaml"))


def expected(path: Path) -> str:
    """Return the expected message of an invalid file: its name, the line if there is one, and the text."""
    effects = path.read_text().partition("\n")[0].removeprefix("# ")
    return f"{path.name}:{effects.removeprefix('line ')}" if effects.startswith("line ") else f"{path.name}: {effects}"


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_file_is_refused_for_the_one_fault_that_it_has(path: Path) -> None:
    errors = examine(path.read_text(), {}, path.name).errors
    assert [str(error) for error in errors] == [expected(path)]
    assert all((error.file, error.path, error.rule, error.fix) for error in errors)


def test_at_least_a_hundred_errors_have_distinct_messages() -> None:
    assert len({expected(path).partition(" ")[2] for path in INVALID}) >= 100


def test_the_error_at_start_is_the_first_error_of_the_validation() -> None:
    for path in INVALID:
        text = path.read_text()
        with pytest.raises(ConfigurationError) as caught:
            load(text, {})
        assert validate(text).reason == str(caught.value)


def refusal(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(text, {})
    return caught.value


@pytest.mark.parametrize(
    "text, rule",
    [
        ("x: " + "[" * 200, "is nested too deeply in line 1"),
        (" " * (MOST_CHARACTERS + 1), f"has {MOST_CHARACTERS + 1} characters, more than {MOST_CHARACTERS}"),
        ("a: \udcff", "is not UTF-8 at character 3"),
        ("a: \0", "is not YAML: unacceptable character #x0000: control characters are not allowed"),
    ],
)
def test_an_unsafe_text_is_rejected(text: str, rule: str) -> None:
    error = refusal(text)
    assert (error.path, error.value) == ("the file", None)
    assert error.rule.startswith(rule)


def test_aliases_that_blow_the_text_up_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert refusal("\n".join(lines)).rule == "is too large because of its aliases"


def test_a_long_key_under_many_aliases_is_refused() -> None:
    text = f"a: &a\n  ? {'k' * 100_000}\n  : v\nb: [{', '.join(['*a'] * 1_000)}]"
    assert refusal(text).rule == "is too large because of its aliases"


def test_merges_that_blow_the_text_up_are_refused() -> None:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 10)]
    assert refusal("\n".join(lines)).rule == "is too large because of its aliases"


def test_a_fault_does_not_hide_the_others_nor_make_new_ones() -> None:
    text = a_file(
        """
        - name: a.b
        - name: c
          limits: [{users: [ann]}, {users: [bob], maxapplications: 1}, {maxapplications: 1}]
          queues: [{name: d, submitacl: a b c}]
        """
    )
    text += "    placementrules: [{name: fixed, value: root.a}]\n"
    errors = examine(text, {"service.expiry": "soon"}).errors
    assert [(error.file, error.path) for error in errors] == [
        ("queues.yaml:5", "partitions[0].queues[0].name"),
        ("queues.yaml:7", "partitions[0].queues[1].limits[0]"),
        ("queues.yaml:7", "partitions[0].queues[1].limits[2]"),
        ("queues.yaml:8", "partitions[0].queues[1].queues[0].submitacl"),
        ("", "service.expiry"),
    ]


def test_only_the_first_errors_and_warnings_are_reported() -> None:
    names = "\n".join(f"- {{name: a.{i}}}" for i in range(MOST + 5))
    assert len(examine(a_file(names), {}).errors) == MOST
    odd = "\n".join(f"- {{name: a{i}, maxapplications: 0}}" for i in range(MOST + 5))
    warnings = unplaced(load(a_file(odd), {}).warnings)
    assert (len(warnings), warnings[-1]) == (MOST + 1, "and 5 more")


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(str(refusal(a_file(f"- {{name: a, parent: {'x' * 5000}}}")))) < 250
