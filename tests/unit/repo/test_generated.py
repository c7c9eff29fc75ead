"""What is generated agrees with its source: message classes, state diagrams, the list of differences (style 50)."""

from enum import Enum
from pathlib import Path

import pytest

from tools import diagrams, differs, proto


class Door(Enum):
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
    (Door.SHUT, Touch.PUSH): Door.OPEN,
    (Door.SHUT, Touch.PULL): Door.OPEN,
    (Door.OPEN, Touch.BURN): Door.GONE,
}

MESSAGE = 'syntax = "proto3";\npackage sample.v1;\nmessage Sample {{ int32 {field} = 1; }}\n'


def test_the_message_classes_are_those_of_the_proto_files() -> None:
    assert proto.drift() == []


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


def test_the_compiler_refuses_a_broken_proto_file(tmp_path: Path) -> None:
    source = tmp_path / "sample" / "sample.proto"
    source.parent.mkdir()
    source.write_text("message {")
    with pytest.raises(proto.CompilerError):
        proto.drift(tmp_path)


def test_the_diagrams_are_those_of_the_state_tables() -> None:
    assert diagrams.stale() == []


def test_a_diagram_starts_at_the_first_state_joins_parallel_events_and_ends_where_no_row_leads_out() -> None:
    page = diagrams.draw("core", "DOORS", DOORS).splitlines()
    assert [line.strip() for line in page[page.index("stateDiagram-v2") + 1 : page.index("```")]] == [
        "[*] --> Shut",
        "Shut --> Open : PUSH / PULL",
        "Open --> Gone : BURN",
        "Gone --> [*]",
    ]
    assert "| Shut | PULL | Open |" in page


def test_only_a_mapping_from_state_and_event_to_state_is_a_table() -> None:
    assert diagrams.is_table(DOORS)
    assert not diagrams.is_table({})
    assert not diagrams.is_table({Door.OPEN: Door.SHUT})
    assert not diagrams.is_table({(Door.OPEN, Touch.PUSH): True})


def test_a_remark_is_found_in_comments_and_docstrings_up_to_the_end_of_its_paragraph(tmp_path: Path) -> None:
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
