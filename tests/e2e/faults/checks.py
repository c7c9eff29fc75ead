"""The checks after a round: no pod lost or bound twice, nothing leaked, equal states, no errors in the logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import aiohttp

from devcluster.audit import bindings_per_pod
from devcluster.errors import ConditionNotMet
from devcluster.waiting import until
from tests.e2e.faults import consistency, logs
from tests.e2e.faults.environment import FaultEnvironment
from tests.e2e.faults.items import RUN_FOR, End, Item
from tests.e2e.faults.pod_versions import PodHistory, PodObserver

AGREE_S = 30.0
SHOWN = 25


async def judge(fault_environment: FaultEnvironment, items: Sequence[Item], settle_s: float) -> list[str]:
    """Wait for the end of the load and say everything that is wrong; empty = survived."""
    wrong = await _eventually(lambda: unsettled(items, fault_environment.witness), settle_s)
    wrong += await _eventually(lambda: leaked(fault_environment.witness), AGREE_S)
    wrong += await _disagreements(fault_environment)
    wrong += fault_environment.witness.violations[:SHOWN]
    wrong += doubled(fault_environment)
    for muster in fault_environment.musters:
        for process in (muster.operator, muster.core):
            text = await asyncio.to_thread(process.log.read_text, errors="replace")
            wrong += logs.unhandled(f"{process.name} of {muster.setup.identity}", text.splitlines())[:SHOWN]
    return wrong


def unsettled(items: Iterable[Item], witness: PodObserver) -> list[str]:
    """What has not come to the end that it has to come to."""
    return [words for item in items for words in _unsettled(item, witness.of(item.name))]


def _unsettled(item: Item, pods: Sequence[PodHistory]) -> list[str]:
    if item.end is End.JOB_DONE:
        done = sum(seen.phase == "Succeeded" for seen in pods)
        words = [f"{done} of {item.pods} pods of the Job succeeded"] if done < item.pods else []
    else:
        words = [f"{item.pods - len(pods)} of its pods were never seen"] if len(pods) < item.pods else []
        words += [f"{seen.name}: {_looks(seen)}" for seen in pods if not _has_ended(item.end, seen)]
    return [f"{item.kind} {item.name} ({item.end.value}): {each}" for each in words]


def _has_ended(end: End, seen: PodHistory) -> bool:
    status = seen.raw.get("status") or {}
    match end:
        case End.SERVED:
            stays = (seen.raw["metadata"].get("annotations") or {}).get(RUN_FOR) is None
            return len(seen.nodes) == 1 and seen.phase == ("Running" if stays else "Succeeded")
        case End.FAILED:
            return seen.phase == "Failed" and bool(status.get("reason")) and not seen.nodes
        case End.REFUSED:
            conditions = status.get("conditions") or []
            said = any(c["type"] == "PodScheduled" and c["status"] == "False" and c.get("message") for c in conditions)
            return not seen.nodes and (said or (seen.phase == "Failed" and bool(status.get("reason"))))
        case End.DELETED:
            return seen.gone
        case End.JOB_DONE:
            return True


def _looks(seen: PodHistory) -> str:
    status = seen.raw.get("status") or {}
    said = [f"{c.get('reason')}: {c.get('message')}" for c in status.get("conditions") or [] if c["status"] == "False"]
    going = ", going" if "deletionTimestamp" in seen.raw["metadata"] else ""
    return f"{'gone' if seen.gone else seen.phase}{going}, nodes {seen.nodes}, {status.get('reason', '')} {said}"


def leaked(witness: PodObserver) -> list[str]:
    """Placeholders that exist although the pod they were made for does not wait any more."""
    left = [seen for seen in witness.placeholders() if not _is_waited_for(seen, witness)]
    return [f"placeholder left: {seen.name}: {_looks(seen)}" for seen in left]


def _is_waited_for(placeholder: PodHistory, witness: PodObserver) -> bool:
    """Whether its gang may still come: its originator has no node and has not ended."""
    uids = [owner["uid"] for owner in placeholder.raw["metadata"].get("ownerReferences") or []]
    owners = [witness.pods[uid] for uid in uids if uid in witness.pods]
    return any(not owner.gone and owner.phase == "Pending" and not owner.nodes for owner in owners)


def doubled(fault_environment: FaultEnvironment) -> list[str]:
    """Pods with more than one successful binding in the audit log, or on more than one node in etcd."""
    counts = bindings_per_pod(
        write
        for write in fault_environment.scenario.writes()
        if write.namespace == fault_environment.scenario.namespace
    )
    twice = [f"{pod} was bound {count} times" for pod, count in counts.items() if count > 1]
    return twice + [
        f"{seen.name} was on {seen.nodes}" for seen in fault_environment.witness.pods.values() if len(seen.nodes) > 1
    ]


async def _eventually(look: Callable[[], list[str]], deadline_s: float) -> list[str]:
    """Look again and again until nothing is wrong; what is still wrong at the deadline."""

    async def nothing() -> bool:
        return not look()

    with suppress(ConditionNotMet):
        await until("nothing is wrong", nothing, deadline_s, every_s=0.5)
    return look()[:SHOWN]


async def _disagreements(fault_environment: FaultEnvironment) -> list[str]:
    found: list[str] = []

    async def agree() -> bool:
        leader = await fault_environment.leader()
        dump = await (leader or fault_environment.musters[0]).dump()
        found[:] = consistency.differences(dump, fault_environment.witness.pods.values())
        return not found

    try:
        await until("the ledgers are the cluster", agree, AGREE_S, every_s=0.5, tolerate=(aiohttp.ClientError,))
    except ConditionNotMet as error:
        return found[:SHOWN] or [str(error)]
    return []
