"""Builders for scenarios of Auto gangs. Members and bound pods are those of `direct`."""

from dataclasses import replace

from muster_core.model.events import ApplicationAdded, ManagerRegistered
from muster_core.model.ids import TaskGroup
from muster_core.model.specs import AskSpec, GangPlacement
from tests.unit.builders import RM, a_configuration, a_queue, an_ask
from tests.unit.core.scheduling import direct
from tests.unit.core.scheduling.scenario import Scenario

WORKERS = TaskGroup("workers")
CONFIGURATION = a_configuration(a_queue("a"), a_queue("b"))


def awaits_barrier() -> Scenario:
    """A resource manager registers again and has not reported anything yet."""
    scenario = Scenario(CONFIGURATION)
    scenario.send(ManagerRegistered(RM, CONFIGURATION, awaits_barrier=True))
    return scenario


def a_gang(count: int, name: str = "app", **options: object) -> ApplicationAdded:
    gang = direct.a_gang(count, name, **options)  # type: ignore[arg-type]  # the options of the other builder
    return ApplicationAdded(replace(gang.spec, gang_placement=GangPlacement.AUTO))


def pod(key: str, app: str = "app", vcore: int = 1000) -> AskSpec:
    """Return the request of a placeholder pod."""
    return an_ask(key, app=app, vcore=vcore, group="workers", placeholder=True)


def pods(count: int, app: str = "app") -> list[AskSpec]:
    return [pod(f"{app}-p{index}", app) for index in range(count)]


def slots(scenario: Scenario, app: str = "app") -> tuple[int, int, int]:
    """Return how many slots are requested, reserved without a pod, and reserved by pods."""
    found = scenario.app(app)
    asked = sum(ask.left for ask in found.asks.values() if ask.spec.placeholder)
    live = [found.allocations[name] for names in found.gang.live.values() for name in names]
    return asked, sum(one.spec.is_virtual for one in live), sum(not one.spec.is_virtual for one in live)
