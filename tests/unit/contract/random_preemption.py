"""Random events with preemption, queue changes, lost nodes, other binders and slow kubelets."""

from collections.abc import Callable
from dataclasses import replace

from muster_core.model.config import (
    ALLOW_ALL,
    Configuration,
    PartitionConfig,
    PlacementRule,
    PreemptionPolicy,
    QueueConfig,
    QueuePolicies,
    Timing,
)
from muster_operator.model.commands import Command, CommandSucceeded, DeletePod, Result
from tests.unit.builders import SECOND, a_queue
from tests.unit.contract.agent_and_core import COMPLETING_S, Both
from tests.unit.contract.random_events import RandomActions
from tests.unit.operator.controller.kubernetes import Kubernetes
from tests.unit.operator.controller.objects import QUEUE, Raw, a_container, a_node, a_pod
from tests.unit.operator.controller.simulation import Choose

QUEUES = ("root.a", "root.b", "root.c")
PRIORITIES = (0, 0, 10, -5)
_SOON = QueuePolicies(preemption_delay_ns=SECOND)
_POLICIES = (
    _SOON,
    _SOON,
    replace(_SOON, quota_preemption_delay_ns=SECOND),
    replace(_SOON, preemption=PreemptionPolicy.FENCE),
    replace(_SOON, priority_offset=2),
)
_TIMING = Timing(completing_timeout_ns=COMPLETING_S * SECOND, release_timeout_ns=40 * SECOND)


def a_tree(pick: Choose) -> Configuration:
    """Return three queues with maximums and guarantees, with preemption after a maximum was lowered."""
    queues = [
        a_queue(
            path.removeprefix("root."),
            vcore=(None, None, 12_000, 6_000)[pick(4)],
            guaranteed=(0, 4_000, 6_000)[pick(3)],
            policies=_POLICIES[pick(len(_POLICIES))],
        )
        for path in QUEUES
    ]
    return _of(*queues)


def a_roomy_tree() -> Configuration:
    """Return the same queues with enough quota."""
    return _of(*(a_queue(path.removeprefix("root.")) for path in QUEUES))


def _of(*queues: QueueConfig) -> Configuration:
    rules = (PlacementRule("provided"), PlacementRule("tag", create=True, value="namespace"))
    root = QueueConfig("root", parent=True, children=queues, submit_acl=ALLOW_ALL)
    return Configuration((PartitionConfig("default", root, rules, quota_preemption=True),), _TIMING)


class SlowKubernetes(Kubernetes):
    """Removes a deleted pod of a node only when its kubelet has ended it."""

    def apply(self, command: Command) -> Result:
        """Apply a command. A delete only marks a pod that has a kubelet."""
        if isinstance(command, DeletePod) and self.is_on_a_node(command.pod.uid):
            self.mark(command.pod.uid)
            return CommandSucceeded(command)
        return super().apply(command)

    def is_on_a_node(self, uid: str) -> bool:
        """Whether a kubelet must terminate the pod first."""
        raw = self.pods.get(uid)
        return raw is not None and raw["spec"].get("nodeName") in self.nodes and raw["status"]["phase"] == "Pending"

    def mark(self, uid: str) -> None:
        """Set the deletion timestamp of a pod."""
        self.pods[uid]["metadata"]["deletionTimestamp"] = self.now
        self.add(self.pods[uid])

    def terminating(self) -> list[str]:
        """Return the terminating pods."""
        return [uid for uid, raw in self.pods.items() if "deletionTimestamp" in raw["metadata"]]


class RandomPreemption(RandomActions):
    """Random actions in which each action uses one queue and one priority."""

    def __init__(self, pick: Choose) -> None:
        self.pick = pick
        self.serial = 0
        self.kubernetes = SlowKubernetes()
        self.both = Both(kubernetes=self.kubernetes)
        self.both.real.configuration = a_tree(pick)
        self.kubernetes.add_nodes(2)
        self.both.start()

    def things(self) -> list[Callable[[], None]]:
        """Add actions that make queues compete."""
        own = [*[self.fill] * 4, *[self.kubelets] * 4, self.bind, self.bind, self.reload, self.lose, self.mark]
        return [*super().things(), *own, lambda: self.both.wait(10)]

    def happen(self) -> None:
        """Run an action in a random queue."""
        self.queue, self.priority = QUEUES[self.pick(3)], PRIORITIES[self.pick(4)]
        super().happen()

    def _add(self, pod: Raw) -> None:
        pod["metadata"]["annotations"][QUEUE] = self.queue
        pod["spec"]["priority"] = self.priority
        if not self.pick(6):
            pod["spec"]["containers"] = [a_container(cpu=str(1 + self.pick(4)), memory="1Gi")]
        super()._add(pod)

    def fill(self) -> None:
        """Create jobs of one pod each."""
        for _ in range(1 + self.pick(6)):
            name = self._name("job")
            pod = a_pod(name, app=f"{name}-of-{self.queue}")
            pod["spec"]["containers"] = [a_container(cpu=str(1 + self.pick(4)), memory="1Gi")]
            self._add(pod)

    def mark(self) -> None:
        """Delete a running pod."""
        there = [uid for uid in sorted(self.kubernetes.pods) if self.kubernetes.is_on_a_node(uid)]
        if there:
            self.kubernetes.mark(there[self.pick(len(there))])

    def kubelets(self) -> None:
        """Let kubelets end some terminating pods."""
        for uid in self.kubernetes.terminating():
            if uid in self.kubernetes.pods and self.pick(2):
                self.kubernetes.delete(uid)

    def bind(self) -> None:
        """Bind a pod of Muster, or a placeholder, by another scheduler."""
        waiting = [raw for raw in self.kubernetes.pods.values() if not raw["spec"].get("nodeName")]
        waiting = [raw for raw in waiting if raw["status"]["phase"] == "Pending"]
        if waiting:
            raw = waiting[self.pick(len(waiting))]
            raw["spec"]["nodeName"] = sorted(self.kubernetes.nodes)[self.pick(len(self.kubernetes.nodes))]
            self.kubernetes.add(raw)

    def reload(self) -> None:
        """Load other maximums, guarantees and policies."""
        self.both.real.reload(a_tree(self.pick))

    def lose(self) -> None:
        """Remove the second node but not its pods, and add it again immediately or later."""
        if "n1" in self.kubernetes.nodes:
            self.kubernetes.lose_node("n1")
        if self.pick(2):
            self.kubernetes.add_node(a_node("n1"))

    def run_until_idle(self) -> None:
        """Also provide enough quota, and let kubelets end all terminating pods."""
        if "n1" not in self.kubernetes.nodes:
            self.kubernetes.add_node(a_node("n1"))
        self.both.real.reload(a_roomy_tree())
        super().run_until_idle()
        for _ in range(4):
            for uid in self.kubernetes.terminating():
                if uid in self.kubernetes.pods:
                    self.kubernetes.delete(uid)
            self.both.run(self.pick)
            self.both.wait(300)
        self.both.compare()
