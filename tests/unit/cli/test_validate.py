"""`muster validate` prints one line per finding, and exits with 1 if the core would reject the configuration."""

import base64
import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from muster.config import read_configuration
from muster.main import app
from muster_core.config import document
from muster_core.config.load import checksum

GOOD = "partitions:\n  - queues:\n      - name: a\n"
BAD = "partitions:\n  - queues:\n      - name: a.b\n      - {name: c, parent: maybe, colour: red}\n"
TWICE = "partitions: [{queues: [{name: a, queues: [{name: b.c}, {name: d, submitacl: a b c}]}, {name: a}]}]"
INDEPENDENT = """\
partitions:
  - name: default
    placementrules:
      - name: provded
    queues:
      - name: root
        submitacl: '*'
        resources: {max: {vcore: 1}}
        queues:
          - name: a.b
            queues:
              - name: c.d
          - resources:
              max: {nvidia.com/gpus: 4}
              guaranteed: {vcore: -1, memory: 1X}
            properties:
              application.sort.policy: fiar
            submitacl: a b c
            maxapplications: 0
          - colour: red
            name: e
"""
MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: muster-configs}}
data:
{entries}
"""


def run(path: Path, text: str | None) -> Result:
    """The command on a file with that text; None = there is no such file."""
    if text is not None:
        path.write_text(text)
    return CliRunner().invoke(app, ["validate", str(path)])


def test_a_valid_file_passes_and_its_checksum_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    result = run(path, GOOD)
    assert (result.exit_code, result.stdout) == (0, f"{path}: valid, checksum {checksum(GOOD)}\n")


def test_every_finding_has_a_line_with_file_path_value_rule_and_fix(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    result = run(path, TWICE)
    places = ("[0].queues[0].name", "[0].queues[1].submitacl", "[1].name")
    rules = (
        "'b.c' is not a queue name; use 1 to 64 letters, digits and _ : # / @ -, without dots",
        "'a b c' has more than two parts; write users, one space, groups; separate names by commas",
        "'a' is the name of another queue of the same parent; rename one; names are not case-sensitive",
    )
    assert result.exit_code == 1
    expected = [f"{path}:1: partitions[0].queues{place}: {rule}" for place, rule in zip(places, rules, strict=True)]
    assert result.stdout.splitlines() == expected


def test_all_errors_of_the_schema_and_of_the_rules_are_reported_together(tmp_path: Path) -> None:
    lines = run(tmp_path / "q.yaml", BAD).stdout.splitlines()
    found = [line.split(" ")[1] for line in lines]
    assert found == [f"partitions[0].queues{place}:" for place in ("[0].name", "[1].parent", "[1].colour")]


def test_independent_errors_and_warnings_are_reported_in_one_run_in_the_order_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    result = run(path, INDEPENDENT)
    places = [line.removeprefix(f"{path}:").split(" ")[0] for line in result.stdout.splitlines()]
    assert places == ["4:", "8:", "10:", "12:", "13:", "15:", "15:", "18:", "20:"]
    assert "did you mean provided?" in result.stdout
    warnings = [line.removeprefix(f"warning: {path}:") for line in result.stderr.splitlines()]
    assert [line.partition(":")[0] for line in warnings] == ["14", "17", "19"]
    assert ["did you mean fair?" in warnings[1], "nvidia.com/gpu?" in warnings[0]] == [True, True]


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n"])
def test_an_empty_file_is_an_error(text: str, tmp_path: Path) -> None:
    result = run(tmp_path / "q.yaml", text)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path / 'q.yaml'}: the file is empty; add partitions")


def test_a_tab_is_named(tmp_path: Path) -> None:
    assert "begins with a tab" in run(tmp_path / "q.yaml", "partitions:\n\t- queues: []\n").stdout


def test_standard_input_is_read_for_a_dash() -> None:
    result = CliRunner().invoke(app, ["validate", "-"], input="partitions: 1\n")
    assert (result.exit_code, result.stdout) == (
        1,
        "standard input:1: partitions: '1' is not a list; write a list: one item per line, each after a dash\n",
    )


def test_a_warning_does_not_fail_the_validation(tmp_path: Path) -> None:
    result = run(tmp_path / "q.yaml", "checksum: beef\n" + GOOD.replace("a\n", "a\n        maxapplications: 0\n"))
    assert result.exit_code == 0
    place = f"{tmp_path / 'q.yaml'}:5: partitions[0].queues[0].maxapplications"
    assert f"warning: {place}: 0 means unlimited" in result.stderr
    assert "warning: checksum: does not match the text" in result.stderr


@pytest.mark.parametrize("text", [None, "\0"])
def test_an_unreadable_file_and_an_invalid_file_have_different_exit_codes(text: str | None, tmp_path: Path) -> None:
    result = run(tmp_path / "q.yaml", text)
    assert result.exit_code == (2 if text is None else 1)
    assert len(result.output.splitlines()) == 1


def test_a_file_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    path.write_bytes(b"partitions: \xff\n")
    assert run(path, None).stdout.startswith(f"{path}: the file is not UTF-8 at character 12")


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def test_the_settings_and_the_queues_of_a_config_map_are_reported_in_one_run(tmp_path: Path) -> None:
    path = tmp_path / "map.yaml"
    entries = (
        f"  gang.waitTimeout: soon\n  kubernetes.qps: many\n  service.expiry: x\n  queues.yaml: |\n{indented(BAD)}"
    )
    path.write_text(MANIFEST.format(entries=entries))
    lines = CliRunner().invoke(app, ["validate", str(path)]).stdout.splitlines()
    assert [line.removeprefix(f"{path}: ").split(" ")[1] for line in lines[:3]] == [
        *("gang.waitTimeout:", "service.expiry:", "kubernetes.qps:")
    ]
    assert [line.startswith(f"{path}: queues.yaml:") for line in lines] == [False] * 3 + [True] * 3
    for command in (["plan", str(path)], ["simulate", "--nodes", "n", "--workload", "w", "--queues", str(path)]):
        result = CliRunner().invoke(app, [*command])
        assert (result.exit_code, result.stderr.splitlines()) == (2, [f"muster: {line}" for line in lines])


def test_the_manifest_of_another_object_is_named(tmp_path: Path) -> None:
    result = run(tmp_path / "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path / 'pod.yaml'}: the file is a Pod, not a ConfigMap; ")


def test_a_config_map_is_validated_with_its_settings(tmp_path: Path) -> None:
    entries = f"  service.policyGroup: mine\n  event.maxStreams: many\n  mine.yaml: |\n{indented(BAD)}"
    result = run(tmp_path / "map.yaml", MANIFEST.format(entries=entries))
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path}/map.yaml: mine.yaml:3: partitions[0].queues[0].name: ")
    assert "warning: event.maxStreams: 'many' is not a whole number" in result.stderr


@pytest.mark.parametrize(
    "entries, message",
    [
        ("  service.expiry: soon", "setting service.expiry: invalid value 'soon'"),
        ("  queues.yaml: {partitions: []}", "data.queues.yaml is not text"),
        ("  - a", "data is not a mapping"),
    ],
)
def test_a_config_map_that_the_operator_rejects_is_invalid(entries: str, message: str, tmp_path: Path) -> None:
    result = run(tmp_path / "map.yaml", MANIFEST.format(entries=entries))
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path}/map.yaml: {message}")


def test_a_config_map_without_queues_uses_the_default_queues(tmp_path: Path) -> None:
    for entry, warned in (("service.clusterId:", ""), ("queues.yaml: ''", "warning: queues.yaml is empty: ")):
        result = run(tmp_path / "map.yaml", MANIFEST.format(entries=f"  {entry}"))
        assert result.exit_code == 0
        assert result.stderr.startswith(warned)
        assert bool(result.stderr) is bool(warned)


def test_a_compressed_entry_of_a_config_map_is_unpacked(tmp_path: Path) -> None:
    packed = base64.b64encode(gzip.compress(TWICE.encode())).decode()
    text = f"kind: ConfigMap\nbinaryData:\n  queues.yaml.gz: {packed}\n"
    assert len(run(tmp_path / "map.yaml", text).stdout.splitlines()) == 3


def test_a_file_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, texts = document.read, []

    def counted(text: str, lines: dict[str, int] | None = None) -> document.Data:
        texts.append(text)
        return read(text, lines)

    monkeypatch.setattr(document, "read", counted)
    read_configuration(GOOD, "queues.yaml")
    assert texts == [GOOD]
