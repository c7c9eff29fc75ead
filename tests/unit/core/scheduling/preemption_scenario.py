"""Helpers for tests of preemption between queues."""

from collections import Counter
from dataclasses import replace

from muster_core.model.config import Configuration, PreemptionPolicy, PriorityPolicy, QueueConfig, QueuePolicies, Timing
from muster_core.model.effects import Effect
from muster_core.model.ids import ApplicationId, NodeId, Termination
from muster_core.model.specs import AskSpec
from tests.unit.builders import a_configuration, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, releases

PREEMPTED = Termination.PREEMPTED_BY_SCHEDULER
FENCE = QueuePolicies(preemption=PreemptionPolicy.FENCE)
DISABLED = QueuePolicies(preemption=PreemptionPolicy.DISABLED)


def offset(amount: int, *, fence: bool = False) -> QueuePolicies:
    return QueuePolicies(priority_offset=amount, priority=PriorityPolicy.FENCE if fence else PriorityPolicy.DEFAULT)


def submit(scenario: Scenario, app: str, queue: str) -> None:
    scenario.submit(an_application(app, queue=queue))


def run(scenario: Scenario, queue: str, *pods: AskSpec) -> list[Effect]:
    """Send asks of an application named like its leaf queue, and submit the application if it does not exist."""
    name = queue.rpartition(".")[2]
    if ApplicationId(name) not in scenario.partition.applications:
        submit(scenario, name, queue)
    return scenario.ask(*(replace(pod, application=ApplicationId(name)) for pod in pods))


def pods(prefix: str, count: int, **more: int) -> list[AskSpec]:
    """Return asks of `count` pods with 1 core each."""
    return [an_ask(f"{prefix}{index}", **more) for index in range(count)]  # type: ignore[arg-type]  # numbers only


def a_daemon(key: str, node: str, vcore: int = 1000, priority: int = 0) -> AskSpec:
    return replace(an_ask(key, vcore=vcore, priority=priority), required_node=NodeId(node))


def opted_out(ask: AskSpec) -> AskSpec:
    return replace(ask, allow_preempt_self=False)


def first_pod(ask: AskSpec) -> AskSpec:
    return replace(ask, originator=True)


def never(ask: AskSpec) -> AskSpec:
    """Return the ask with preemptionPolicy Never."""
    return replace(ask, allow_preempt_other=False)


def victims(effects: list[Effect]) -> set[str]:
    return {key for key, why in releases(effects).items() if why is PREEMPTED}


def confirm(scenario: Scenario, effects: list[Effect]) -> list[Effect]:
    """Confirm the release of every victim."""
    owners: dict[str, str] = {
        allocation.spec.key: app.id
        for app in scenario.partition.applications.values()
        for allocation in app.allocations.values()
    }
    answer: list[Effect] = []
    for key in sorted(victims(effects)):
        answer += scenario.release(key, app=owners[key], why=PREEMPTED)
    return answer


def run_until_idle(scenario: Scenario, seconds: int = 120) -> list[str]:
    """Let time pass and confirm each victim immediately. Returns the victims' keys."""
    gone: list[str] = []
    for _ in range(seconds):
        effects = scenario.wait(1)
        gone += sorted(victims(effects))
        confirm(scenario, effects)
    return gone


def cores(scenario: Scenario, *leaves: str) -> list[int]:
    """Return the allocated cores of each leaf without allocations being released."""
    used: Counter[str] = Counter()
    for app in scenario.partition.applications.values():
        for allocation in app.allocations.values():
            if allocation.releasing is None:
                used[app.queue.path] += allocation.spec.resources["vcore"] // 1000
    return [used[leaf] for leaf in leaves]


def with_preemption(*queues: QueueConfig, by_quota: bool = False, by_guarantee: bool = True) -> Configuration:
    configuration = a_configuration(*queues, timing=Timing())
    partition = replace(configuration.partitions[0], preemption=by_guarantee, quota_preemption=by_quota)
    return replace(configuration, partitions=(partition,))
