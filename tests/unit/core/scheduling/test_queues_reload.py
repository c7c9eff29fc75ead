"""A new configuration changes the queues of a running world; nothing that runs is lost."""

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
from muster_core.model.events import ApplicationAdded, ConfigurationReplaced
from muster_core.model.ids import QueuePath
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import GangStyle
from muster_core.model.states import QueueState
from muster_core.state.queues import Queue
from tests.unit.builders import RM, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scene import Scene, notices, placed, rejection, releases, states


def reload(scene: Scene, *queues: QueueConfig) -> list[Effect]:
    return scene.tell(ConfigurationReplaced(RM, a_configuration(*queues)))


def running(scene: Scene, name: str, queue: str) -> None:
    """An application with one allocation, `<name>-r`."""
    assert rejection(scene.tell(ApplicationAdded(an_application(name, queue=queue)))) == ""
    assert placed(scene.ask(an_ask(f"{name}-r", app=name, vcore=1000))) != {}


def end(scene: Scene, name: str) -> None:
    """The application's last allocation goes, and its completing time passes."""
    scene.release(f"{name}-r", name)
    assert states(scene.wait(60), name) == ["Completed"]


def queue(scene: Scene, path: str) -> Queue:
    return scene.partition.queues.by_path[QueuePath(path)]


def paths(scene: Scene) -> set[str]:
    return {str(path) for path in scene.partition.queues.by_path} - {"root"}


def submit(scene: Scene, name: str, to: str) -> str:
    """The reason why an application without a namespace is refused; empty = it is not."""
    return rejection(scene.tell(ApplicationAdded(replace(an_application(name, queue=to), tags={}))))


# -- settings --------------------------------------------------------------------


def test_every_setting_of_a_queue_that_stays_is_replaced() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=1000)))
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
    reload(scene, new)
    found = queue(scene, "root.a")
    assert (found.max, found.guaranteed, found.max_applications) == (new.max, new.guaranteed, 7)
    assert (found.properties, found.policies, found.limits) == (new.properties, new.policies, new.limits)
    assert (found.submit_acl, found.admin_acl) == (new.submit_acl, new.admin_acl)


def test_changed_amounts_are_noted_and_equal_ones_are_not() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=1000), a_queue("b", vcore=1000)))
    scene.noted.clear()
    reload(scene, a_queue("a", vcore=2000, guaranteed=500), a_queue("b", vcore=1000))
    noted = [(note.subject, note.detail, note.resource) for note in scene.noted if note.about is Notice.QUEUE]
    assert noted == [
        ("root.a", Detail.QUEUE_MAX, Resources({"vcore": 2000})),
        ("root.a", Detail.QUEUE_GUARANTEED, Resources({"vcore": 500})),
    ]


def test_access_that_was_taken_away_counts_for_the_next_application_only() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    running(scene, "one", "root.a")
    closed = a_configuration(a_queue("a"))
    [partition] = closed.partitions
    root = replace(partition.root, submit_acl=DENY_ALL)
    scene.tell(ConfigurationReplaced(RM, Configuration((replace(partition, root=root),))))
    assert "may not submit" in submit(scene, "two", "root.a")
    assert placed(scene.ask(an_ask("one-s", app="one"))) == {"one-s": "n0"}


def test_a_lower_maximum_stops_what_is_new_and_leaves_what_runs() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=3000)), nodes=1)
    running(scene, "one", "root.a")
    scene.ask(an_ask("one-s", app="one"))
    assert releases(reload(scene, a_queue("a", vcore=1000))) == {}
    assert placed(scene.ask(an_ask("one-t", app="one"))) == {}
    assert placed(reload(scene, a_queue("a", vcore=3000))) == {"one-t": "n0"}


@pytest.mark.parametrize("style", list(GangStyle))
def test_a_reload_that_is_taken_back_in_time_does_no_harm_to_a_waiting_gang(style: GangStyle) -> None:
    scene = Scene(a_configuration(a_queue("p", a_queue("a"), vcore=4000)))
    scene.gang(ApplicationAdded(an_application("g", queue="root.p.a", gang=3, style=style, timeout_s=60)), 3)
    assert states(reload(scene, a_queue("p", a_queue("a"), vcore=2000)), "g") == []
    scene.wait(59)
    assert states(reload(scene, a_queue("p", a_queue("a"), vcore=4000)), "g") == []
    assert states(scene.wait(3600), "g") == []
    assert states(scene.add_node("n0"), "g") == ["Running"]


def test_a_gang_that_stays_impossible_ends_with_its_timer_as_its_style_says() -> None:
    scene = Scene(a_configuration(a_queue("p", a_queue("a"), vcore=4000)), nodes=1)
    scene.add_full_node()
    scene.gang(ApplicationAdded(an_application("g", queue="root.p.a", gang=3, timeout_s=60)), 3)
    assert scene.app("g").state == "Running"
    waiting = an_application("h", queue="root.p.a", gang=3, timeout_s=60, style=GangStyle.HARD)
    scene.gang(ApplicationAdded(waiting), 3)
    reload(scene, a_queue("p", a_queue("a"), vcore=2000))
    assert states(scene.wait(59), "h") == []
    assert states(scene.wait(2), "h") == ["Failing"]


def test_the_same_configuration_again_changes_nothing() -> None:
    queues = (a_queue("p", a_queue("a", vcore=1000)), a_queue("b", guaranteed=10))
    scene = Scene(a_configuration(*queues), nodes=1)
    running(scene, "one", "root.p.a")
    running(scene, "two", "root.ns")
    before = {path: (item.state, item.is_leaf, item.managed) for path, item in scene.partition.queues.by_path.items()}
    scene.noted.clear()
    assert reload(scene, *queues) == []
    after = {path: (item.state, item.is_leaf, item.managed) for path, item in scene.partition.queues.by_path.items()}
    assert after == before
    assert scene.noted == []


# -- queues that come and go -----------------------------------------------------


def test_a_new_queue_takes_applications_at_once() -> None:
    scene = Scene(a_configuration(a_queue("p", a_queue("a"))))
    reload(scene, a_queue("p", a_queue("a"), a_queue("b", a_queue("c"))))
    assert submit(scene, "one", "root.p.b.c") == ""
    made = [note.subject for note in scene.noted if note.change is Change.ADD and note.detail is Detail.NONE]
    assert made[-2:] == ["root.p.b", "root.p.b.c"]


def test_an_empty_queue_that_is_gone_from_the_configuration_is_gone_at_once() -> None:
    scene = Scene(a_configuration(a_queue("p", a_queue("a"), a_queue("b")), a_queue("c")))
    reload(scene, a_queue("c"))
    assert paths(scene) == {"root.c"}


def test_a_removed_queue_drains_and_goes_with_its_last_application() -> None:
    scene = Scene(a_configuration(a_queue("p", a_queue("a"), a_queue("b"))), nodes=1)
    running(scene, "one", "root.p.a")
    reload(scene, a_queue("c"))
    assert paths(scene) == {"root.c", "root.p", "root.p.a"}
    assert queue(scene, "root.p").state is queue(scene, "root.p.a").state is QueueState.DRAINING
    assert placed(scene.ask(an_ask("one-s", app="one"))) == {"one-s": "n0"}
    assert "queue root.p.a is draining" in submit(scene, "two", "root.p.a")
    scene.release("one-s", "one")
    end(scene, "one")
    assert paths(scene) == {"root.c"}


def test_a_draining_queue_that_is_configured_again_is_active() -> None:
    scene = Scene(a_configuration(a_queue("p", a_queue("a"))), nodes=1)
    running(scene, "one", "root.p.a")
    reload(scene)
    reload(scene, a_queue("p", a_queue("a"), a_queue("b")))
    assert paths(scene) == {"root.p", "root.p.a", "root.p.b"}
    assert submit(scene, "two", "root.p.a") == ""
    end(scene, "one")
    assert queue(scene, "root.p.a").state is QueueState.ACTIVE


# -- leaf and parent -------------------------------------------------------------


def test_an_empty_leaf_becomes_a_parent_and_back_at_once() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    reload(scene, a_queue("a", a_queue("b")))
    assert submit(scene, "one", "root.a.b") == ""
    scene = Scene(a_configuration(a_queue("a", a_queue("b"))))
    reload(scene, a_queue("a"))
    assert paths(scene) == {"root.a"}
    assert submit(scene, "one", "root.a") == ""


def test_a_leaf_with_applications_becomes_a_parent_when_they_are_gone() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=3000)), nodes=1)
    running(scene, "one", "root.a")
    said = reload(scene, a_queue("a", a_queue("b", a_queue("c")), vcore=2000))
    assert "becomes a parent queue when its applications (1 now) have ended" in notices(said)[0]
    assert queue(scene, "root.a").state is QueueState.STOPPED
    assert queue(scene, "root.a").max == Limit({"vcore": 2000})
    assert "is stopped" in submit(scene, "two", "root.a")
    assert submit(scene, "two", "root.a.b.c") != ""
    assert placed(scene.ask(an_ask("one-s", app="one"))) == {"one-s": "n0"}
    scene.release("one-s", "one")
    end(scene, "one")
    assert paths(scene) == {"root.a", "root.a.b", "root.a.b.c"}
    assert queue(scene, "root.a").state is QueueState.ACTIVE
    assert submit(scene, "two", "root.a.b.c") == ""


@pytest.mark.parametrize("last", ["leaf", "gone"])
def test_a_stopped_leaf_follows_the_newest_configuration(last: str) -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    running(scene, "one", "root.a")
    reload(scene, a_queue("a", a_queue("b")))
    reload(scene, *([a_queue("a")] if last == "leaf" else []))
    if last == "leaf":
        assert submit(scene, "two", "root.a") == ""
    else:
        assert "draining" in submit(scene, "two", "root.a")
        end(scene, "one")
        assert paths(scene) == set()


def test_a_parent_becomes_a_leaf_when_what_is_below_it_is_gone() -> None:
    scene = Scene(a_configuration(a_queue("a", a_queue("b"), a_queue("c"))), nodes=1)
    running(scene, "one", "root.a.b")
    said = reload(scene, a_queue("a"))
    assert "becomes a leaf when the queues below it (1 now) are removed" in notices(said)[0]
    assert paths(scene) == {"root.a", "root.a.b"}
    assert "is a parent queue" in submit(scene, "two", "root.a")
    end(scene, "one")
    assert paths(scene) == {"root.a"}
    assert submit(scene, "two", "root.a") == ""


def test_a_change_of_kind_is_noted() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    reload(scene, a_queue("a", a_queue("b")))
    assert [note.subject for note in scene.noted if note.detail is Detail.QUEUE_TYPE] == ["root.a"]


# -- queues made on demand -------------------------------------------------------


def parent(name: str, *children: QueueConfig) -> QueueConfig:
    return replace(a_queue(name, *children), parent=True)


def on_demand(scene: Scene, name: str, path: str) -> None:
    """A running application in a queue that a rule made for its namespace tag."""
    spec = replace(an_application(name, queue=""), tags={"namespace": path})
    scene.tell(ApplicationAdded(spec))
    assert placed(scene.ask(an_ask(f"{name}-r", app=name))) != {}
    assert not queue(scene, path).managed


def test_a_queue_on_demand_stays_as_it_is_beside_a_reload() -> None:
    scene = Scene(a_configuration(parent("p")), nodes=1)
    on_demand(scene, "one", "root.p.d")
    reload(scene, parent("p"), a_queue("other"))
    assert queue(scene, "root.p.d").state is QueueState.ACTIVE


def test_a_queue_on_demand_drains_with_its_parent_and_opens_again_with_it() -> None:
    scene = Scene(a_configuration(parent("p")), nodes=1)
    on_demand(scene, "one", "root.p.e.d")
    reload(scene)
    assert queue(scene, "root.p.e.d").state is QueueState.DRAINING
    assert "draining" in submit(scene, "two", "root.p.e.d")
    reload(scene, parent("p"))
    assert queue(scene, "root.p.e.d").state is QueueState.ACTIVE
    assert submit(scene, "two", "root.p.e.d") == ""
    end(scene, "one")
    assert paths(scene) == {"root.p", "root.p.e", "root.p.e.d"}


def test_a_queue_on_demand_under_a_removed_parent_goes_with_it_when_it_is_empty() -> None:
    scene = Scene(a_configuration(parent("p")), nodes=1)
    on_demand(scene, "one", "root.p.d")
    reload(scene)
    end(scene, "one")
    assert paths(scene) == set()


def test_a_queue_on_demand_that_is_configured_is_managed_and_stays_when_it_is_empty() -> None:
    scene = Scene(a_configuration(parent("p")), nodes=1)
    on_demand(scene, "one", "root.p.d")
    reload(scene, parent("p", a_queue("d", vcore=3000)))
    assert queue(scene, "root.p.d").managed
    assert queue(scene, "root.p.d").max == Limit({"vcore": 3000})
    end(scene, "one")
    assert paths(scene) == {"root.p", "root.p.d"}


def test_a_queue_on_demand_below_one_that_becomes_a_leaf_drains() -> None:
    scene = Scene(a_configuration(parent("p")), nodes=1)
    on_demand(scene, "one", "root.p.d")
    reload(scene, a_queue("p"))
    assert "becomes a leaf when it is empty" in submit_tag(scene, "two", "root.p.x")
    end(scene, "one")
    assert queue(scene, "root.p").is_leaf


def submit_tag(scene: Scene, name: str, path: str) -> str:
    spec = replace(an_application(name, queue=""), tags={"namespace": path})
    return rejection(scene.tell(ApplicationAdded(spec)))
