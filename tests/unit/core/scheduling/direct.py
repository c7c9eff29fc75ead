"""Builders for scenarios of Direct gangs: their members and virtual placeholders."""

from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, Event
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec, GangPlacement, GangStyle
from tests.unit.builders import an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario

#: Key of the core's own ask for the task group of `app`.
KEY = "app/workers"


def a_gang(  # long: each has a default
    members: int,
    name: str = "app",
    *,
    queue: str = "root.a",
    user: str = "kim",
    each: Resources | None = None,
    style: GangStyle = GangStyle.SOFT,
    timeout_s: int = 0,
    wait_s: int = 0,
    forced: bool = False,
) -> ApplicationAdded:
    spec = an_application(
        name,
        queue=queue,
        user=user,
        gang=members,
        each=each,
        style=style,
        timeout_s=timeout_s,
        wait_s=wait_s,
        forced=forced,
        placement=GangPlacement.DIRECT,
    )
    return ApplicationAdded(spec)


def with_members(gang: ApplicationAdded, present: int = 1) -> list[Event]:
    """Return the gang and the requests of its first members. A gang without any member is not planned."""
    return [gang, *(AskAdded(one) for one in members(present, gang.spec.id))]


def member(key: str, app: str = "app", vcore: int = 1000) -> AskSpec:
    return an_ask(key, app=app, vcore=vcore, group="workers")


def members(count: int, app: str = "app") -> list[AskSpec]:
    return [member(f"{app}-r{index}", app) for index in range(count)]


def bound(key: str, node: str, *, app: str = "app", group: str = "workers", allocated_s: int = 0) -> AllocationReported:
    """Return the report of a bound member."""
    return AllocationReported(an_allocation(key, node, app=app, group=group, allocated_s=allocated_s))


def held(scenario: Scenario, app: str = "app") -> int:
    """Return the number of virtual placeholders that no member has taken."""
    return sum(one.spec.is_virtual for one in scenario.app(app).allocations.values())


def answers(effects: list[Effect]) -> list[AllocationResponse]:
    """Return the allocation responses to the resource manager."""
    return [effect for effect in effects if isinstance(effect, AllocationResponse)]
