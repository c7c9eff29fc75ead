"""Generated documents agree with their source: message classes, state diagrams, the list of differences."""

import re
from enum import Enum
from pathlib import Path

import pytest

from muster_core.config.schema import Form
from muster_si import si_pb2
from tools import diagrams, differs, events, metrics, proto, queues
from tools.pictures import halves, lifecycle, recorded, walk
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


def test_the_message_classes_match_the_proto_files() -> None:
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


def test_the_compiler_rejects_a_broken_proto_file(tmp_path: Path) -> None:
    source = tmp_path / "sample" / "sample.proto"
    source.parent.mkdir()
    source.write_text("message {")
    with pytest.raises(proto.CompilerError):
        proto.drift(tmp_path)


def test_the_diagrams_match_the_state_tables() -> None:
    assert diagrams.stale() == []


def test_a_diagram_has_a_column_per_state_and_a_row_per_event_and_outcome() -> None:
    picture = lifecycle.svg("doors", diagrams.edges(DOORS))
    words = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert words == ["Shut", "Open", "Gone", "● begins   ◉ ends", "PUSH", "PULL", "BURN"]
    assert "| Shut | PULL | Open |" in diagrams.page("core", "DOORS", DOORS)


def test_the_walkthrough_of_a_gang_uses_the_terms_of_the_interface() -> None:
    known = set(si_pb2.DESCRIPTOR.message_types_by_name) | set(si_pb2.TerminationType.keys()) | {"Running"}
    mentioned = {word for step in walk.STEPS for word in re.findall(r"\b[A-Z]\w+", step.words)}
    assert mentioned - known == set()
    assert len(mentioned) > 5
    assert {actor for step in walk.STEPS for actor in step[:2]} == set(walk.ACTORS)


def test_the_diagram_shows_the_layers_that_the_import_linter_checks() -> None:
    picture = halves.svg()
    for package, names in halves.layers().items():
        assert f": {package}<" in picture
        assert {name for name in names if f">{name.replace(' | ', ' and ')}<" not in picture} == {"__main__"}


def test_the_recorded_run_is_complete() -> None:
    run = recorded.load()
    assert {group: len([life for life in run.pods.values() if life.group == group]) for group in run.asked} == {
        group: 2 * asked for group, asked in run.asked.items()
    }
    assert all(life.seen <= life.bound <= life.ended for life in run.pods.values() if life.bound and life.ended)
    assert run.view().total("replaced") == run.view().total("asked") > 0


def test_the_tables_of_queues_metrics_and_events_are_generated_from_the_code() -> None:
    for page in (queues, metrics, events):
        assert put(page.PAGE.read_text(), page.tables()) == page.PAGE.read_text(), "make diagrams"


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
