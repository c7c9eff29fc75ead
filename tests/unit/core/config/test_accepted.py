"""Valid files are accepted with no more warnings than needed.

Each file of `valid/` begins with its subject; `says:` gives the expected warnings.
"""

from pathlib import Path

import pytest

from muster_core.config.load import examine
from muster_core.model.resources import Limit
from tests.unit.core.config.tree import child, partition, unplaced

VALID = sorted((Path(__file__).parent / "valid").glob("*.yaml"))
_SAYS = "# says: "


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_is_accepted_with_the_expected_warnings(path: Path) -> None:
    text = path.read_text()
    examined = examine(text, {})
    assert examined.errors == ()
    effects = tuple(line.removeprefix(_SAYS) for line in text.splitlines() if line.startswith(_SAYS))
    assert sorted(unplaced(examined.built.warnings)) == sorted(effects)


def test_there_are_at_least_thirty_valid_files() -> None:
    assert len(VALID) >= 30


def test_a_merged_mapping_fills_what_the_mapping_itself_leaves_out() -> None:
    root = partition((Path(__file__).parent / "valid" / "merge-keys.yaml").read_text()).root
    assert child(root, "second").max == child(root, "small").max == Limit({"vcore": 1000, "memory": 10**9})
    assert child(root, "third").max == Limit({"vcore": 1000, "memory": 2 * 10**9, "pods": 3})
