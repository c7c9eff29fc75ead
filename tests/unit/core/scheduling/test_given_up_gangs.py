"""A gang that its resource manager gives up fails like one that timed out. Its event records report cancellations."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.events import ApplicationAdded
from muster_core.model.records import Detail
from muster_core.model.specs import GangStyle
from tests.unit.builders import a_configuration, a_queue, an_application
from tests.unit.core.scheduling.scenario import Scenario, releases, states


def test_event_records_of_a_gang_that_is_given_up_report_no_timeout() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.add_full_node()
    spec = replace(an_application(gang=5), style=GangStyle.HARD)
    scenario.gang(ApplicationAdded(spec), 5)
    app = scenario.app()
    assert (len(app.allocations), len(app.asks)) == (4, 1)
    effects = scenario.send(ApplicationAdded(replace(spec, is_renewal=True, given_up="a webhook rejects them")))
    assert states(effects) == ["Failing"]
    for key, termination in releases(effects).items():
        scenario.release(key, why=termination)
    assert [count.timed_out for count in app.gang.groups.values()] == [4], "none was replaced"
    details = {record.detail for record in scenario.records}
    assert {Detail.REQUEST_CANCEL, Detail.ALLOC_CANCEL} <= details
    assert not {Detail.REQUEST_TIMEOUT, Detail.ALLOC_TIMEOUT} & details
