"""Event handlers of Kubernetes objects.

`apply_event` updates the state and calls the handlers in `pods`, `nodes`, `applications` and `volume_binding`.
Results are requests to the core and commands for Kubernetes; nothing is sent from here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_operator.controller import applications, placeholders, pods, reporting, tasks, trust, volume_binding
from muster_operator.controller.nodes import node_gone, node_seen
from muster_operator.controller.state import ForeignAllocation, Ledger, Phase
from muster_operator.model import names
from muster_operator.model.cluster_events import (
    ClusterEvent,
    KeysSeen,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    PlacementChosen,
    PodGone,
    PodSeen,
    PriorityClassSeen,
)
from muster_operator.model.commands import Outcome
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import ForeignPod, Pod
from muster_operator.model.storage import ClusterObject, ObjectKind


def handle_event(ledger: Ledger, fact: ClusterEvent, now: float) -> Outcome:
    """Handles an event of a Kubernetes object. ``now``: seconds of a monotonic clock."""
    out = Outcome()
    apply_event(ledger, out, fact, now)
    return out


def apply_event(ledger: Ledger, out: Outcome, fact: ClusterEvent, now: float) -> None:
    """Handles an event according to the phase of the session, and adds the results to ``out``."""
    if ledger.phase is Phase.LIVE:
        _react(ledger, out, fact, now)
    elif ledger.phase is Phase.RECOVERING:
        ledger.postponed.append(fact)
    else:
        record_event(ledger, fact)


_UNREADABLE: Final = (
    "internal error: the pod cannot be read; it counts on its node with what can be read of its requests, and not in "
    "its application or queue; see the operator's log and report it"
)


def unreadable_seen(ledger: Ledger, out: Outcome, pod: ForeignPod, now: float) -> None:
    """Counts a bound pod that cannot be translated on its node. A pod that is known already stays as it is."""
    uid = pod.ref.uid
    if uid not in ledger.pods and uid not in ledger.tasks and uid not in ledger.foreign:
        reporting.warn(out, pod.ref, names.REASON_INTERNAL_ERROR, _UNREADABLE)
        apply_event(ledger, out, PodSeen(pod), now)


def record_event(ledger: Ledger, fact: ClusterEvent) -> None:
    """Updates the state. Sends nothing."""
    match fact:
        case PodSeen(pod):
            _record_pod(ledger, pod)
        case PodGone(uid):
            ledger.pods.pop(uid, None)
            ledger.unverified.discard(uid)
            ledger.served.pop(uid, None)
            _forget_foreign(ledger, uid)
            ledger.forget_deletion(uid)
        case NodeSeen(node):
            ledger.nodes[node.name] = node
        case NodeGone(name):
            ledger.nodes.pop(name, None)
        case NamespaceSeen() | NamespaceGone():
            _record_namespace(ledger, fact)
        case PriorityClassSeen(name, allow_preemption):
            ledger.priority_classes[name] = allow_preemption
        case ObjectSeen():
            volume_binding.record_object(ledger, fact.object)
        case PlacementChosen(placement):
            ledger.settings = replace(ledger.settings, gang_placement=placement)
        case KeysSeen(keys):
            ledger.keys = keys
        case _:
            volume_binding.record_storage(ledger, fact)


def _record_namespace(ledger: Ledger, fact: NamespaceSeen | NamespaceGone) -> None:
    match fact:
        case NamespaceSeen(namespace):
            ledger.namespaces[namespace.name] = namespace
        case NamespaceGone(name):
            ledger.namespaces.pop(name, None)
    volume_binding.record_object(ledger, _labels(fact))


def _labels(fact: NamespaceSeen | NamespaceGone) -> ClusterObject:
    """The namespace's labels as an object for the core's filters."""
    match fact:
        case NamespaceSeen(namespace):
            return ClusterObject(ObjectKind.NAMESPACE, namespace.name, namespace.labels)
        case NamespaceGone(name):
            return ClusterObject(ObjectKind.NAMESPACE, name, gone=True)


def _record_pod(ledger: Ledger, pod: Pod | ForeignPod) -> Pod | ForeignPod:
    """Records the pod and returns it with its placeholder signature verified.

    Pods that have ended hold no resources and are dropped, except our placeholders, which have to be deleted.
    """
    uid = pod.ref.uid
    if isinstance(pod, Pod):
        _forget_foreign(ledger, uid)  # an earlier version of the pod could not be translated
        pod = trust.settled(ledger, pod)
        if pod.has_ended and not pod.membership.placeholder and uid not in ledger.unverified:
            ledger.pods.pop(uid, None)
            placeholders.remember_completed(ledger, pod)
        else:
            ledger.pods[uid] = pod
    elif pod.has_ended:
        _forget_foreign(ledger, uid)
    elif uid in ledger.foreign:
        ledger.foreign_by_node.remove(uid, ledger.foreign[uid].pod.node)
        ledger.foreign_by_node.add(uid, pod.node)
        ledger.foreign[uid].pod = pod
    else:
        ledger.foreign_by_node.add(uid, pod.node)
        ledger.foreign[uid] = ForeignAllocation(pod)
    return pod


def _forget_foreign(ledger: Ledger, uid: PodUid) -> None:
    pod_on_node = ledger.foreign.pop(uid, None)
    if pod_on_node is not None:
        ledger.foreign_by_node.remove(uid, pod_on_node.pod.node)


def _react(ledger: Ledger, out: Outcome, fact: ClusterEvent, now: float) -> None:
    match fact:
        case PodSeen(pod):
            _pod_seen(ledger, out, pod, now)
        case PodGone(uid):
            _pod_gone(ledger, out, uid, now)
        case NodeSeen(node):
            old = ledger.nodes.get(node.name)
            record_event(ledger, fact)
            node_seen(ledger, out, old, node)
        case NodeGone(name):
            if name in ledger.nodes:
                record_event(ledger, fact)
                node_gone(ledger, out, name, now)
        case ObjectSeen():
            volume_binding.object_seen(ledger, out, fact.object)
        case NamespaceSeen() | NamespaceGone() | PriorityClassSeen():
            _react_around(ledger, out, fact, now)
        case PlacementChosen():
            record_event(ledger, fact)
        case KeysSeen():
            record_event(ledger, fact)
            _keys_seen(ledger, out, now)
        case _:
            volume_binding.storage_seen(ledger, out, fact, now)


def _react_around(
    ledger: Ledger, out: Outcome, fact: NamespaceSeen | NamespaceGone | PriorityClassSeen, now: float
) -> None:
    """Handles namespaces and priority classes."""
    match fact:
        case NamespaceSeen(namespace):
            before = ledger.namespaces.get(namespace.name)
            volume_binding.object_seen(ledger, out, _labels(fact))
            record_event(ledger, fact)
            applications.namespace_seen(ledger, out, before, namespace, now)
        case NamespaceGone():
            volume_binding.object_seen(ledger, out, _labels(fact))
            record_event(ledger, fact)
        case PriorityClassSeen(name, allow_preemption):
            was = ledger.priority_classes.get(name, True)
            record_event(ledger, fact)
            if was is not allow_preemption:
                pods.class_seen(ledger, out, name)


def _pod_seen(ledger: Ledger, out: Outcome, pod: Pod | ForeignPod, now: float) -> None:
    known = ledger.foreign.get(pod.ref.uid)
    pod = _record_pod(ledger, pod)
    if isinstance(pod, Pod):
        if known is not None:
            tasks.release_foreign(ledger, out, known)
        pods.own_pod_seen(ledger, out, pod, now)
    elif pod.has_ended and known is not None:
        tasks.release_foreign(ledger, out, known)
    else:
        tasks.foreign_seen(ledger, out, pod)


def _keys_seen(ledger: Ledger, out: Outcome, now: float) -> None:
    """Verifies placeholders again whose key was unknown, and creates placeholders that waited for a key."""
    for uid in list(ledger.unverified):
        pod = ledger.pods.get(uid)
        if pod is not None:
            pod = ledger.pods[uid] = trust.settled(ledger, pod)
            if uid not in ledger.unverified:
                task = ledger.tasks.get(uid)
                if task is not None and pod.membership.placeholder:  # it counted as a member
                    applications.task_ended(ledger, out, task, now)
                tasks.untracked_gone(ledger, out, uid)
                pods.own_pod_seen(ledger, out, pod, now)
    placeholders.keys_seen(ledger, out)


def _pod_gone(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    known = ledger.foreign.get(uid)
    record_event(ledger, PodGone(uid))
    if known is not None:
        tasks.release_foreign(ledger, out, known)
    pods.own_pod_gone(ledger, out, uid, now)
