"""Generated documents agree with their source: message classes, state diagrams, the list of differences."""

import re

from muster_si import si_pb2
from tools import diagrams, events, metrics, proto, queues
from tools.pictures import halves, recorded, walk
from tools.tables import put


def test_the_message_classes_match_the_proto_files() -> None:
    assert proto.drift() == []


def test_the_diagrams_match_the_state_tables() -> None:
    assert diagrams.stale() == []


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
