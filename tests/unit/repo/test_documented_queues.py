"""Every configuration that the documents and examples show is one that Muster takes, without a warning."""

import re
from pathlib import Path

import pytest
import yaml

from muster_core.edge.config.load import load
from muster_operator.link.config.catalogue import doubts
from muster_operator.link.config.settings import parse
from tests.unit.repo.tree import ROOT, name

BLOCK = re.compile(r"^```yaml\n(partitions:.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "docs" / document for document in ("reference/queues-yaml.md", "concepts/preemption.md")]
CONFIG_MAPS = sorted(ROOT.glob("examples/*/configmap.yaml"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_documented_file_is_taken_as_it_stands(path: Path) -> None:
    blocks = BLOCK.findall(path.read_text())
    assert len(blocks) >= 2
    for block in blocks:
        assert not load(block, {}).warnings, block


@pytest.mark.parametrize("path", CONFIG_MAPS, ids=name)
def test_an_examples_config_map_is_taken_as_it_stands(path: Path) -> None:
    data = yaml.safe_load(path.read_text())["data"]
    assert not load(data.get("queues.yaml", ""), data).warnings
    assert not [*doubts(data)]
    parse(data)
