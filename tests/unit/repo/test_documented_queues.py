"""Muster accepts every configuration in documents and examples without a warning."""

import re
from pathlib import Path

import pytest
import yaml

from muster_core.config.load import load
from muster_operator.config.catalog import setting_warnings
from muster_operator.config.settings import parse
from tests.unit.repo.tree import ROOT, name

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
