"""The catalogue has exactly the settings that are read, with their defaults, and the page is generated from it.
Every option of the command line is documented, too.
"""

import re
from pathlib import Path

import pytest
import typer
import yaml
from typer.core import TyperGroup, TyperOption

from muster.main import app
from muster_core.config.load import load
from muster_operator.config import catalog, settings
from muster_operator.config.catalog import LEVELS, SETTINGS, setting_warnings
from muster_operator.config.settings import parse
from muster_si import keys
from tests.unit.repo.tree import ROOT, name
from tools import settings as page
from tools.tables import put

#: Sent in a session, not set by a ConfigMap.
UNWRITTEN = {keys.EXTRA_BARRIER, keys.EXTRA_REJECTED, keys.EXTRA_UTILIZATION, keys.EXTRA_TEST_GROUPS}
#: Begins and ends the key of a subsystem's level.
PARTS = {keys.SETTING_LOG_PREFIX, keys.SETTING_LOG_SUFFIX}


def of_the_core() -> set[str]:
    names = {value for name, value in vars(keys).items() if name.startswith(("EXTRA_", "SETTING_"))}
    return names - UNWRITTEN - PARTS


def of_the_operator() -> set[str]:
    values = [value for name, value in vars(settings).items() if name.isupper() and not name.startswith("_")]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return {item for item in flat if isinstance(item, str)}


def test_the_catalogue_lists_exactly_the_settings_that_are_read() -> None:
    assert set(SETTINGS) == of_the_core() | of_the_operator() | set(catalog.DEFAULTS) | {LEVELS}


def test_the_page_is_generated_from_the_catalogue() -> None:
    assert page.PAGE.read_text() == put(page.PAGE.read_text(), page.tables())


@pytest.mark.parametrize("key", sorted(of_the_core() - {keys.SETTING_LOG_LEVEL}))
def test_the_defaults_in_the_catalogue_match_the_core(key: str) -> None:
    written, absent = load("", {key: SETTINGS[key].default}), load("", {})
    assert (written.configuration, written.settings, written.warnings) == (absent.configuration, absent.settings, ())


@pytest.mark.parametrize("key", sorted(of_the_operator()))
def test_the_defaults_in_the_catalogue_match_the_operator(key: str) -> None:
    written, absent = settings.parse({key: SETTINGS[key].default}), settings.parse({})
    assert (written.settings, written.limits) == (absent.settings, absent.limits)
    assert (written.cluster_id, written.policy_group) == (absent.cluster_id, absent.policy_group)
    assert (written.log_levels, written.hot_refresh) == (absent.log_levels, absent.hot_refresh)


def test_the_defaults_in_the_catalogue_match_the_admission_webhook() -> None:
    assert {key: SETTINGS[key].default for key in catalog.DEFAULTS} == catalog.DEFAULTS


def options(command: str) -> list[TyperOption]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return [option for option in group.commands[command].params if isinstance(option, TyperOption)]


def shown(default: object) -> str:
    """The default as users write it; empty if it cannot be written."""
    if isinstance(default, bool) or not isinstance(default, int | float | str):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(getattr(default, "value", default))


@pytest.mark.parametrize("command", ["operator", "core", "run"])
def test_every_option_is_documented_with_its_default(command: str) -> None:
    """A line that names an option's environment variable has its default as well."""
    lines = [line for path in sorted((ROOT / "docs").rglob("*.md")) for line in path.read_text().splitlines()]
    assert [option.opts[0] for option in options(command) if not any(option.opts[0] in line for line in lines)] == []
    assert [
        (option.opts[0], option.default)
        for option in options(command)
        for line in lines
        if f"`{option.envvar}`" in line and shown(option.default) not in line
    ] == []


# -- Muster accepts every configuration in documents and examples without a warning.

BLOCK = re.compile(r"^```yaml\n(partitions:.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "docs" / document for document in ("reference/queues-yaml.md", "concepts/preemption.md")]
EXAMPLES = ROOT / "examples" / "queues.yaml"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_documented_file_loads_without_warnings(path: Path) -> None:
    blocks = BLOCK.findall(path.read_text())
    assert len(blocks) >= 2
    for block in blocks:
        assert not load(block, {}).warnings, block


def test_the_config_map_of_the_examples_loads_without_warnings() -> None:
    data = yaml.safe_load(EXAMPLES.read_text())["data"]
    assert not load(data.get("queues.yaml", ""), data).warnings
    assert not [*setting_warnings(data)]
    parse(data)
