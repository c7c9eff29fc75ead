"""A new configuration changes the queues; running applications are kept."""

from dataclasses import replace

import pytest

from muster_core.model.config import (
    DENY_ALL,
    AccessList,
    Configuration,
    PriorityPolicy,
    QueueConfig,
    QueuePolicies,
    QuotaLimit,
)
from muster_core.model.effects import Effect
from muster_core.model.ids import QueuePath
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import GangStyle
from muster_core.model.states import QueueState
from muster_core.state.queues import Queue
from tests.unit.builders import a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, rejection, releases, states


def reload(scenario: Scenario, *queues: QueueConfig) -> list[Effect]:
    return scenario.reload(a_configuration(*queues))


def running(scenario: Scenario, name: str, queue: str) -> None:
    """An application with one allocation, `<name>-r`."""
    assert rejection(scenario.submit(an_application(name, queue=queue))) == ""
    assert placed(scenario.ask(an_ask(f"{name}-r", app=name, vcore=1000))) != {}


def complete_application(scenario: Scenario, name: str) -> None:
    """Release the application's last allocation, and let its completing time pass."""
    scenario.release(f"{name}-r", name)
    assert states(scenario.wait(60), name) == ["Completed"]


def queue(scenario: Scenario, path: str) -> Queue:
    return scenario.partition.queues.by_path[QueuePath(path)]


def paths(scenario: Scenario) -> set[str]:
    return {str(path) for path in scenario.partition.queues.by_path} - {"root"}


def submit(scenario: Scenario, name: str, to: str) -> str:
    """The reason why an application without a namespace is refused; empty = it is not."""
    return rejection(scenario.submit(replace(an_application(name, queue=to), tags={})))


# -- settings --------------------------------------------------------------------


def test_a_reload_replaces_every_setting_of_a_queue() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=1000)))
    new = QueueConfig(
        "a",
        max=Limit({"vcore": 3000}),
        guaranteed=Resources({"vcore": 2000}),
        max_applications=7,
        properties={"priority.policy": "fence"},
        policies=QueuePolicies(priority=PriorityPolicy.FENCE),
        submit_acl=AccessList(users=frozenset({"kim"})),
        admin_acl=AccessList(groups=frozenset({"ops"})),
        limits=(QuotaLimit(users=("kim",), max_applications=1),),
    )
    reload(scenario, new)
    found = queue(scenario, "root.a")
    assert (found.max, found.guaranteed, found.max_applications) == (new.max, new.guaranteed, 7)
    assert (found.properties, found.policies, found.limits) == (new.properties, new.policies, new.limits)
    assert (found.submit_acl, found.admin_acl) == (new.submit_acl, new.admin_acl)


def test_only_changed_amounts_are_recorded() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=1000), a_queue("b", vcore=1000)))
    scenario.records.clear()
    reload(scenario, a_queue("a", vcore=2000, guaranteed=500), a_queue("b", vcore=1000))
    noted = [(note.subject, note.detail, note.resource) for note in scenario.records if note.about is Notice.QUEUE]
    assert noted == [
        ("root.a", Detail.QUEUE_MAX, Resources({"vcore": 2000})),
        ("root.a", Detail.QUEUE_GUARANTEED, Resources({"vcore": 500})),
    ]


def test_revoked_access_applies_to_new_applications_only() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    running(scenario, "one", "root.a")
    closed = a_configuration(a_queue("a"))
    [partition] = closed.partitions
    root = replace(partition.root, submit_acl=DENY_ALL)
    scenario.reload(Configuration((replace(partition, root=root),)))
    assert "may not submit" in submit(scenario, "two", "root.a")
    assert placed(scenario.ask(an_ask("one-s", app="one"))) == {"one-s": "n0"}


def test_a_lower_maximum_blocks_new_pods_and_keeps_running_ones() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=3000)), nodes=1)
    running(scenario, "one", "root.a")
    scenario.ask(an_ask("one-s", app="one"))
    assert releases(reload(scenario, a_queue("a", vcore=1000))) == {}
    assert placed(scenario.ask(an_ask("one-t", app="one"))) == {}
    assert placed(reload(scenario, a_queue("a", vcore=3000))) == {"one-t": "n0"}


@pytest.mark.parametrize("style", list(GangStyle))
def test_a_reload_reverted_in_time_does_not_affect_a_waiting_gang(style: GangStyle) -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"), vcore=4000)))
    scenario.gang(an_application("g", queue="root.p.a", gang=3, style=style, timeout_s=60), 3)
    assert states(reload(scenario, a_queue("p", a_queue("a"), vcore=2000)), "g") == []
    scenario.wait(59)
    assert states(reload(scenario, a_queue("p", a_queue("a"), vcore=4000)), "g") == []
    assert states(scenario.wait(3600), "g") == []
    assert states(scenario.add_node("n0"), "g") == ["Running"]


def test_a_hard_gang_that_stays_impossible_fails_with_its_timer() -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"), vcore=4000)), nodes=1)
    scenario.add_full_node()
    scenario.gang(an_application("g", queue="root.p.a", gang=3, timeout_s=60), 3)
    assert scenario.app("g").state == "Running"
    waiting = an_application("h", queue="root.p.a", gang=3, timeout_s=60, style=GangStyle.HARD)
    scenario.gang(waiting, 3)
    reload(scenario, a_queue("p", a_queue("a"), vcore=2000))
    assert states(scenario.wait(59), "h") == []
    assert states(scenario.wait(2), "h") == ["Failing"]


def test_the_same_configuration_again_changes_nothing() -> None:
    queues = (a_queue("p", a_queue("a", vcore=1000)), a_queue("b", guaranteed=10))
    scenario = Scenario(a_configuration(*queues), nodes=1)
    running(scenario, "one", "root.p.a")
    running(scenario, "two", "root.ns")
    before = {
        path: (item.state, item.is_leaf, item.managed) for path, item in scenario.partition.queues.by_path.items()
    }
    scenario.records.clear()
    assert reload(scenario, *queues) == []
    after = {path: (item.state, item.is_leaf, item.managed) for path, item in scenario.partition.queues.by_path.items()}
    assert after == before
    assert scenario.records == []


# -- queues that come and go -----------------------------------------------------


def test_a_new_queue_accepts_applications_immediately() -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"))))
    reload(scenario, a_queue("p", a_queue("a"), a_queue("b", a_queue("c"))))
    assert submit(scenario, "one", "root.p.b.c") == ""
    made = [note.subject for note in scenario.records if note.change is Change.ADD and note.detail is Detail.NONE]
    assert made[-2:] == ["root.p.b", "root.p.b.c"]


def test_an_empty_unconfigured_queue_is_deleted_immediately() -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"), a_queue("b")), a_queue("c")))
    reload(scenario, a_queue("c"))
    assert paths(scenario) == {"root.c"}


def test_a_removed_queue_drains_and_is_deleted_with_its_last_application() -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"), a_queue("b"))), nodes=1)
    running(scenario, "one", "root.p.a")
    reload(scenario, a_queue("c"))
    assert paths(scenario) == {"root.c", "root.p", "root.p.a"}
    assert queue(scenario, "root.p").state is queue(scenario, "root.p.a").state is QueueState.DRAINING
    assert placed(scenario.ask(an_ask("one-s", app="one"))) == {"one-s": "n0"}
    assert "queue root.p.a is draining" in submit(scenario, "two", "root.p.a")
    scenario.release("one-s", "one")
    complete_application(scenario, "one")
    assert paths(scenario) == {"root.c"}


def test_a_draining_queue_that_is_configured_again_is_active() -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"))), nodes=1)
    running(scenario, "one", "root.p.a")
    reload(scenario)
    reload(scenario, a_queue("p", a_queue("a"), a_queue("b")))
    assert paths(scenario) == {"root.p", "root.p.a", "root.p.b"}
    assert submit(scenario, "two", "root.p.a") == ""
    complete_application(scenario, "one")
    assert queue(scenario, "root.p.a").state is QueueState.ACTIVE


# -- leaf and parent -------------------------------------------------------------


def test_an_empty_leaf_becomes_a_parent_and_back_immediately() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    reload(scenario, a_queue("a", a_queue("b")))
    assert submit(scenario, "one", "root.a.b") == ""
    scenario = Scenario(a_configuration(a_queue("a", a_queue("b"))))
    reload(scenario, a_queue("a"))
    assert paths(scenario) == {"root.a"}
    assert submit(scenario, "one", "root.a") == ""


def test_a_leaf_with_applications_becomes_a_parent_when_they_finish() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=3000)), nodes=1)
    running(scenario, "one", "root.a")
    effects = reload(scenario, a_queue("a", a_queue("b", a_queue("c")), vcore=2000))
    assert "becomes a parent queue when its applications (1 now) have ended" in notices(effects)[0]
    assert queue(scenario, "root.a").state is QueueState.STOPPED
    assert queue(scenario, "root.a").max == Limit({"vcore": 2000})
    assert "is stopped" in submit(scenario, "two", "root.a")
    assert submit(scenario, "two", "root.a.b.c") != ""
    assert placed(scenario.ask(an_ask("one-s", app="one"))) == {"one-s": "n0"}
    scenario.release("one-s", "one")
    complete_application(scenario, "one")
    assert paths(scenario) == {"root.a", "root.a.b", "root.a.b.c"}
    assert queue(scenario, "root.a").state is QueueState.ACTIVE
    assert submit(scenario, "two", "root.a.b.c") == ""


@pytest.mark.parametrize("last", ["leaf", "gone"])
def test_a_stopped_leaf_follows_the_newest_configuration(last: str) -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    running(scenario, "one", "root.a")
    reload(scenario, a_queue("a", a_queue("b")))
    reload(scenario, *([a_queue("a")] if last == "leaf" else []))
    if last == "leaf":
        assert submit(scenario, "two", "root.a") == ""
    else:
        assert "draining" in submit(scenario, "two", "root.a")
        complete_application(scenario, "one")
        assert paths(scenario) == set()


def test_a_parent_becomes_a_leaf_when_its_children_are_deleted() -> None:
    scenario = Scenario(a_configuration(a_queue("a", a_queue("b"), a_queue("c"))), nodes=1)
    running(scenario, "one", "root.a.b")
    effects = reload(scenario, a_queue("a"))
    assert "becomes a leaf when the queues below it (1 now) are removed" in notices(effects)[0]
    assert paths(scenario) == {"root.a", "root.a.b"}
    assert "is a parent queue" in submit(scenario, "two", "root.a")
    complete_application(scenario, "one")
    assert paths(scenario) == {"root.a"}
    assert submit(scenario, "two", "root.a") == ""


def test_a_change_of_queue_type_is_recorded() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    reload(scenario, a_queue("a", a_queue("b")))
    assert [note.subject for note in scenario.records if note.detail is Detail.QUEUE_TYPE] == ["root.a"]


# -- dynamic queues --------------------------------------------------------------


def parent(name: str, *children: QueueConfig) -> QueueConfig:
    return replace(a_queue(name, *children), parent=True)


def on_demand(scenario: Scenario, name: str, path: str) -> None:
    """A running application in a dynamic queue for its namespace tag."""
    spec = replace(an_application(name, queue=""), tags={"namespace": path})
    scenario.submit(spec)
    assert placed(scenario.ask(an_ask(f"{name}-r", app=name))) != {}
    assert not queue(scenario, path).managed


def test_a_dynamic_queue_is_unchanged_by_a_reload() -> None:
    scenario = Scenario(a_configuration(parent("p")), nodes=1)
    on_demand(scenario, "one", "root.p.d")
    reload(scenario, parent("p"), a_queue("other"))
    assert queue(scenario, "root.p.d").state is QueueState.ACTIVE


def test_a_dynamic_queue_drains_and_reactivates_with_its_parent() -> None:
    scenario = Scenario(a_configuration(parent("p")), nodes=1)
    on_demand(scenario, "one", "root.p.e.d")
    reload(scenario)
    assert queue(scenario, "root.p.e.d").state is QueueState.DRAINING
    assert "draining" in submit(scenario, "two", "root.p.e.d")
    reload(scenario, parent("p"))
    assert queue(scenario, "root.p.e.d").state is QueueState.ACTIVE
    assert submit(scenario, "two", "root.p.e.d") == ""
    complete_application(scenario, "one")
    assert paths(scenario) == {"root.p", "root.p.e", "root.p.e.d"}


def test_an_empty_dynamic_queue_is_deleted_with_its_removed_parent() -> None:
    scenario = Scenario(a_configuration(parent("p")), nodes=1)
    on_demand(scenario, "one", "root.p.d")
    reload(scenario)
    complete_application(scenario, "one")
    assert paths(scenario) == set()


def test_a_configured_dynamic_queue_becomes_managed_and_stays_when_empty() -> None:
    scenario = Scenario(a_configuration(parent("p")), nodes=1)
    on_demand(scenario, "one", "root.p.d")
    reload(scenario, parent("p", a_queue("d", vcore=3000)))
    assert queue(scenario, "root.p.d").managed
    assert queue(scenario, "root.p.d").max == Limit({"vcore": 3000})
    complete_application(scenario, "one")
    assert paths(scenario) == {"root.p", "root.p.d"}


def test_a_dynamic_queue_drains_when_its_parent_becomes_a_leaf() -> None:
    scenario = Scenario(a_configuration(parent("p")), nodes=1)
    on_demand(scenario, "one", "root.p.d")
    reload(scenario, a_queue("p"))
    assert "becomes a leaf when it is empty" in submit_tag(scenario, "two", "root.p.x")
    complete_application(scenario, "one")
    assert queue(scenario, "root.p").is_leaf


def submit_tag(scenario: Scenario, name: str, path: str) -> str:
    spec = replace(an_application(name, queue=""), tags={"namespace": path})
    return rejection(scenario.submit(spec))
