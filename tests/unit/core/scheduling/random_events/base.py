"""The base of the machine: sites that receive events, one at a time, and the state of their resource managers.

A site is one partition of one resource manager. Applications, asks and nodes of different resource managers have equal
names, which must not matter. So do the first nodes and some asks of the partitions of one resource manager.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from muster_core.model.config import Configuration
from muster_core.model.effects import Effect
from muster_core.model.events import Event, ManagerRegistered, NodeAdded
from muster_core.model.ids import PartitionId, RmId, partition_id
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition
from tests.unit.builders import RM, a_node
from tests.unit.core.scheduling.random_events.budgets import Budget, Real
from tests.unit.core.scheduling.random_events.configurations import configurations, with_many_queues
from tests.unit.core.scheduling.random_events.manager_state import ManagerState
from tests.unit.core.scheduling.random_events.simulated_core import Stage, Tally

_OTHER = RmId("other")
_PLACES = ((RM, "default"), (_OTHER, "default"), (RM, "gpu"))


@dataclass(frozen=True, slots=True)
class Profile:
    """The parameters of a round. `queues`: leaf queues in addition to the drawn ones. `members`: gang sizes. `clock`:
    gives each cycle a budget in real time. Then a failing example cannot be shrunk. It is stored in the file `journal`,
    which core/muster_core/runtime/journal.py replays.
    """

    queues: int = 0
    members: tuple[int, ...] = (0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 5, 5, 8, 40)
    clock: Callable[[], float] | None = None
    journal: str = ""


@dataclass(slots=True, eq=False)
class Site:
    """One partition of one resource manager. `number` counts the generated names."""

    rm: RmId
    name: str
    manager_state: ManagerState = field(init=False)
    number: int = 0

    def __post_init__(self) -> None:
        self.manager_state = ManagerState(self.id)

    @property
    def prefix(self) -> str:
        """The prefix of application names."""
        return "" if self.name == "default" else f"{self.name}-"

    @property
    def id(self) -> PartitionId:
        """The partition's name in the core."""
        return partition_id(self.rm, self.name)


class Ground(RuleBasedStateMachine):
    """Rules send their events to the current site."""

    tally: ClassVar[Tally] = Tally()
    profile: ClassVar[Profile] = Profile()

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(self.tally)
        self.sites: list[Site] = [Site(*_PLACES[0])]
        self.site = self.sites[0]
        self.is_written = False
        self.configurations: dict[RmId, Configuration] = {}
        if self.profile.clock is not None:
            self.stage.budget = Real(self.profile.clock)

    @initialize(data=st.data(), sites=st.sampled_from([1, 1, 2, 3]), is_written=st.sampled_from([False] * 7 + [True]))
    def begin(self, data: st.DataObject, sites: int, *, is_written: bool) -> None:
        """Register the resource managers and create two nodes per partition."""
        self.is_written = is_written
        self.sites = [Site(*place) for place in _PLACES[:sites]]
        for rm in dict.fromkeys(site.rm for site in self.sites):
            self.configurations[rm] = self.configuration_of(data, self.names_of(rm))
            self.stage.send(ManagerRegistered(rm, self.configurations[rm]))
        for site in self.sites:
            self.site = site
            self.send(NodeAdded(a_node("first", 4000)), NodeAdded(a_node("second", 2000, labels={"disk": "ssd"})))

    def teardown(self) -> None:
        """Replay all events."""
        if self.profile.journal and isinstance(sys.exc_info()[1], AssertionError):
            Path(self.profile.journal).write_bytes(self.stage.journal())
        if self.stage.is_crashed:
            return  # a rule has failed
        self.stage.check()
        self.stage.do_over()
        if self.is_written:
            self.stage.do_over_from_file()

    # -- helpers of rules -------------------------------------------------------

    @property
    def partition(self) -> Partition:
        """The partition of the current site. `partitions()` shows whether it exists."""
        return self.stage.scheduler_state.partitions[self.site.id]

    @property
    def manager_state(self) -> ManagerState:
        return self.site.manager_state

    def configuration_of(self, data: st.DataObject, names: tuple[str, ...]) -> Configuration:
        """Draw a configuration with the number of queues of the profile."""
        drawn: Configuration = data.draw(configurations(names)).value
        return with_many_queues(drawn, self.profile.queues)

    def set_budget(self, budget: Budget) -> None:
        """Set the budget of all further cycles. A round in real time keeps its clock."""
        if self.profile.clock is None:
            self.stage.budget = budget

    def forget_closed(self) -> None:
        """Clear the resource managers' state of closed partitions."""
        for site in self.sites:
            if site.id not in self.stage.scheduler_state.partitions:
                site.manager_state.held.clear()
                site.manager_state.unconfirmed.clear()

    def names_of(self, rm: RmId) -> tuple[str, ...]:
        return tuple(site.name for site in self.sites if site.rm == rm)

    def apps(self) -> list[Application]:
        """The applications that the resource manager of the site knows; none if its partition was closed."""
        partition = self.stage.scheduler_state.partitions.get(self.site.id)
        return [app for app in partition.applications.values() if not app.removed] if partition is not None else []

    def unresolved(self) -> list[str]:
        """The users of the site with unknown groups."""
        partition = self.stage.scheduler_state.partitions.get(self.site.id)
        return sorted(partition.unresolved) if partition is not None else []

    def one_of(self, data: st.DataObject, apps: list[Application]) -> Application:
        """Draw an application by its name, so that a failing example shows only the name."""
        name = data.draw(st.sampled_from([app.id for app in apps]))
        return self.partition.applications[name]

    def nodes(self) -> list[str]:
        partition = self.stage.scheduler_state.partitions.get(self.site.id)
        return list(partition.nodes) if partition is not None else []

    def new_name(self, prefix: str) -> str:
        """Return a name that is new in all partitions of the resource manager, because messages name no partition."""
        self.site.number += 1
        return f"{self.site.prefix}{prefix}{self.site.number}"

    def send(self, *events: Event) -> list[Effect]:
        """Send events of the builders for this site."""
        return self.receive(self.stage.send(*(_of_site(event, self.site) for event in events)))

    def wait(self, seconds: float) -> None:
        self.receive(self.stage.wait(seconds))

    def receive(self, effects: list[Effect]) -> list[Effect]:
        """Pass the effects to every site. A site ignores those of other partitions."""
        for site in self.sites:
            site.manager_state.receive(effects)
        return effects


def _of_site(event: Event, site: Site) -> Event:
    moved: dict[str, object] = {}
    if hasattr(event, "spec"):
        moved["spec"] = replace(event.spec, partition=site.id)
    if hasattr(event, "existing"):
        moved["existing"] = _all_of_site(event.existing, site)
    if hasattr(event, "partition"):
        moved["partition"] = site.id
    if hasattr(event, "rm"):
        moved["rm"] = site.rm
    return replace(event, **moved)  # type: ignore[arg-type]  # fields by their names


def _all_of_site(specs: Iterable[object], site: Site) -> tuple[object, ...]:
    return tuple(replace(spec, partition=site.id) for spec in specs)  # type: ignore[type-var]  # specs are dataclasses
