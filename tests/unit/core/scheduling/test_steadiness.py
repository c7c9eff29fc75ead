"""One change causes a bounded number of attempts, however many applications wait, and each is tried again.

The clusters are those of `benchmarks/steady.py`, which measures their time.
"""

from dataclasses import replace
from random import Random  # noqa: TID251 # seeded

import pytest

from benchmarks import steady
from benchmarks.core_placement import PARTITION as STEADY_PARTITION
from benchmarks.steady import Change, WaitingCluster
from muster_core.model.constraints import NAMESPACE, InterPodConstraints, PodTerm, Target
from muster_core.model.effects import Effect
from muster_core.model.events import AllocationReleased, ApplicationAdded, AskAdded, ManagerRegistered, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId, TaskGroup, Termination
from muster_core.model.specs import AskSpec, GangPlacement, HostPort, Member, PodProperties
from muster_core.state.backoff import Backoff, BlockedApplications, delay_ns
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, placed

_WAITING = 400
_NODES = 20
_HOST = "kubernetes.io/hostname"

#: Affinity to a pod that does not exist.
NEXT_TO_NOTHING = PodProperties(
    InterPodConstraints(affinity=(PodTerm(_HOST, (Target("kubernetes.io/label/app", values=("none",)),), ("ns",)),))
)

#: Applications that never fit, small pods per second, and the longest delay of an application that fits.
_DOOMED = 1000
_PER_S = 5
_DELAY_S = 10


@pytest.fixture(scope="module", params=steady.REASONS)
def cluster(request: pytest.FixtureRequest) -> WaitingCluster:
    made = steady.cluster(request.param, _WAITING, _NODES)
    made.wait(120)
    assert made.unscheduled > _WAITING / 2
    return made


def test_ended_pods_and_taints_cause_few_attempts_while_hundreds_of_applications_wait(cluster: WaitingCluster) -> None:
    changes: list[Change] = []
    for number in range(9):
        changes.append(cluster.end_pod() if number % 3 else cluster.taint(is_set=number % 2 == 0))
        cluster.wait(1)
    assert max(change.attempts for change in changes) <= 10


def test_the_attempts_that_follow_later_are_bounded_per_second(cluster: WaitingCluster) -> None:
    cluster.end_pod()
    assert cluster.wait(10).attempts <= 10 * 110
    changes = [(cluster.end_pod(), cluster.wait(0.1)) for _ in range(10)]
    assert sum(change.attempts for pair in changes for change in pair) <= 10 * 2 + 110


def test_the_back_off_doubles_up_to_ten_seconds_and_more_after_many_failures() -> None:
    assert [delay_ns(failures) // SECOND for failures in (1, 2, 3, 4, 5, 10, 11, 12, 13, 99)] == [
        1,
        2,
        4,
        8,
        10,
        10,
        20,
        40,
        60,
        60,
    ]


def repelled(key: str, app: str, vcore: int) -> AskSpec:
    """Return a request that may not be on the node of a pod with the label `app=x`."""
    term = PodTerm(_HOST, (Target("kubernetes.io/label/app", values=("x",)),), ("ns",))
    facts = PodProperties(InterPodConstraints(anti_affinity=(term,)))
    ask = an_ask(key, app=app, vcore=vcore, tags={NAMESPACE: "ns", "kubernetes.io/label/app": "x"})
    return replace(ask, facts=facts, namespace="ns")


def test_an_application_alone_is_tried_at_once_however_often_it_failed() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), NodeAdded(a_node("n0", labels={_HOST: "n0"})))
    scenario.send(ApplicationAdded(an_application("x")), ApplicationAdded(an_application("y", queue="root.b")))
    scenario.submit(an_application("z"))
    scenario.ask(repelled("x0", "x", 1000), repelled("y0", "y", 1000))
    for number in range(20):
        scenario.ask(an_ask(f"other{number}", app="z"))
        scenario.release(f"other{number}", app="z")
        scenario.wait(1)
    assert scenario.app("y").attempts_in_vain > 10
    assert placed(scenario.release("x0", app="x")) == {"y0": "n0"}


def test_a_new_request_is_tried_at_once_while_others_are_in_back_off() -> None:
    made = steady.cluster("anti-affinity", 100, 20)
    made.end_pod()
    made.end_pod()
    assert made.unscheduled == 100
    spec = replace(an_application("new", queue="root.q0"), partition=STEADY_PARTITION)
    ask = replace(an_ask("new", app="new"), partition=STEADY_PARTITION)
    effects = made.send(ApplicationAdded(spec), AskAdded(ask)).effects
    assert placed(effects).keys() == {"new"}


def test_classes_of_deleted_requests_are_forgotten() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(), nodes=1)
    for number in range(20):
        scenario.ask(an_ask("large", vcore=100_000 + number))
        scenario.release_ask("large")
    scenario.ask(an_ask("kept", vcore=100_000))
    assert len(scenario.partition.unschedulable_classes) == 1
    scenario.ask(an_ask("first", vcore=100_001), an_ask("second", vcore=100_001))
    scenario.release_ask("first")
    assert len(scenario.partition.unschedulable_classes) == 2
    scenario.remove("app")
    assert not len(scenario.partition.unschedulable_classes)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_fits_waits_longer_than_the_back_off(seed: int) -> None:
    """After the longest back-off, trying all applications at once, as without back-off, places nothing more."""
    random = Random(seed)
    scenario = Scenario(a_configuration(*(a_queue(f"q{number}", vcore=12_000) for number in range(4))))
    scenario.send(*(NodeAdded(a_node(f"n{number}", labels={_HOST: f"n{number}"})) for number in range(8)))
    running: dict[str, str] = {}
    for number in range(120):
        if random.random() < 0.35 and running:
            key = random.choice(sorted(running))
            running |= dict.fromkeys(placed(scenario.release(key, app=running.pop(key))), "")
        else:
            running |= dict.fromkeys(placed(_submit(scenario, random, f"app{number}")), "")
        if random.random() < 0.1:
            running |= dict.fromkeys(placed(scenario.wait(random.choice((0.1, 1, 15)))), "")
        running = {key: key.partition("-")[0] for key in running}
    assert sum(bool(app.waiting) for app in scenario.partition.applications.values()) > 10
    scenario.wait(130)
    scenario.partition.scheduling.requeue_all()
    assert placed(scenario.send()) == {}


def _submit(scenario: Scenario, random: Random, name: str) -> list[Effect]:
    queue, vcore = f"root.q{random.randrange(4)}", random.randrange(300, 3000)
    if random.random() < 0.2:
        members = random.randrange(2, 8)
        spec = an_application(name, queue=queue, gang=members, placement=GangPlacement.AUTO)
        return scenario.send(ApplicationAdded(spec), AskAdded(an_ask(f"{name}-0", app=name, group="workers")))
    scenario.submit(an_application(name, queue=queue))
    ask = an_ask(f"{name}-0", app=name, vcore=vcore)
    kind = random.randrange(3)
    if kind == 1:
        ask = repelled(f"{name}-0", name, vcore)
    elif kind == 2:
        ask = replace(ask, facts=PodProperties(ports=(HostPort("", "TCP", random.randrange(3)),)))
    return scenario.ask(ask)


def test_no_other_reason_becomes_active_before_all_that_were_active_are_tried() -> None:
    """Else the order of queues decides which of them are tried, and always for the same ones."""
    scenario = Scenario(a_configuration(a_queue("a")))
    backoff = Backoff()
    entries = [BlockedApplications(scenario.partition) for _ in range(200)]
    for entry in entries:
        backoff.wake(entry)
    tried: list[BlockedApplications] = []
    for second in range(1, 200):
        backoff.begin(second * SECOND, has_news=False)
        active = list(iter(backoff.take, None))
        for entry in reversed(active):  # a queue whose later ones precede
            tried.append(entry)
            backoff.discard(entry)
            if backoff.attempted([entry], is_in_vain=True, is_early=False, is_refused=False):
                break
        backoff.wake(BlockedApplications(scenario.partition))
        if set(tried) >= set(entries):
            break
    assert tried.index(entries[0]) < 64


@pytest.mark.parametrize("seed", range(20))
def test_every_woken_reason_becomes_active_whatever_leaves_while_others_are_postponed(seed: int) -> None:
    random, scenario, backoff = Random(seed), Scenario(a_configuration(a_queue("a"))), Backoff()
    entries = [BlockedApplications(scenario.partition) for _ in range(300)]
    for entry in entries:
        backoff.wake(entry)
    for step in range(200):
        backoff.begin(step * SECOND // 50, has_news=False)
        entry = random.choice(entries)
        match random.randrange(8):
            case 0 if entry not in backoff:
                backoff.wake(entry)
            case 1:
                backoff.wake(entry, is_certain=True)
            case 2 if entry in backoff:
                backoff.again(entry)  # one of its applications was deleted
            case 3 if step % 5 == 0:
                backoff.discard(entry)
            case _:
                if list(iter(backoff.take, None)):
                    attempt_in_vain(backoff, random)
    woken = {entry for entry in entries if entry in backoff} - backoff.tried.keys()
    assert len(woken) > 60
    for second in range(4, 400):
        backoff.begin(second * SECOND, has_news=False)
        woken -= set(iter(backoff.take, None))
        while backoff.tried and not attempt_in_vain(backoff, random):
            pass
    assert backoff.next_ns() == 0
    assert not woken


def attempt_in_vain(backoff: Backoff, random: Random) -> bool:
    """Attempt one active application. It is blocked again. Return whether none is active any more."""
    if not backoff.tried:
        return True
    entry = random.choice(list(backoff.tried))
    backoff.discard(entry)
    entry.retry_ns = backoff.now_ns + SECOND
    return bool(backoff.attempted([entry], is_in_vain=True, is_early=False, is_refused=False))


def test_an_application_that_fits_starts_although_one_that_was_woken_is_deleted() -> None:
    """One change wakes more than are tried at once. The deleted one is of a class that others have too."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=100)
    doomed = [(number, f"doomed{number}{name}") for number in range(66) for name in "xy"]
    scenario.send(
        *(ApplicationAdded(an_application(name)) for _, name in doomed),
        *(
            AskAdded(replace(an_ask(name, app=name, vcore=1000 + number), facts=NEXT_TO_NOTHING))
            for number, name in doomed
        ),
        *(ApplicationAdded(an_application(f"fits{number}")) for number in range(20)),
        *(AskAdded(an_ask(f"fits{number}", app=f"fits{number}", vcore=2500 + number)) for number in range(20)),
    )
    scenario.wait(30)
    found = placed(scenario.add_node("n1", vcore=400_000)).keys()
    assert len(found) < 20
    scenario.release_ask("doomed63y", "doomed63y")
    assert len(found | placed(scenario.wait(_DELAY_S)).keys()) == 20


def test_a_request_that_fits_again_starts_within_seconds_beside_a_thousand_that_never_fit() -> None:
    """Else the order of the queues chooses among all that were woken, and the requests of one user keep others out."""
    core = WaitingCluster(0)
    core.send(ManagerRegistered(RM, a_configuration(a_queue("a"), a_queue("b"), a_queue("c"))))
    hosts = [f"n{number}" for number in range(10)]
    core.send(*(NodeAdded(a_node(host, 100_000, labels={_HOST: host}, pods=1000)) for host in hosts))
    core.send(*(ApplicationAdded(an_application(name, queue=f"root.{name}")) for name in "bc"))
    for host in hosts:
        core.send(AskAdded(repelled(f"x-{host}", "c", 1000)), AskAdded(an_ask(f"large-{host}", app="c", vcore=80_000)))
    assert placed(core.send(AskAdded(an_ask("running", app="b"))).effects)  # so that the order prefers the queue `a`
    doomed = [f"doomed{number}" for number in range(_DOOMED)]
    core.send(*(ApplicationAdded(an_application(name)) for name in doomed))
    core.send(*(AskAdded(repelled(name, name, 100 + number)) for number, name in enumerate(doomed)))
    assert not placed(core.send(AskAdded(an_ask("waiting", app="b", vcore=45_000))).effects)
    assert pods_come_and_go(core, _DELAY_S) == set()
    ended = core.send(released("large-n0", "c"))
    assert ended.attempts <= 10
    assert placed(ended.effects).keys() | pods_come_and_go(core, _DELAY_S) == {"waiting"}


def test_d4_few_of_a_hundred_gangs_are_planned_when_a_pod_ends_and_another_starts() -> None:
    """The executors of each gang fit alone after the next pod has ended, and not together with their driver."""
    core = WaitingCluster(0)
    core.send(ManagerRegistered(RM, a_configuration(a_queue("a"), a_queue("b"))))
    core.send(*(NodeAdded(a_node(f"n{number}", 8000)) for number in range(_NODES)))
    core.send(ApplicationAdded(an_application("full", queue="root.b")))
    assert placed(core.send(*(AskAdded(an_ask(f"f{number}", app="full")) for number in range(_NODES * 8 - 21))).effects)
    driver, executors = (resources(vcore=vcore, pods=1) for vcore in (900, 1000))
    members = Member(TaskGroup("driver"), 1, driver), Member(TaskGroup("executors"), 22, executors)
    for name in (f"g{number}" for number in range(_WAITING // 4)):
        gang = an_application(name, gang=23, placement=GangPlacement.AUTO)
        gang = replace(gang, members=members, placeholder_ask=driver + executors.times(22))
        core.send(ApplicationAdded(gang), AskAdded(an_ask(f"{name}-driver", app=name, vcore=900, group="driver")))
    core.wait(120)
    for number in range(8):
        change = core.send(released(f"f{number}", "full"), AskAdded(an_ask(f"again{number}", app="full")))
        assert placed(change.effects).keys() == {f"again{number}"}
        assert change.attempts <= 10
        core.wait(1)


def released(key: str, app: str) -> AllocationReleased:
    return AllocationReleased(PARTITION, ApplicationId(app), AllocationKey(key), None, Termination.STOPPED_BY_RM)


def pods_come_and_go(core: WaitingCluster, seconds: int) -> set[str]:
    """Start and end small pods, which wakes all. Return the other requests that are placed."""
    found, attempts = set[str](), 0
    for _ in range(seconds * _PER_S):
        for change in (
            core.send(AskAdded(an_ask("small", app="c", vcore=100))),
            core.send(released("small", "c")),
            core.wait(1 / _PER_S),
        ):
            found |= placed(change.effects).keys()
            attempts += change.attempts
    assert seconds < attempts <= seconds * 110 + 10
    return found - {"small"}
