"""The web UI uses the words of the `muster` command."""

import json
import re
from pathlib import Path

import pytest

from muster import pending
from muster_core.rest import web_ui

WORDS = (Path(web_ui.__file__).parent / "ui" / "words.js").read_text()


@pytest.mark.parametrize("name", ["BLOCKED_BY", "SUGGESTIONS", "CONSTRAINTS", "NEVER_FITS", "GANG_CLUSTER"])
def test_the_words_for_reasons_are_those_of_the_command(name: str) -> None:
    table = re.search(rf"^export const {name} = (.*?);$", WORDS, re.MULTILINE | re.DOTALL)
    assert table is not None
    assert json.loads(table[1]) == getattr(pending, name)
