"""After any changes of queues and applications, the tree without applications equals that of a fresh start."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import QueueConfig
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, ConfigurationReplaced
from muster_core.model.ids import ApplicationId
from muster_core.model.resources import Limit
from muster_core.model.states import QueueState
from muster_core.state.queues import QueueTree, new_tree
from tests.unit.builders import PARTITION, RM, a_configuration, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, rejection


def _leaf(name: str, vcore: int = 9000) -> QueueConfig:
    return QueueConfig(name, max=Limit({"vcore": vcore}))


def _parent(name: str, *children: QueueConfig) -> QueueConfig:
    return QueueConfig(name, parent=True, children=children)


#: Over few names, so that each change meets queues that are there.
FORESTS: tuple[tuple[QueueConfig, ...], ...] = (
    (),
    (_leaf("a"),),
    (_leaf("a", 1000), _parent("b")),
    (_parent("a"), _leaf("b")),
    (_parent("a", _leaf("a"), _leaf("b", 0)),),
    (_parent("a", _parent("a", _leaf("b")), _parent("b")),),
)
PATHS = ("root.a", "root.b", "root.a.a", "root.a.b", "root.a.a.b", "root.a.b.a")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reload"), st.integers(0, len(FORESTS) - 1)),
        st.tuples(st.just("submit"), st.integers(0, len(PATHS) - 1)),
        st.tuples(st.just("demand"), st.integers(0, len(PATHS) - 1)),
        st.tuples(st.just("end"), st.integers(0, 9)),
    ),
    min_size=4,
    max_size=16,
)


def shape(tree: QueueTree) -> dict[str, tuple[object, ...]]:
    return {
        path: (queue.is_leaf, queue.managed, queue.state, queue.wanted, queue.max)
        for path, queue in tree.by_path.items()
    }


def _submit(scenario: Scenario, name: str, path: str, *, demand: bool) -> bool:
    """Submit an application with a request, and return whether it got a queue."""
    tags = {"namespace": path} if demand else {}
    spec = replace(an_application(name, queue="" if demand else path), tags=tags)
    if rejection(scenario.send(ApplicationAdded(spec))):
        return False
    queue = scenario.app(name).queue
    assert queue.is_leaf
    assert queue.state is QueueState.ACTIVE
    got = placed(scenario.ask(an_ask(f"{name}-r", app=name)))
    assert bool(got) == all(above.max.allows(above.allocated + scenario.app(name).pending) for above in queue.path_up)
    return True


@given(first=st.sampled_from(FORESTS), steps=STEPS)
@settings(max_examples=50, deadline=None)
def test_the_queue_tree_equals_a_fresh_one_after_all_applications_are_removed(
    first: tuple[QueueConfig, ...], steps: list[tuple[str, int]]
) -> None:
    scenario = Scenario(a_configuration(*first), nodes=1, vcore=100_000)
    last = first
    alive: list[str] = []
    for number, (kind, value) in enumerate(steps):
        if kind == "reload":
            last = FORESTS[value]
            scenario.send(ConfigurationReplaced(RM, a_configuration(*last)))
        elif kind == "end" and alive:
            scenario.send(ApplicationRemoved(PARTITION, ApplicationId(alive.pop(value % len(alive)))))
        elif kind != "end" and _submit(scenario, f"app{number}", PATHS[value % len(PATHS)], demand=kind == "demand"):
            alive.append(f"app{number}")
        assert {app.id for app in scenario.partition.applications.values() if not app.removed} == set(alive)
    for name in alive:
        scenario.send(ApplicationRemoved(PARTITION, ApplicationId(name)))
    scenario.wait(31)
    [partition] = a_configuration(*last).partitions
    assert shape(scenario.partition.queues) == shape(new_tree(partition.root))
