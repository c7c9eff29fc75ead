"""The generators of message classes, diagrams, tables and the list of differences."""

import re
from enum import Enum
from pathlib import Path

import pytest

from muster_core.config.schema import Form
from tools import diagrams, differs, proto, queues
from tools.pictures import lifecycle
from tools.tables import put


class WebhookEndpoint(Enum):
    """Sample states."""

    OPEN = "Open"
    SHUT = "Shut"
    GONE = "Gone"


class Touch(Enum):
    """Sample events."""

    PUSH = 1
    PULL = 2
    BURN = 3


DOORS = {
    (WebhookEndpoint.SHUT, Touch.PUSH): WebhookEndpoint.OPEN,
    (WebhookEndpoint.SHUT, Touch.PULL): WebhookEndpoint.OPEN,
    (WebhookEndpoint.OPEN, Touch.BURN): WebhookEndpoint.GONE,
}


MESSAGE = 'syntax = "proto3";\npackage sample.v1;\nmessage Sample {{ int32 {field} = 1; }}\n'


def test_a_changed_proto_file_is_drift_until_it_is_generated_again(tmp_path: Path) -> None:
    source = tmp_path / "sample" / "sample.proto"
    source.parent.mkdir()
    source.write_text(MESSAGE.format(field="old"))
    proto.regenerate(tmp_path)
    assert proto.drift(tmp_path) == []
    source.write_text(MESSAGE.format(field="new"))
    assert "sample/sample_pb2.pyi" in proto.drift(tmp_path)
    proto.regenerate(tmp_path)
    assert proto.drift(tmp_path) == []
    source.unlink()
    proto.regenerate(tmp_path)
    assert list(source.parent.glob("*_pb2*")) == []


def test_the_compiler_rejects_a_broken_proto_file(tmp_path: Path) -> None:
    source = tmp_path / "sample" / "sample.proto"
    source.parent.mkdir()
    source.write_text("message {")
    with pytest.raises(proto.CompilerError):
        proto.drift(tmp_path)


def test_a_diagram_has_a_column_per_state_and_a_row_per_event_and_outcome() -> None:
    picture = lifecycle.svg("doors", diagrams.edges(DOORS))
    words = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert words == ["Shut", "Open", "Gone", "● begins   ◉ ends", "PUSH", "PULL", "BURN"]
    assert "| Shut | PULL | Open |" in diagrams.page("core", "DOORS", DOORS)


def test_a_table_replaces_only_the_table_under_its_heading() -> None:
    page = "# P\n\n## A\n\n| old |\n| row |\n\nWords.\n\n## B\n\nMore.\n"
    assert put(page, {"## A": "| new |\n"}) == "# P\n\n## A\n\n| new |\n\nWords.\n\n## B\n\nMore.\n"
    with pytest.raises(LookupError, match="## C"):
        put(page, {"## C": "| new |\n"})


def test_a_queues_yaml_key_without_an_explanation_is_rejected() -> None:
    class Bare(Form):
        nothing: str = ""

    with pytest.raises(LookupError, match="nothing"):
        list(queues.rows(Bare))


def test_only_a_mapping_from_state_and_event_to_state_is_a_table() -> None:
    assert diagrams.is_table(DOORS)
    assert not diagrams.is_table({})
    assert not diagrams.is_table({WebhookEndpoint.OPEN: WebhookEndpoint.SHUT})
    assert not diagrams.is_table({(WebhookEndpoint.OPEN, Touch.PUSH): True})


def test_a_difference_note_is_read_up_to_the_end_of_its_paragraph(tmp_path: Path) -> None:
    module = tmp_path / "core" / "muster_core" / "gang.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        '"""Gangs.\n\nDiffers: the clock starts\nlater.\n\nNot this.\n"""\n'
        "\nX = 1\n# Differs: the group\n# stays.\nY = 2\n# Nor this.\n"
    )
    assert differs.differences(tmp_path) == [
        differs.Difference("muster_core.gang", "the clock starts later."),
        differs.Difference("muster_core.gang", "the group stays."),
    ]
