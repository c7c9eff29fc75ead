"""Random users, nodes, timers and kills in any order: remaining pods are bound once, and placeholders are deleted."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.model.cluster_events import NamespaceGone
from muster_operator.model.ids import AppId, application_name
from muster_operator.model.pods import Pod
from muster_operator.translate.pods import read_pod
from tests.unit.operator.controller.kubernetes import SETTINGS, namespace_seen
from tests.unit.operator.controller.objects import APP_ID, Raw, a_group, a_namespace, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Choose, Simulation

APPS = [AppId("dev/soft"), AppId("dev/hard"), AppId("dev/direct"), AppId("dev/plain")]


def a_job_pod(app: str, number: int) -> Raw:
    """A pod of one of four applications: a Soft gang of two, a Hard one, one without placeholders, and none."""
    parameters = {
        "soft": "gangSchedulingStyle=Soft",
        "hard": "gangSchedulingStyle=Hard",
        "direct": "gangPlacement=Direct",
    }
    name = application_name(AppId(app))
    if name == "plain":
        return a_pod(f"{name}{number}", app=app)
    annotations = gang_annotations(a_group("g", 2), parameters=parameters[name], member_of="g")
    return a_pod(f"{name}{number}", app=app, annotations=annotations)


class Chaos:
    """The things that can happen to a cluster, picked by Hypothesis."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.serial = 0
        self.simulation = Simulation()
        for name in ("n0", "n1", "n2"):
            self.simulation.kubernetes.add_node(a_node(name))
        self.simulation.start()

    def pick(self, count: int) -> int:
        return self.data.draw(st.integers(0, count - 1))

    def happen(self) -> None:
        """One thing, then some steps."""
        things: list[Callable[[], None]] = [
            self.create,
            self.create,
            self.delete,
            self.end,
            self.end,
            self.resize,
            self.move,
            self.time_out,
            self.simulation.core.complete,
            self.refuse,
            self.kill,
            self.change_nodes,
            self.change_namespace,
            lambda: self.simulation.wait(20),
        ]
        things[self.pick(len(things))]()
        for _ in range(self.data.draw(st.integers(0, 25))):
            self.simulation.step(self.pick)

    def create(self) -> None:
        app = APPS[self.pick(len(APPS))]
        self.simulation.kubernetes.add(a_job_pod(app, self.serial))
        self.serial += 1

    def delete(self) -> None:
        uids = sorted(self.simulation.kubernetes.pods)
        if uids:
            self.simulation.kubernetes.delete(uids[self.pick(len(uids))])

    def resize(self) -> None:
        uids = sorted(
            uid for uid, raw in self.simulation.kubernetes.pods.items() if raw["status"]["phase"] == "Pending"
        )
        if uids:
            self.simulation.kubernetes.edit(uids[self.pick(len(uids))], cpu=str(1 + self.pick(4)))

    def move(self) -> None:
        """A user changes the application ID of a pod."""
        uids = sorted(raw["metadata"]["uid"] for raw in real_pods(self.simulation))
        if uids:
            label = {APP_ID: application_name(APPS[self.pick(len(APPS))])}
            self.simulation.kubernetes.edit(uids[self.pick(len(uids))], labels=label)

    def end(self) -> None:
        """A pod runs to its end, or its kubelet does not start it."""
        bound = [raw for raw in self.simulation.kubernetes.pods.values() if raw["spec"].get("nodeName")]
        if bound:
            name = bound[self.pick(len(bound))]["metadata"]["name"]
            status = ({"phase": "Succeeded"}, {"phase": "Failed", "reason": "OutOfcpu"})[self.pick(2)]
            self.simulation.kubernetes.change(name, **status)

    def time_out(self) -> None:
        core = self.simulation.core
        reserving = [app for app in core.apps.values() if app.state == "Accepted" and app.spec.placeholder_ask]
        if reserving:
            core.time_out(reserving[self.pick(len(reserving))].spec.app)

    def refuse(self) -> None:
        self.simulation.kubernetes.refuse_creates = 1

    def kill(self) -> None:
        if self.pick(2):
            self.simulation.kill_core()
        else:
            self.simulation.kill_operator(lose_commands=bool(self.pick(2)))

    def change_nodes(self) -> None:
        kubernetes = self.simulation.kubernetes
        name = f"n{1 + self.pick(2)}"  # n0 stays
        if name not in kubernetes.nodes:
            kubernetes.add_node(a_node(name))
        elif self.pick(2):
            kubernetes.remove_node(name)
        else:
            kubernetes.add_node(a_node(name, unschedulable=True))

    def change_namespace(self) -> None:
        """Change the quota to another or an invalid one, or delete the namespace before its pods."""
        kubernetes = self.simulation.kubernetes
        quota = ('{"cpu": "9"}', "9 CPUs", "")[self.pick(3)]
        kubernetes.namespaces = [a_namespace(namespace_quota=quota)] if quota else []
        kubernetes.watch.extend(map(namespace_seen, kubernetes.namespaces))
        if not quota:
            kubernetes.watch.append(NamespaceGone("dev"))


def run_until_idle(simulation: Simulation, choose: Choose) -> None:
    """Everything is delivered, every retry has had its time, every application had time to complete."""
    simulation.kubernetes.refuse_creates = 0
    simulation.run(choose)
    for _ in range(4):
        simulation.wait(70)
        simulation.run(choose)


@given(st.data())
def test_pods_that_remain_are_bound_once_and_nothing_is_left_over(data: st.DataObject) -> None:
    chaos = Chaos(data)
    for _ in range(data.draw(st.integers(1, 12))):
        chaos.happen()
    simulation = chaos.simulation
    run_until_idle(simulation, chaos.pick)
    kubernetes = simulation.kubernetes
    waiting = [raw for raw in real_pods(simulation) if raw["status"]["phase"] == "Pending"]
    assert [raw["metadata"]["name"] for raw in waiting if not raw["spec"].get("nodeName")] == []
    assert all(count == 1 for count in kubernetes.binds.values())
    assert [event.note for event in kubernetes.events if event.reason == "TaskRejected"] == []
    assert sizes_in_core(simulation) == sizes_in_kubernetes(simulation)
    finish(simulation)
    assert kubernetes.placeholders() == []
    assert simulation.ledger.tasks == {}
    assert simulation.ledger.applications == {}
    assert simulation.ledger.deletions == {}
    assert simulation.ledger.places == {}
    assert {key: app.held for key, app in simulation.core.apps.items() if app.held} == {}
    assert simulation.core.foreign == {}


def sizes_in_core(simulation: Simulation) -> dict[str, int]:
    """The core's allocation of every allocated pod, in millicores."""
    held = (held for app in simulation.core.apps.values() for held in app.held.values())
    return {one.ask.key: one.ask.resources["vcore"] for one in held}


def sizes_in_kubernetes(simulation: Simulation) -> dict[str, int]:
    """The requests of every allocated and bound pod."""
    pods = [read_pod(raw, SETTINGS) for raw in simulation.kubernetes.pods.values()]
    bound = [pod for pod in pods if isinstance(pod, Pod) and pod.node in simulation.core.nodes and not pod.has_ended]
    return {pod.ref.uid: pod.resources["vcore"] for pod in bound}


def real_pods(simulation: Simulation) -> list[Raw]:
    placeholders = [raw["metadata"]["uid"] for raw in simulation.kubernetes.placeholders()]
    return [raw for uid, raw in simulation.kubernetes.pods.items() if uid not in placeholders]


def finish(simulation: Simulation) -> None:
    """Every pod ends, then every application completes."""
    for raw in real_pods(simulation):
        simulation.kubernetes.change(raw["metadata"]["name"], phase="Succeeded")
    simulation.run()
    for _ in range(3):
        simulation.core.complete()
        simulation.run()
        simulation.wait(70)


@given(st.data())
def test_a_request_that_crosses_the_completion_of_its_application_is_submitted_again(data: st.DataObject) -> None:
    """The two cross on different streams, in any order: no rejection is reported, and the pod is bound."""
    chaos = Chaos(data)
    simulation = chaos.simulation
    simulation.kubernetes.add(a_job_pod("plain", 0))
    simulation.run()
    simulation.kubernetes.change("plain0", phase="Succeeded")
    simulation.run()
    simulation.core.complete()
    simulation.kubernetes.add(a_job_pod("plain", 1))
    simulation.run(chaos.pick)
    assert simulation.kubernetes.node_of("plain1")
    assert simulation.kubernetes.binds["uid-plain1"] == 1
    assert {event.reason for event in simulation.kubernetes.events} == {"Scheduled"}


#: Gangs of pods in groups of Kueue, and their sizes.
DECLARED = {"two": 2, "three": 3}
GROUP = "kueue.x-k8s.io/pod-group-name"
GANG = "gang.scheduling.koordinator.sh/"
TOGETHER = '["dev/two", "dev/three"]'


class DeclaredChaos(Chaos):
    """Pods that declare gangs, and move to another one while they wait. ``together``: the gangs start together."""

    together = False

    def declare(self, raw: Raw) -> None:
        """Writes a gang and its size on the pod."""
        gang = sorted(DECLARED)[self.pick(len(DECLARED))]
        written = {"yunikorn.apache.org/gang-size": str(DECLARED[gang])}
        if self.together:
            written = {f"{GANG}name": gang, f"{GANG}min-available": str(DECLARED[gang]), f"{GANG}groups": TOGETHER}
        raw["metadata"]["annotations"] |= written
        raw["metadata"]["labels"][GROUP] = gang

    def create(self) -> None:
        pod = a_pod(f"p{self.serial}")
        self.declare(pod)
        self.simulation.kubernetes.add(pod)
        self.serial += 1

    def happen(self) -> None:
        """Pods appear, and a process is killed in between. Then those that wait may be moved."""
        for _ in range(1 + self.pick(4)):
            self.create()
            for _ in range(self.pick(20)):
                self.simulation.step(self.pick)
        if self.pick(2):
            self.kill()
        run_until_idle(self.simulation, self.pick)
        for uid, raw in list(self.simulation.kubernetes.pods.items()):
            if not raw["spec"].get("nodeName") and self.pick(2):
                self.declare(raw)
                self.simulation.kubernetes.edit(uid)
                run_until_idle(self.simulation, self.pick)  # a gang may be whole between two moves, and start


class TogetherChaos(DeclaredChaos):
    """The same with gangs of Koordinator that start together."""

    together = True


@pytest.mark.parametrize("kind", [DeclaredChaos, TogetherChaos])
@given(st.data())
def test_declared_gangs_are_whole_or_wait(kind: type[DeclaredChaos], data: st.DataObject) -> None:
    chaos = kind(data)
    for _ in range(data.draw(st.integers(1, 4))):
        chaos.happen()
    run_until_idle(chaos.simulation, chaos.pick)
    pods = [(raw["metadata"]["labels"][GROUP], raw["spec"]) for raw in chaos.simulation.kubernetes.pods.values()]
    counts = Counter(name for name, _ in pods)
    is_whole = {name: counts[name] >= size for name, size in DECLARED.items()}
    if chaos.together:
        is_whole = dict.fromkeys(DECLARED, all(is_whole.values()))
    for name, spec in pods:
        assert bool(spec.get("nodeName")) is is_whole[name]
    assert all(count == 1 for count in chaos.simulation.kubernetes.binds.values())
