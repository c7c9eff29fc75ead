"""Sends the reasons of waiting requests again when the number of nodes, or a reason that they name, has changed.

Texts change in steps of `REFRESH_STEP_NS`. A step evaluates a bounded number of classes and sends as many messages as
`REFRESHES_PER_S` allows on average. One text is not sent again before `REFRESH_NS`, so changes in between are left out.
Requests that share a text get it one after the other; those of a gang that reserves all at once, because its members
and placeholders must not contradict each other. The scheduling cycle calls `step` at its end.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.events import Timer, TimerKind
from muster_core.model.limits import LOOKS_PER_ATTEMPT, REFRESH_NS, REFRESH_STEP_NS, REFRESHES_PER_S
from muster_core.placement import node_search
from muster_core.scheduling import reporting
from muster_core.state.applications import Application
from muster_core.state.reported_texts import ReportedText, ReportedTexts, TextKey
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import Snapshot, shape_of

#: Applications whose classes one step lists, classes that it compares, and texts that it checks for being due.
_APPLICATIONS: Final = 1024
_CLASSES: Final = 1024
_TEXTS: Final = 64

_MESSAGE_NS: Final = 1_000_000_000 // REFRESHES_PER_S
_MESSAGES_PER_STEP: Final = REFRESHES_PER_S * REFRESH_STEP_NS // 1_000_000_000


def step(partition: Partition, now_ns: int) -> bool:
    """Searches for texts that are out of date and sends some of the new ones. Sets the timer of the next step.

    Returns whether a gang is to be planned again.
    """
    texts = partition.texts
    if not partition.waiting:
        partition.texts = ReportedTexts(partition.nodes.facts_epoch)
        return False
    has_woken = False
    if now_ns >= texts.step_at_ns:
        texts.step_at_ns = now_ns + REFRESH_STEP_NS
        has_woken = _search(partition, now_ns)
        _send(partition, now_ns)
    if texts.is_any(partition.nodes.facts_epoch) and not texts.timer:
        is_open = texts.stale or texts.is_searching
        at_ns = texts.step_at_ns if is_open else max(texts.step_at_ns, texts.search_at_ns)
        texts.timer = partition.start_timer(TimerKind.REFRESH, at_ns)
    return has_woken


def on_timer(partition: Partition, timer: Timer) -> None:
    """Allows the next step. The cycle that follows does it."""
    if timer.generation == partition.texts.timer:
        partition.texts.timer = 0


def _search(partition: Partition, now_ns: int) -> bool:
    """Compares the reasons of waiting classes with those on the present nodes, some classes per step.

    A gang is planned again instead, because its reason is about all its members. Returns whether there is one.
    """
    texts, nodes = partition.texts, partition.nodes
    has_woken = False
    if not texts.is_searching and texts.searched_epoch != nodes.facts_epoch and now_ns >= texts.search_at_ns:
        texts.searched_epoch, texts.search_at_ns = nodes.facts_epoch, now_ns + REFRESH_NS
        texts.applications.extend(texts.refused)
    for _ in range(min(len(texts.applications), _APPLICATIONS) if len(texts.to_search) < _CLASSES else 0):
        app = partition.applications.get(name := texts.applications.popleft())
        if app is None or not app.refusals:
            texts.refused.pop(name, None)
        else:
            texts.to_search.extend((name, kind) for kind in app.refusals)
            if len(texts.to_search) >= _CLASSES:
                break
    looks = LOOKS_PER_ATTEMPT
    for _ in range(min(len(texts.to_search), _CLASSES)):
        name, kind = texts.to_search[0]
        app = partition.applications.get(name)
        known = app.refusals.get(kind) if app is not None else None
        if app is not None and known is not None and known.kind is ReasonKind.NODES and known.counts:
            if kind not in texts.reasons or app.is_reserving:
                if not looks:
                    return has_woken
                looks -= 1
            _compare(partition, app, kind, known, now_ns)
            has_woken = has_woken or app.is_reserving
        texts.to_search.popleft()
    if not texts.is_searching:
        texts.reasons = {}
    return has_woken


def _compare(partition: Partition, app: Application, kind: AskClass, known: UnschedulableReason, now_ns: int) -> None:
    """Computes the reason of a class again."""
    reasons = partition.texts.reasons
    found = reasons.get(kind)
    if found is None:
        found = reasons[kind] = node_search.unschedulable_reason(Snapshot(partition.nodes), shape_of(kind))
        _update_class(partition, kind, found)
    if app.is_reserving:
        partition.scheduling.requeue(app)
        return
    if found.counts:
        why = replace(found, message=known.message) if known.message else found  # classes share one reason
        app.refuse(kind, why, now_ns)
        reporting.note_text(partition, app, kind, why)


def _update_class(partition: Partition, kind: AskClass, why: UnschedulableReason) -> None:
    """Updates the cached reason of a class. If some of its requests fit, the next plan counts them again.

    Gangs report that number, and the reason why no more fit next to them.
    """
    cached = partition.unschedulable_classes.get(kind)
    if cached is not None and cached.room:
        partition.unschedulable_classes.drop(kind)
        for entry in list(partition.blocking_reasons.about(kind).values()):
            partition.scheduling.open(entry)
    elif cached is not None:
        cached.why = why


def _send(partition: Partition, now_ns: int) -> None:
    texts = partition.texts
    texts.send_at_ns = max(texts.send_at_ns, now_ns)
    for name, key in list(islice(texts.stale, _TEXTS)):
        if texts.send_at_ns >= now_ns + REFRESH_STEP_NS:
            return
        del texts.stale[name, key]
        app = partition.applications.get(name)
        known = app.texts.get(key) if app is not None else None
        if app is None or known is None:
            continue
        if not known.left and known.newer is not None and now_ns >= known.sent_ns + REFRESH_NS:
            known.why, known.newer, known.sent_ns = known.newer, None, now_ns
            known.left = [ask for kind in reporting.classes_of_text(app, key) for ask in app.waiting[kind]][::-1]
        sent = _send_to(partition, app, key, known)
        texts.send_at_ns += sent * _MESSAGE_NS
        if known.left or known.newer is not None:
            texts.stale[name, key] = None


def _send_to(partition: Partition, app: Application, key: TextKey, known: ReportedText) -> int:
    """Sends the text to the next requests, to all of a gang. Returns the number of messages."""
    count = len(known.left) if not isinstance(key, AskClass) else _MESSAGES_PER_STEP
    keys, known.left = known.left[-count:][::-1], known.left[:-count]
    return reporting.report_again(partition, app, [app.asks[one] for one in keys if one in app.asks], known.why)
