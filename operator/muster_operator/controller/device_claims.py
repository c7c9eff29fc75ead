"""ResourceClaims of pods (Dynamic Resource Allocation): when a pod may be requested, and what is written before a bind.

A pod is requested when all its claims exist, are its own, and are not being deleted. The core chooses devices for the
claims that are not allocated. Then `volume_binding` orders a write per claim, for the steps that are built here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from muster_operator.controller.state import SWEEP_S, Deadline, Ledger, Task, TimerKind, set_timer
from muster_operator.controller.storage_state import (
    DeviceFailure,
    DeviceStep,
    HeldPod,
    Refusals,
    Step,
    StepState,
    device_key,
)
from muster_operator.model import device_problems, messages, problems
from muster_operator.model.cluster_events import (
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    DeviceEvent,
    DeviceSliceGone,
    DeviceSliceSeen,
    TaintRuleGone,
    TaintRuleSeen,
)
from muster_operator.model.commands import (
    CommandFailed,
    CommandSucceeded,
    CreateClaim,
    Outcome,
    Repeat,
    ReserveClaim,
    Result,
    SetCondition,
)
from muster_operator.model.core_messages import ClusterObjectReported
from muster_operator.model.devices import ChosenDevices, DeviceClaim, DeviceName, PodClaim, TaintRule
from muster_operator.model.ids import AppId, PodUid, Resources, added
from muster_operator.model.pods import Condition, Pod, PodRef
from muster_operator.model.states import TaskState
from muster_operator.model.storage import ClaimRef, ClusterObject, ObjectKind
from muster_operator.translate.devices import allocation, tainted, unusable
from muster_operator.translate.extended_resources import ENTRY, providers
from muster_operator.translate.values import canonical
from muster_si import keys

_KIND: Final = "resourceclaim"


def record(ledger: Ledger, fact: DeviceEvent) -> ClusterObject | None:
    """Records an object, or its deletion. Returns it as an object for the core; None = the core does not need it."""
    devices = ledger.devices
    match fact:
        case DeviceSliceSeen(found):
            devices.slices[found.name] = found
            return tainted(found, _rules(ledger))
        case DeviceSliceGone(name):
            devices.slices.pop(name, None)
            return ClusterObject(ObjectKind.DEVICE_SLICE, name, gone=True)
        case TaintRuleSeen(rule):
            devices.rules[rule.name] = rule
            return None
        case TaintRuleGone(name):
            devices.rules.pop(name, None)
            return None
        case _:
            return _record(ledger, fact)


def _rules(ledger: Ledger) -> list[TaintRule]:
    return [rule for _, rule in sorted(ledger.devices.rules.items())]


def slices_changed_by(ledger: Ledger, fact: TaintRuleSeen | TaintRuleGone) -> list[ClusterObject]:
    """Records a rule, or its deletion. Returns the slices of its pools with the present taints; none if it is equal."""
    name = fact.rule.name if isinstance(fact, TaintRuleSeen) else fact.name
    before = ledger.devices.rules.get(name)
    record(ledger, fact)
    after = ledger.devices.rules.get(name)
    if before == after:
        return []
    changed = [rule for rule in (before, after) if rule is not None]
    slices = ledger.devices.slices.values()
    return [tainted(found, _rules(ledger)) for found in slices if any(rule.is_of(found) for rule in changed)]


def tainted_slices(ledger: Ledger) -> Iterator[ClusterObject]:
    """The slices that a rule taints. Before a session, events of rules are only recorded."""
    rules = _rules(ledger)
    for found in ledger.devices.slices.values() if rules else ():
        if any(rule.is_of(found) for rule in rules):
            yield tainted(found, rules)


def _record(
    ledger: Ledger, fact: DeviceClassSeen | DeviceClassGone | DeviceClaimSeen | DeviceClaimGone
) -> ClusterObject:
    devices = ledger.devices
    match fact:
        case DeviceClaimSeen(claim):
            devices.claims[claim.ref.key] = claim
            if not claim.is_allocated:
                devices.expired.pop(claim.ref.key, None)
            elif claim.binding is None:
                devices.failures.pop(claim.ref.key, None)
            return _reported(ledger, claim)
        case DeviceClaimGone(key):
            for about in (devices.claims, devices.expired, devices.failures):
                about.pop(key, None)
            return ClusterObject(ObjectKind.DEVICE_CLAIM, key, gone=True)
        case DeviceClassSeen(device_class):
            devices.classes[device_class.name] = device_class
            devices.providers = providers(devices.classes.values())
            return device_class.reported
        case DeviceClassGone(name):
            devices.classes.pop(name, None)
            devices.providers = providers(devices.classes.values())
            return ClusterObject(ObjectKind.DEVICE_CLASS, name, gone=True)
        case _:
            assert_never(fact)


def claim_of(fact: DeviceEvent) -> str:
    """The key of the claim that the event is about; empty = it is about another object."""
    match fact:
        case DeviceClaimSeen(claim):
            return claim.ref.key
        case DeviceClaimGone(key):
            return key
        case _:
            return ""


def identity(ledger: Ledger, key: str) -> tuple[str, str, bool] | None:
    """What pods that wait for the claim depend on: its UID, its owner, and whether it is being deleted."""
    claim = ledger.devices.claims.get(key)
    return None if claim is None else (claim.ref.uid, claim.owner, claim.is_deleting)


def counts_otherwise(ledger: Ledger, key: str) -> bool:
    """Whether the devices of the claim count for another pod than at the last call, one per event or end of a pod.

    The pod of the last call may have lost its node since.
    """
    claim, counting = ledger.devices.claims.get(key), ledger.devices.counting
    is_shared = len(ledger.devices.users.get(key, ())) > 1
    before, now = counting.pop(key, ""), _counting(ledger, key, claim) if claim is not None and is_shared else ""
    if now:
        counting[key] = now
    return now != before


def _counting(ledger: Ledger, key: str, claim: DeviceClaim) -> str:
    """The UID of the pod that the devices of the claim count for; empty = each pod that names it.

    That is the first pod with a node that it is reserved for. Its owner does not matter, because a user may set it, and
    the allocation of a pod without a node is counted nowhere.
    """
    users = ledger.devices.users.get(key, ())
    return next((uid for uid in claim.reserved if uid in users and _has_node(ledger, uid)), "") if claim.devices else ""


def _has_node(ledger: Ledger, uid: str) -> bool:
    task, pod = ledger.tasks.get(PodUid(uid)), ledger.pods.get(PodUid(uid))
    return (task is not None and task.node is not None) or (pod is not None and pod.node is not None)


def charged(ledger: Ledger, pod: Pod) -> Resources:
    """What queues count for the pod: its resources, and the devices of its claims, by class.

    A claim without a reservation counts for each pod that names it, because each of them may be the first.
    """
    total = pod.resources
    for key in dict.fromkeys(key for _, key in _named(pod)):
        claim = ledger.devices.claims.get(key)
        if claim is not None and _counting(ledger, key, claim) in {"", pod.ref.uid}:
            total = added(total, claim.devices)
    return total


def record_pod(ledger: Ledger, pod: Pod) -> None:
    """Records which claims the pod names."""
    uid, used = pod.ref.uid, (pod.membership.app, tuple(key for _, key in _named(pod)))
    if ledger.devices.used.get(uid) == used:
        return
    _unrecord(ledger, uid)
    ledger.devices.used[uid] = used
    for key in used[1]:
        ledger.devices.users.setdefault(key, set()).add(uid)
    ledger.devices.apps.setdefault(used[0], set()).add(uid)


def forget_pod(ledger: Ledger, uid: PodUid) -> None:
    """The pod is gone or has ended. If it counted the devices of a claim, its other pods are among the changed ones."""
    _, named = ledger.devices.used.get(uid, ("", ()))
    claims = {key: ledger.devices.claims.get(key) for key in named}
    ended = [key for key, claim in claims.items() if claim is not None and _counting(ledger, key, claim) == uid]
    _unrecord(ledger, uid)
    ledger.devices.held.pop(uid, None)
    for key in ended:
        counts_otherwise(ledger, key)
        note_changed(ledger, key)


def note_changed(ledger: Ledger, key: str) -> None:
    """The pods that name the claim have to be handled again."""
    if users := sorted(ledger.devices.users.get(key, ())):
        ledger.devices.changed.setdefault(key.partition("/")[0], {}).update(dict.fromkeys(users))


def _unrecord(ledger: Ledger, uid: PodUid) -> None:
    app, claims = ledger.devices.used.pop(uid, ("", ()))
    for key in claims:
        _discard(ledger.devices.users, key, uid)
    _discard(ledger.devices.apps, app, uid)


def _discard(index: dict[str, set[PodUid]], key: str, uid: PodUid) -> None:
    if key in index:
        index[key].discard(uid)
        if not index[key]:
            del index[key]


def _named(pod: Pod) -> Iterator[tuple[PodClaim, str]]:
    """The claims of the pod that have a name, with their keys."""
    return ((claim, f"{pod.ref.namespace}/{claim.claim}") for claim in pod.claims if claim.claim)


def missing(ledger: Ledger, pod: Pod) -> str:
    """Why the pod cannot be requested yet: one of its claims is not usable. Empty = all are."""
    if not ledger.settings.device_claims:
        return device_problems.device_claims_disabled()
    for claim in pod.claims:
        if not claim.claim:
            if claim.claim is None:
                continue
            return device_problems.claim_not_created(claim.entry)
        found = ledger.devices.claims.get(f"{pod.ref.namespace}/{claim.claim}")
        if claim.entry == ENTRY and (found is None or found.is_deleting):
            return device_problems.special_claim_gone(claim.claim)
        if found is None:
            return device_problems.resource_claim_missing(claim.claim)
        if found.is_deleting:
            return problems.claim_being_deleted(claim.claim, _KIND)
        if found.is_of_group:
            return device_problems.claim_of_pod_group(claim.claim)
        if claim.is_made and found.owner != pod.ref.uid:
            return device_problems.claim_of_another_pod(claim.claim, pod.ref.name)
    return ""


def is_missing(ledger: Ledger, pod: Pod) -> bool:
    """Whether the pod cannot be requested yet, because it lacks a claim, or one for its extended resources."""
    return bool((pod.claims and missing(ledger, pod)) or extended(ledger, pod))


def tag(ledger: Ledger, pod: Pod) -> dict[str, str]:
    """The tag of the request of a pod with its claims; none if it has none."""
    claims = {key: ledger.devices.claims.get(key) for _, key in _named(pod)}
    found = [
        {"claim": key, "uid": claim.ref.uid} | ({"reserved": True} if pod.ref.uid in claim.reserved else {})
        for key, claim in claims.items()
        if claim is not None
    ]
    return {keys.TAG_DEVICE_CLAIMS: canonical("resource claims", found)} if found else {}


def extended(ledger: Ledger, pod: Pod) -> dict[str, str]:
    """The class by extended resource of the pod, for those that a DeviceClass and no node's device plugin provides.

    Empty if the pod has a claim for some of them, which is not changed any more.
    """
    devices = ledger.devices
    if not devices.providers or any(claim.entry == ENTRY for claim in pod.claims):
        return {}
    wanted = [name for name in pod.resources if name in devices.providers]
    on_nodes = _on_nodes(ledger) | devices.lately | devices.before if wanted else set()
    return {name: devices.providers[name] for name in wanted if name not in on_nodes}


def _on_nodes(ledger: Ledger) -> set[str]:
    """The resources that some node has."""
    devices = ledger.devices
    if devices.on_nodes is None:
        nodes = ledger.nodes.values()
        devices.on_nodes = {name for node in nodes for name, amount in node.capacity.items() if amount > 0}
    return devices.on_nodes


def order_claim(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> bool:
    """Whether the pod waits for a claim of its extended resources, which is ordered once.

    The watch shows the claim in the pod's status. From then on it is a claim of the pod like others.
    """
    if not (classes := extended(ledger, pod)):
        return False
    why, held = _not_created(classes), ledger.devices.held.get(pod.ref.uid)
    if held is None or not held.why.startswith(why):
        out.commands.append(CreateClaim(pod.ref, tuple(sorted(classes.items()))))
        keep_back(ledger, pod, why, now)
    return True


def claim_answered(ledger: Ledger, result: Result, command: CreateClaim, now: float) -> None:
    """The claim for extended resources could not be created: the reason is reported, and the sweep orders it again."""
    pod, namespace = ledger.pods.get(command.pod.uid), command.pod.namespace
    if isinstance(result, CommandSucceeded):
        ledger.devices.refused.pop(namespace, None)
    if not isinstance(result, CommandFailed):
        return
    if result.status in _REFUSED:
        refused = ledger.devices.refused.setdefault(namespace, Refusals())
        if now >= refused.until:  # the first answer of the sweep
            refused.until = now + min(_MAX_PAUSE_S, _PAUSE_S * 2**refused.count)
            refused.count += 1
    if pod is not None and command.pod.uid in ledger.devices.held:
        keep_back(ledger, pod, f"{_not_created(dict(command.classes))}: {result.message}", now)


#: Status codes by which quotas and admission policies refuse a claim. Other pods of the namespace get the same answer.
_REFUSED: Final = frozenset({403, 422})

#: Seconds until refused claims of a namespace are repeated, doubled each time, and how many claims a sweep repeats.
_PAUSE_S: Final = SWEEP_S / 2
_MAX_PAUSE_S: Final = 16 * SWEEP_S
_REPEATED_AT_ONCE: Final = 100


def _not_created(classes: dict[str, str]) -> str:
    resources = ", ".join(f"{name} (DeviceClass {of_class})" for name, of_class in sorted(classes.items()))
    return device_problems.extended_claim_not_created(resources)


def sweep(ledger: Ledger, out: Outcome, now: float) -> None:
    """Reports again why pods wait, and orders missing claims for extended resources again.

    A device plugin that restarts, or whose nodes come back soon, is waited for until the second sweep, because the API
    server lets no pod return from a claim to it.
    """
    ledger.devices.before, ledger.devices.lately = ledger.devices.lately, set()
    if ledger.devices.providers:
        _on_nodes(ledger)
    held, refused, repeated = ledger.devices.held, ledger.devices.refused, 0
    waiting: set[str] = set()
    for uid in list(held):
        report_held(ledger, out, uid, now)
        if (pod := ledger.pods.get(uid)) is None or pod.node is not None or not (classes := extended(ledger, pod)):
            continue
        namespace = pod.ref.namespace
        waiting.add(namespace)
        if repeated < _REPEATED_AT_ONCE and (namespace not in refused or now >= refused[namespace].until):
            out.commands.append(Repeat(CreateClaim(pod.ref, tuple(sorted(classes.items())))))
            held[uid] = held.pop(uid)  # the next sweep begins with the others
            repeated += 1
    for namespace in refused.keys() - waiting:
        del refused[namespace]


# -- pods that wait for their claims ----------------------------------------------------------------------------------


def keep_back(ledger: Ledger, pod: Pod, why: str, now: float) -> None:
    """The pod cannot be requested. The reason is reported if it lasts."""
    held = ledger.devices.held.get(pod.ref.uid)
    if held is None or held.why != why:
        due = now + ledger.settings.condition_delay_s
        ledger.devices.held[pod.ref.uid] = HeldPod(why, due)
        set_timer(ledger, Deadline(due, TimerKind.DEVICES, pod.ref.uid))


def release(ledger: Ledger, pod: Pod) -> None:
    """The pod does not wait for claims any more."""
    ledger.devices.held.pop(pod.ref.uid, None)


def report_held(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """Timer and sweep: writes why the pod waits."""
    held, pod = ledger.devices.held.get(uid), ledger.pods.get(uid)
    if held is None or pod is None or now < held.due:
        return
    condition = Condition(messages.SKIPPED, held.why)
    if pod.condition != condition:
        out.commands.append(SetCondition(pod.ref, condition.reason, condition.message))


# -- writes before a bind ---------------------------------------------------------------------------------------------


def steps(ledger: Ledger, task: Task, chosen: Iterable[ChosenDevices]) -> dict[str, Step]:
    """The writes for the claims of a pod that got a node, by `device_key`.

    Raises:
        KeyError: a class of the requests does not exist any more; its name.
    """
    allocations = {devices.claim: devices for devices in chosen}
    found: dict[str, Step] = {}
    for claim, key in _named(task.pod):
        known = ledger.devices.claims.get(key)
        ref = ClaimRef(task.pod.ref.namespace, claim.claim or "", "") if known is None else known.ref
        devices = allocations.get(ref)
        written, has = "", frozenset[DeviceName]() if known is None else known.has
        if known is not None and devices:
            written = allocation(known, devices, ledger.devices.classes, task.pod.ref.uid)
            has = frozenset((one.driver, one.pool, one.device) for one in devices.devices)
        found[device_key(key)] = DeviceStep(
            claim=ref,
            allocation=written,
            has=has,
            known=known.known if known and written else "",
            has_conditions=(known is not None and known.binding is not None)
            or (devices is not None and any(device.conditions for device in devices.devices)),
        )
    return found


def state_of(ledger: Ledger, step: DeviceStep) -> str | None:
    """None = the claim is reserved and ready; empty = not yet; else why it cannot be."""
    claim = ledger.devices.claims.get(step.claim.key)
    if claim is None or claim.ref.uid != step.claim.uid:
        return problems.claim_gone(step.claim.name, _KIND)
    if claim.is_deleting:
        return problems.claim_being_deleted(step.claim.name, _KIND)
    if claim.is_allocated and not step.allocation and (why := broken(ledger, claim)):
        return why
    if step.state is not StepState.WRITTEN or step.order is None:
        return ""
    is_shown = 0 < step.version <= claim.version
    if is_shown and not (claim.is_allocated and claim.has == step.has and step.order.pod.uid in claim.reserved):
        return device_problems.reservation_lost(step.claim.name)
    if claim.is_allocated and claim.has == step.has:
        return broken(ledger, claim) or claim.binding
    return "" if step.has_conditions else None


def undo(ledger: Ledger, out: Outcome, command: ReserveClaim) -> None:
    """Takes the reservation back; also an allocation by Muster, if no other pod waits for the claim.

    An allocation whose devices failed is removed in any case. None is removed while another pod has it reserved.
    """
    key = command.claim.key
    claim, is_awaited = ledger.devices.claims.get(key), device_key(key) in ledger.storage.waiting
    is_broken = claim is not None and bool(broken(ledger, claim))
    is_ours = bool(command.allocation) or (claim is not None and claim.is_ours)
    keeps = not is_broken and (is_awaited or not is_ours)
    _undo(ledger, out, ReserveClaim(command.pod, command.claim, command.allocation, undo=True, keeps=keeps))


def _undo(ledger: Ledger, out: Outcome, command: ReserveClaim) -> None:
    out.commands.append(command)
    if not command.keeps:
        ledger.devices.undoing.setdefault(command.claim.key, set()).add(command.pod.uid)
        _report(ledger, out, command.claim.key)


def undone(ledger: Ledger, out: Outcome, command: ReserveClaim) -> None:
    """A command of `undo` has a result. The watch has shown what it wrote."""
    undoing = ledger.devices.undoing.get(command.claim.key, set())
    if not command.keeps:
        undoing.discard(command.pod.uid)
    if not undoing:
        all_undone(ledger, out, command.claim.key)


def all_undone(ledger: Ledger, out: Outcome, key: str) -> None:
    """No command of `undo` is without a result, or their results are lost: the claim can be planned again."""
    ledger.devices.undoing.pop(key, None)
    _report(ledger, out, key)


# -- devices that are not ready ---------------------------------------------------------------------------------------

#: Maximum number of doublings of the pause after a failure, which begins with one second.
_MOST_DOUBLINGS: Final = 6


def broken(ledger: Ledger, claim: DeviceClaim) -> str:
    """Why no pod can be bound with the allocated devices of the claim; empty = it can, or it is not known yet."""
    if claim.binding:
        return device_problems.binding_failed(claim.binding)
    if claim.binding is not None and ledger.devices.expired.get(claim.ref.key) == claim.allocated_s:
        return device_problems.devices_not_ready(ledger.settings.volume_bind_s, claim.ref.name)
    return ""


def until(ledger: Ledger, steps: Iterable[Step], now: float) -> float:
    """When the wait for the claims ends. The time of devices began with their allocation, maybe before a restart."""
    claims = (ledger.devices.claims.get(step.claim.key) for step in steps if isinstance(step, DeviceStep))
    begun = (claim.allocated_s for claim in claims if claim is not None and claim.binding == "" and claim.allocated_s)
    return min([now, *(at - ledger.epoch_s for at in begun)]) + ledger.settings.volume_bind_s


def expire(ledger: Ledger, step: DeviceStep) -> None:
    """The devices of the step were not ready in time."""
    claim = ledger.devices.claims.get(step.claim.key)
    if claim is not None and claim.is_allocated and claim.binding == "":
        ledger.devices.expired[claim.ref.key] = claim.allocated_s


def fail(ledger: Ledger, out: Outcome, steps: Iterable[Step], now: float, otherwise: str) -> None:
    """A pod is not bound: claims whose devices failed are not planned again before a pause, which doubles.

    ``otherwise``: why the others are not either; empty = they are planned again at once.
    """
    for step in steps:
        claim = ledger.devices.claims.get(step.claim.key) if isinstance(step, DeviceStep) else None
        if claim is None or not (why := broken(ledger, claim) or otherwise):
            continue
        failure = ledger.devices.failures.setdefault(claim.ref.key, DeviceFailure())
        if failure.until <= now:
            failure.until = now + 2.0 ** min(failure.count, _MOST_DOUBLINGS)
            failure.count, failure.why = failure.count + 1, why
            set_timer(ledger, Deadline(failure.until, TimerKind.CLAIM, AppId(claim.ref.key)))
        _report(ledger, out, claim.ref.key)


def pause_ended(ledger: Ledger, out: Outcome, key: str) -> None:
    """Timer: the claim can be planned again."""
    ledger.devices.failures[key].until = 0.0
    _report(ledger, out, key)


def _report(ledger: Ledger, out: Outcome, key: str) -> None:
    """Reports the claim to the core if it has changed for it."""
    claim = ledger.devices.claims.get(key)
    found = None if claim is None else _reported(ledger, claim)
    if found is not None and ledger.objects.get((found.kind, found.name)) != found:
        ledger.objects[found.kind, found.name] = found
        out.requests.append(ClusterObjectReported(found))


def _reported(ledger: Ledger, claim: DeviceClaim) -> ClusterObject:
    key, failure = claim.ref.key, ledger.devices.failures.get(claim.ref.key)
    why = broken(ledger, claim) or (failure.why if failure is not None and failure.until else "")
    if not why and key in ledger.devices.undoing:
        why = device_problems.devices_taken_back()
    return unusable(claim.reported, why) if why else claim.reported


def session_begins(ledger: Ledger) -> None:
    """Forgets what only the earlier session waited for."""
    devices = ledger.devices
    paused = {*devices.undoing, *devices.failures}
    devices.undoing.clear()
    devices.failures.clear()
    for claim in (devices.claims[key] for key in paused if key in devices.claims):
        found = _reported(ledger, claim)
        ledger.objects[found.kind, found.name] = found


def give_up_broken(ledger: Ledger, out: Outcome) -> None:
    """A session is live: removes the allocations that failed meanwhile."""
    for claim in leftovers(ledger):
        if broken(ledger, claim):
            deallocate(ledger, out, claim)


# -- leftovers --------------------------------------------------------------------------------------------------------


def leftovers(ledger: Ledger) -> Iterator[DeviceClaim]:
    """Allocated claims that no pod uses: reserved for no pod, or only for pods that wait for a node.

    An operator was stopped between allocation and bind, or a reservation of an allocated claim was undone. A claim that
    Muster did not allocate is one only if its devices failed and a pod of Muster names it.
    """
    for key, claim in ledger.devices.claims.items():
        is_ours = claim.is_ours or (key in ledger.devices.users and broken(ledger, claim))
        is_used = device_key(key) in ledger.storage.waiting or not all(_waits(ledger, uid) for uid in claim.reserved)
        if is_ours and claim.is_allocated and not claim.is_deleting and not is_used:
            yield claim


def _waits(ledger: Ledger, uid: str) -> bool:
    task = ledger.tasks.get(PodUid(uid))
    return task is not None and task.state is TaskState.SCHEDULING


def deallocate(ledger: Ledger, out: Outcome, claim: DeviceClaim) -> None:
    """Takes back the allocation of a leftover, so that the core can allocate its devices again."""
    for uid in claim.reserved or ("",):
        _undo(ledger, out, ReserveClaim(PodRef(claim.ref.namespace, "", PodUid(uid)), claim.ref, "", undo=True))
