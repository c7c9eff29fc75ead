"""Random actions of users, nodes, kubelets, timers and kills against controller and engine, in all placement modes."""

from collections.abc import Callable, Iterable

from muster_operator.model.pods import Pod
from muster_operator.translate.pods import read_pod
from tests.unit.contract.agent_and_core import Both
from tests.unit.operator.controller.kubernetes import SETTINGS
from tests.unit.operator.controller.objects import Raw, a_container, a_group, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Choose

PLACEMENTS = ("Reserve", "Direct", "Auto")
#: Few IDs, so that they are reused, also by gangs with another placement mode.
IDS = ("red", "green", "blue")
TIMES_S = (1, 10, 40, 400)


class RandomActions:  # long: one method per action
    """Random actions. ``pick(n)`` chooses a number below n."""

    def __init__(self, pick: Choose) -> None:
        self.pick = pick
        self.serial = 0
        self.both = Both()
        self.both.kubernetes.add_nodes(2)
        self.both.start()

    def happen(self) -> None:
        """Run one action, then some steps."""
        things = self.things()
        things[self.pick(len(things))]()
        for _ in range(self.pick(60)):
            self.both.step(self.pick)

    def things(self) -> list[Callable[[], None]]:
        """Return the possible actions; frequent ones repeat."""
        return [
            *[self.a_gang] * 3,
            self.a_single,
            *[self.end] * 3,
            self.delete,
            self.kill,
            self.change_nodes,
            lambda: self.both.wait(TIMES_S[self.pick(len(TIMES_S))]),
        ]

    def a_gang(self) -> None:
        """Create all or some pods of a gang, which is sometimes larger than the cluster."""
        words = [
            f"gangPlacement={PLACEMENTS[self.pick(len(PLACEMENTS))]}",
            f"gangSchedulingStyle={('Soft', 'Hard')[self.pick(2)]}",
        ]
        words += [f"placeholderTimeoutInSeconds={(5, 60)[self.pick(2)]}"]
        words += [f"gangWaitTimeoutInSeconds={(5, 60)[self.pick(2)]}"] if self.pick(2) else []
        cpu = ("1", "3")[self.pick(2)]
        size = {"cpu": cpu, "memory": "1Gi"}
        groups = [a_group(name, 1 + self.pick(5), minResource=size) for name in ("g", "h")[: 1 + self.pick(2)]]
        app = IDS[self.pick(len(IDS))]
        for group in groups:
            annotations = gang_annotations(*groups, parameters=" ".join(words), member_of=group["name"])
            for _ in range(self.pick(group["minMember"] + 2)):
                pod = a_pod(self._name(app), app=app, annotations=dict(annotations))
                pod["spec"]["containers"] = [a_container(cpu=cpu, memory="1Gi")]
                self._add(pod)

    def a_single(self) -> None:
        """Create a single pod, possibly of an application with a gang."""
        app = (*IDS, "single")[self.pick(len(IDS) + 1)]
        self._add(a_pod(self._name(app), app=app))

    def _name(self, app: str) -> str:
        self.serial += 1
        return f"{app}-{self.serial}"

    def _add(self, pod: Raw) -> None:
        pod["metadata"]["creationTimestamp"] = self.both.created()
        self.both.kubernetes.add(pod)

    def end(self) -> None:
        """Let a bound pod succeed, or its kubelet reject it."""
        there = [raw for raw in self.both.kubernetes.pods.values() if is_running(raw)]
        if there:
            status = {"phase": "Succeeded"} if self.pick(4) else {"phase": "Failed", "reason": "OutOfcpu"}
            self.both.kubernetes.change(there[self.pick(len(there))]["metadata"]["name"], **status)

    def delete(self) -> None:
        """Delete any pod, also an ended one or a placeholder."""
        uids = sorted(self.both.kubernetes.pods)
        if uids:
            self.both.kubernetes.delete(uids[self.pick(len(uids))])

    def kill(self) -> None:
        """Kill the core, or the operator with or without its writes in flight."""
        if self.pick(2):
            self.both.kill_core()
        else:
            self.both.kill_operator(lose_commands=bool(self.pick(2)))

    def change_nodes(self) -> None:
        """Add, remove or cordon the second node."""
        kubernetes = self.both.kubernetes
        if "n1" not in kubernetes.nodes:
            kubernetes.add_node(a_node("n1"))
        elif self.pick(2):
            kubernetes.remove_node("n1")
        else:
            kubernetes.add_node(a_node("n1", unschedulable=True))

    def run_until_idle(self) -> None:
        """Provide enough resources and let all timers expire."""
        for number in range(2, 60):
            self.both.kubernetes.add_node(a_node(f"n{number}"))
        self.both.run(self.pick)
        for _ in range(6):
            self.both.wait(300)

    def finish(self) -> None:
        """End every pod, so that every application completes."""
        for raw in self.real():
            if raw["status"]["phase"] not in {"Succeeded", "Failed"}:
                self.both.kubernetes.change(raw["metadata"]["name"], phase="Succeeded")
        self.both.run(self.pick)
        self.both.wait(100)

    def real(self) -> list[Raw]:
        """Return the pods of users."""
        ours = {raw["metadata"]["uid"] for raw in self.both.kubernetes.placeholders()}
        return [raw for uid, raw in self.both.kubernetes.pods.items() if uid not in ours]


def is_running(raw: Raw) -> bool:
    return bool(raw["spec"].get("nodeName")) and raw["status"]["phase"] in {"Pending", "Running"}


def law_breaches(random_actions: RandomActions) -> Iterable[str]:
    """Yield violations of the invariants after ``run_until_idle``."""
    both = random_actions.both
    for raw in random_actions.real():
        status, name = raw["status"], raw["metadata"]["name"]
        if status["phase"] == "Pending" and not raw["spec"].get("nodeName"):
            yield f"{name} waits though there is room: {status}"
        if status["phase"] == "Failed" and not raw["spec"].get("nodeName") and not status.get("reason"):
            yield f"{name} failed without a reason"
    yield from (f"bound {count} times: {uid}" for uid, count in both.kubernetes.binds.items() if count > 1)
    yield from (f"placeholder left: {raw['metadata']['name']}" for raw in both.kubernetes.placeholders())
    in_core = {
        str(key): str(app.allocations[identity].node)
        for app in both.real.applications_there.values()
        for key, identities in app.ids.items()
        for identity in identities
    }
    pods = [read_pod(raw, SETTINGS) for raw in both.kubernetes.pods.values()]
    bound = {str(pod.ref.uid): str(pod.node) for pod in pods if isinstance(pod, Pod) and pod.node and not pod.has_ended}
    untracked_pods = {str(spec.key): str(spec.node) for spec in both.real.partition.foreign.values()}
    yield from (f"counted twice: {key}" for key in in_core.keys() & untracked_pods.keys())
    if in_core | untracked_pods != bound:
        yield f"the core has {in_core} and {untracked_pods}, Kubernetes {bound}"
