"""The checks after a round: no pod lost or bound twice, nothing leaked, equal states, no errors in the logs."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import aiohttp

from devcluster.audit import bindings_per_pod
from devcluster.errors import ConditionNotMet
from devcluster.waiting import until
from tests.e2e.faults import consistency, logs
from tests.e2e.faults.environment import FaultEnvironment
from tests.e2e.faults.items import RUN_FOR, Item, Outcome
from tests.e2e.faults.pod_versions import PodHistory, PodObserver

EQUAL_S = 30.0
SHOWN = 25


async def find_violations(fault_environment: FaultEnvironment, items: Sequence[Item], finish_s: float) -> list[str]:
    """Wait until the load has finished, and return all violations; empty on success."""
    wrong = await _eventually(lambda: unfinished(items, fault_environment.observer), finish_s)
    wrong += await _eventually(lambda: leaked(fault_environment.observer), EQUAL_S)
    wrong += await _differences(fault_environment)
    wrong += fault_environment.observer.violations[:SHOWN]
    wrong += bound_twice(fault_environment)
    for muster in fault_environment.musters:
        for process in (muster.operator, muster.core):
            text = await asyncio.to_thread(process.log.read_text, errors="replace")
            wrong += logs.unhandled(f"{process.name} of {muster.setup.identity}", text.splitlines())[:SHOWN]
    return wrong


def unfinished(items: Iterable[Item], observer: PodObserver) -> list[str]:
    """Pods that have not reached the expected outcome of their item."""
    return [problem for item in items for problem in _unfinished(item, observer.of(item.name))]


def _unfinished(item: Item, pods: Sequence[PodHistory]) -> list[str]:
    if item.outcome is Outcome.JOB_DONE:
        done = sum(seen.phase == "Succeeded" for seen in pods)
        problems = [f"{done} of {item.pods} pods of the Job succeeded"] if done < item.pods else []
    else:
        problems = [f"{item.pods - len(pods)} of its pods were never observed"] if len(pods) < item.pods else []
        problems += [f"{seen.name}: {_describe(seen)}" for seen in pods if not _has_outcome(item.outcome, seen)]
    return [f"{item.kind} {item.name} ({item.outcome.value}): {each}" for each in problems]


def _has_outcome(outcome: Outcome, seen: PodHistory) -> bool:
    status = seen.raw.get("status") or {}
    match outcome:
        case Outcome.BOUND:
            stays = (seen.raw["metadata"].get("annotations") or {}).get(RUN_FOR) is None
            return len(seen.nodes) == 1 and seen.phase == ("Running" if stays else "Succeeded")
        case Outcome.FAILED:
            return seen.phase == "Failed" and bool(status.get("reason")) and not seen.nodes
        case Outcome.REJECTED:
            conditions = status.get("conditions") or []
            has_message = any(
                c["type"] == "PodScheduled" and c["status"] == "False" and c.get("message") for c in conditions
            )
            return not seen.nodes and (has_message or (seen.phase == "Failed" and bool(status.get("reason"))))
        case Outcome.DELETED:
            return seen.deleted
        case Outcome.JOB_DONE:
            return True


def _describe(seen: PodHistory) -> str:
    status = seen.raw.get("status") or {}
    messages = [
        f"{c.get('reason')}: {c.get('message')}" for c in status.get("conditions") or [] if c["status"] == "False"
    ]
    terminating = ", terminating" if "deletionTimestamp" in seen.raw["metadata"] else ""
    phase = "deleted" if seen.deleted else seen.phase
    return f"{phase}{terminating}, nodes {seen.nodes}, {status.get('reason', '')} {messages}"


def leaked(observer: PodObserver) -> list[str]:
    """Placeholders that exist although their originator no longer waits."""
    leaked_placeholders = [seen for seen in observer.placeholders() if not _is_waited_for(seen, observer)]
    return [f"placeholder left: {seen.name}: {_describe(seen)}" for seen in leaked_placeholders]


def _is_waited_for(placeholder: PodHistory, observer: PodObserver) -> bool:
    """Whether its originator still waits: it exists, is pending and has no node."""
    uids = [owner["uid"] for owner in placeholder.raw["metadata"].get("ownerReferences") or []]
    owners = [observer.pods[uid] for uid in uids if uid in observer.pods]
    return any(not owner.deleted and owner.phase == "Pending" and not owner.nodes for owner in owners)


def bound_twice(fault_environment: FaultEnvironment) -> list[str]:
    """Pods with more than one successful binding in the audit log, or on more than one node in etcd."""
    counts = bindings_per_pod(
        write
        for write in fault_environment.scenario.writes()
        if write.namespace == fault_environment.scenario.namespace
    )
    twice = [f"{pod} was bound {count} times" for pod, count in counts.items() if count > 1]
    return twice + [
        f"{seen.name} was on {seen.nodes}" for seen in fault_environment.observer.pods.values() if len(seen.nodes) > 1
    ]


async def _eventually(find: Callable[[], list[str]], deadline_s: float) -> list[str]:
    """Call ``find`` until it returns nothing. Returns what it still finds at the deadline."""

    async def none_found() -> bool:
        return not find()

    with suppress(ConditionNotMet):
        await until("no violation is left", none_found, deadline_s, every_s=0.5)
    return find()[:SHOWN]


async def _differences(fault_environment: FaultEnvironment) -> list[str]:
    found: list[str] = []

    async def are_equal() -> bool:
        leader = await fault_environment.leader()
        dump = await (leader or fault_environment.musters[0]).dump()
        found[:] = consistency.differences(dump, fault_environment.observer.pods.values())
        return not found

    try:
        await until(
            "the states of core and operator match the cluster",
            are_equal,
            EQUAL_S,
            every_s=0.5,
            tolerate=(aiohttp.ClientError,),
        )
    except ConditionNotMet as error:
        return found[:SHOWN] or [str(error)]
    return []
