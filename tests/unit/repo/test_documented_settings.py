"""docs/settings.md names every setting that is read, and no other, with the default that is in force."""

import re

import pytest

from muster_core.edge.config.load import load
from muster_operator.link.config import settings as operator
from muster_si import keys
from tests.unit.repo.tree import ROOT

ROW = re.compile(r"^\| `([^`]+)` \| (?:`([^`]*)`|[^|]+) \| at (?:once|start) \| \S", re.MULTILINE)
DOCUMENTED = dict(ROW.findall((ROOT / "docs" / "settings.md").read_text()))

#: Said in a session, by no ConfigMap.
UNWRITTEN = {keys.EXTRA_FENCE}
#: Begins and ends the key of a subsystem's level.
PARTS = {keys.SETTING_LOG_PREFIX, keys.SETTING_LOG_SUFFIX}


def of_the_core() -> set[str]:
    names = {value for name, value in vars(keys).items() if name.startswith(("EXTRA_", "SETTING_"))}
    return names - UNWRITTEN - PARTS


def of_the_operator() -> set[str]:
    values = [value for name, value in vars(operator).items() if name.isupper() and not name.startswith("_")]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return {item for item in flat if isinstance(item, str)}


def test_every_setting_is_documented_and_every_documented_one_is_read() -> None:
    assert set(DOCUMENTED) == of_the_core() | of_the_operator() | {"log.<subsystem>.level"}


@pytest.mark.parametrize("key", sorted(of_the_core() - {keys.SETTING_LOG_LEVEL}))
def test_the_documented_default_is_the_cores(key: str) -> None:
    written, absent = load("", {key: DOCUMENTED[key]}), load("", {})
    assert (written.configuration, written.settings, written.warnings) == (absent.configuration, absent.settings, ())


@pytest.mark.parametrize("key", sorted(of_the_operator()))
def test_the_documented_default_is_the_operators(key: str) -> None:
    written, absent = operator.parse({key: DOCUMENTED[key]}), operator.parse({})
    assert (written.settings, written.limits) == (absent.settings, absent.limits)
    assert (written.cluster_id, written.policy_group) == (absent.cluster_id, absent.policy_group)
    assert (written.log_level, written.hot_refresh) == (absent.log_level, absent.hot_refresh)
