"""Whatever users, nodes, kubelets, clocks and kills do to agent and engine together; gangs are of every placement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster_operator.model.pods import Pod
from muster_operator.translate.pods import read_pod
from tests.unit.contract.agent_and_core import Both
from tests.unit.operator.controller.kubernetes import SETTINGS
from tests.unit.operator.controller.objects import Raw, a_container, a_group, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Choose

PLACEMENTS = ("Reserve", "Atomic", "Direct")
#: Few, so that they are used again, also by gangs of another placement.
IDS = ("red", "green", "blue")
TIMES_S = (1, 10, 40, 400)


class Turmoil:  # long: each thing that happens is a method
    """``pick`` chooses one of so many."""

    def __init__(self, pick: Choose) -> None:
        self.pick = pick
        self.serial = 0
        self.both = Both()
        self.both.kubernetes.add_nodes(2)
        self.both.start()

    def happen(self) -> None:
        """One thing, then some steps."""
        things = self.things()
        things[self.pick(len(things))]()
        for _ in range(self.pick(60)):
            self.both.step(self.pick)

    def things(self) -> list[Callable[[], None]]:
        """What may happen, the frequent more than once."""
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
        """All of its pods, or only some; larger than the cluster now and then."""
        words = [f"gangPlacement={PLACEMENTS[self.pick(3)]}", f"gangSchedulingStyle={('Soft', 'Hard')[self.pick(2)]}"]
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
        """Perhaps of an application that is a gang."""
        app = (*IDS, "single")[self.pick(len(IDS) + 1)]
        self._add(a_pod(self._name(app), app=app))

    def _name(self, app: str) -> str:
        self.serial += 1
        return f"{app}-{self.serial}"

    def _add(self, pod: Raw) -> None:
        pod["metadata"]["creationTimestamp"] = self.both.created()
        self.both.kubernetes.add(pod)

    def end(self) -> None:
        """A pod that has its node ends well, or its kubelet does not start it."""
        there = [raw for raw in self.both.kubernetes.pods.values() if is_running(raw)]
        if there:
            status = {"phase": "Succeeded"} if self.pick(4) else {"phase": "Failed", "reason": "OutOfcpu"}
            self.both.kubernetes.change(there[self.pick(len(there))]["metadata"]["name"], **status)

    def delete(self) -> None:
        """Any pod, also one that has ended, and a placeholder."""
        uids = sorted(self.both.kubernetes.pods)
        if uids:
            self.both.kubernetes.delete(uids[self.pick(len(uids))])

    def kill(self) -> None:
        """The core, or the operator with or without what it had ordered."""
        if self.pick(2):
            self.both.kill_core()
        else:
            self.both.kill_operator(lose_commands=bool(self.pick(2)))

    def change_nodes(self) -> None:
        """The second comes, goes, is closed."""
        kubernetes = self.both.kubernetes
        if "n1" not in kubernetes.nodes:
            kubernetes.add_node(a_node("n1"))
        elif self.pick(2):
            kubernetes.remove_node("n1")
        else:
            kubernetes.add_node(a_node("n1", unschedulable=True))

    def settle(self) -> None:
        """Room for everybody, and time for every clock."""
        for number in range(2, 60):
            self.both.kubernetes.add_node(a_node(f"n{number}"))
        self.both.run(self.pick)
        for _ in range(6):
            self.both.wait(300)

    def finish(self) -> None:
        """Every pod ends, then every application completes."""
        for raw in self.real():
            if raw["status"]["phase"] not in {"Succeeded", "Failed"}:
                self.both.kubernetes.change(raw["metadata"]["name"], phase="Succeeded")
        self.both.run(self.pick)
        self.both.wait(100)

    def real(self) -> list[Raw]:
        """Pods of users."""
        ours = {raw["metadata"]["uid"] for raw in self.both.kubernetes.placeholders()}
        return [raw for uid, raw in self.both.kubernetes.pods.items() if uid not in ours]


def is_running(raw: Raw) -> bool:
    return bool(raw["spec"].get("nodeName")) and raw["status"]["phase"] in {"Pending", "Running"}


def law_breaches(turmoil: Turmoil) -> Iterable[str]:
    """After ``settle``: what must not be."""
    both = turmoil.both
    for raw in turmoil.real():
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
