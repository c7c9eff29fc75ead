"""`muster config show` prints the value and the source of each setting."""

import json
from pathlib import Path

import yaml
from typer.testing import CliRunner, Result

from muster.main import app
from muster_operator.config.catalog import LEVELS, SETTINGS

MANIFEST = "kind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{{entries}}}\n"


def show(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["config", "show", *arguments], env=environment)


def a_file(folder: Path, name: str, entries: str) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(MANIFEST.format(name=name, entries=entries))
    return str(path)


def row(result: Result, key: str) -> list[str]:
    """The cells of a key's row."""
    [line] = [line for line in result.stdout.splitlines() if line.startswith(f"{key} ")]
    return line.split()[1:]


def test_the_defaults_list_every_setting_with_its_meaning() -> None:
    result = show("--defaults")
    assert result.exit_code == 0
    assert [key for key in SETTINGS if key not in result.stdout] == []
    assert row(result, "gang.waitTimeout")[:2] == ["0s", "immediately"]


def test_the_defaults_are_valid_config_map_data() -> None:
    expected = {key: setting.default for key, setting in SETTINGS.items() if key != LEVELS}
    assert yaml.safe_load(show("--defaults", "-o", "yaml").stdout) == expected
    assert json.loads(show("--defaults", "-o", "json").stdout) == expected


def test_values_are_below_their_config_map_and_the_later_one_wins(tmp_path: Path) -> None:
    first = a_file(
        tmp_path,
        "muster-defaults",
        "gang.waitTimeout: 1h, log.level: WARN, queues.yaml: 'partitions: [{queues: [{name: a}]}]'",
    )
    second = a_file(tmp_path, "muster-configs", "gang.waitTimeout: 2h")
    result = show("-f", first, "-f", second)
    assert result.exit_code == 0
    assert row(result, "gang.waitTimeout") == ["2h", "immediately"]
    assert row(result, "queues.yaml") == ["1", "lines"]
    below = {
        "ConfigMap muster-configs": ["gang.waitTimeout"],
        "ConfigMap muster-defaults": ["log.level", "queues.yaml"],
    }
    lines = result.stdout.splitlines()
    for heading, keys in below.items():
        at = lines.index(heading) + 1
        assert sorted(line.split()[0] for line in lines[at : at + len(keys)]) == keys
    assert lines.index("Defaults") < next(at for at, line in enumerate(lines) if line.startswith("service.clusterId "))


def test_unknown_settings_are_reported_as_warnings(tmp_path: Path) -> None:
    result = show("-f", a_file(tmp_path, "muster-configs", "gang.waitTimout: 1h"), "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["gang.waitTimout"] == "1h"
    assert result.stderr == ("warning: gang.waitTimout is not a setting of Muster; did you mean gang.waitTimeout?\n")


def test_an_invalid_value_ends_with_exit_code_1_and_a_message(tmp_path: Path) -> None:
    result = show("-f", a_file(tmp_path, "muster-configs", "gang.waitTimeout: soon"))
    assert result.exit_code == 1
    assert "setting gang.waitTimeout: invalid value 'soon'" in result.stderr


def test_a_file_that_is_not_a_config_map_ends_with_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("kind: Pod\n")
    result = show("-f", str(path))
    assert (result.exit_code, result.stderr) == (
        2,
        f"muster: {path} is not the manifest of a ConfigMap; for queues.yaml alone, use muster validate\n",
    )
    assert show("-f", str(tmp_path / "none.yaml")).exit_code == 2


def test_a_missing_cluster_gives_one_line_and_exit_code_3(tmp_path: Path) -> None:
    result = show(KUBECONFIG=str(tmp_path / "none"), HOME=str(tmp_path))
    assert result.exit_code == 3
    assert result.stderr.startswith("muster: request to the cluster failed: no kubeconfig found (KUBECONFIG names ")
    assert len(result.stderr.splitlines()) == 1
