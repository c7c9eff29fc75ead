"""Facts of storage: kept, told to the core, and heard by the pods whose claims are on their way.

What a node can attach and has attached is told as attributes of the node (``muster_si.keys``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import orjson

from muster_operator.agent import mounting, objects
from muster_operator.agent.ledger import Ledger
from muster_operator.model.facts import (
    AttachmentGone,
    AttachmentSeen,
    ClaimGone,
    ClaimSeen,
    DriversSeen,
    StorageFact,
    VolumeGone,
    VolumeSeen,
)
from muster_operator.model.ids import NodeName
from muster_operator.model.news import NodeUpdated
from muster_operator.model.nodes import Node
from muster_operator.model.objects import ClusterObject, ObjectKind
from muster_operator.model.outcome import Outcome
from muster_operator.model.storage import Attachment
from muster_si import keys


def record(ledger: Ledger, fact: StorageFact) -> None:
    """Keep what Kubernetes shows, without any consequence."""
    storage = ledger.storage
    match fact:
        case VolumeSeen(volume):
            storage.volumes[volume.name] = volume
        case VolumeGone(name):
            storage.volumes.pop(name, None)
        case ClaimSeen(claim):
            storage.claims[claim.ref.key] = claim
        case ClaimGone(key):
            storage.claims.pop(key, None)
        case DriversSeen(drivers) if drivers.limits:
            storage.drivers[drivers.node] = drivers
        case DriversSeen(drivers):
            storage.drivers.pop(drivers.node, None)
        case AttachmentSeen(attachment):
            _detach(ledger, attachment.name)
            storage.attachments[attachment.name] = attachment
            storage.attached_to[attachment.node][attachment.name] = attachment
            storage.holders[attachment.volume].add(attachment.name)
        case AttachmentGone(name):
            _detach(ledger, name)
    if (told := _told(fact)) is not None:
        objects.record(ledger, told)


def _detach(ledger: Ledger, name: str) -> None:
    storage = ledger.storage
    known = storage.attachments.pop(name, None)
    if known is None:
        return
    storage.attached_to[known.node].pop(name, None)
    storage.holders[known.volume].discard(name)
    if not storage.attached_to[known.node]:
        del storage.attached_to[known.node]
    if not storage.holders[known.volume]:
        del storage.holders[known.volume]


def _told(fact: StorageFact) -> ClusterObject | None:
    """What the core is told of it by itself."""
    match fact:
        case VolumeSeen(volume):
            return volume.told
        case VolumeGone(name):
            return ClusterObject(ObjectKind.VOLUME, name, gone=True)
        case ClaimSeen(claim):
            return claim.told
        case ClaimGone(key):
            return ClusterObject(ObjectKind.CLAIM, key, gone=True)
        case _:
            return None


def seen(ledger: Ledger, out: Outcome, fact: StorageFact, now: float) -> None:
    """The core hears what is new to it, of itself or of nodes, and pods that wait for it go on."""
    nodes = _nodes_of(ledger, fact)
    before = {node.name: as_told(ledger, node) for node in nodes}
    told = _told(fact)
    if told is not None:
        objects.seen(ledger, out, told)
    record(ledger, fact)
    for node in nodes:
        if (after := as_told(ledger, node)) != before[node.name]:
            out.news.append(NodeUpdated(after))
    for name in _heard_by(fact):
        mounting.heard(ledger, out, name, now)


def _heard_by(fact: StorageFact) -> list[str]:
    """Who waits for one of these hears of it: a volume that was made is known by the claim that it is for."""
    match fact:
        case VolumeSeen(volume):
            return [volume.name, volume.claim.key] if volume.claim is not None else [volume.name]
        case VolumeGone(name):
            return [name]
        case ClaimSeen(claim):
            return [claim.ref.key]
        case ClaimGone(key):
            return [key]
        case _:
            return []


def _nodes_of(ledger: Ledger, fact: StorageFact) -> list[Node]:
    """The nodes whose attributes may be others now."""
    storage = ledger.storage
    match fact:
        case DriversSeen(drivers):
            names = {drivers.node}
        case AttachmentSeen(attachment):
            names = {attachment.node, *_node_of(ledger, attachment.name)}
        case AttachmentGone(name):
            names = set(_node_of(ledger, name))
        case VolumeSeen(volume):
            names = {storage.attachments[name].node for name in storage.holders.get(volume.name, ())}
        case VolumeGone(name):
            names = {storage.attachments[held].node for held in storage.holders.get(name, ())}
        case _:
            names = set[NodeName]()
    return [ledger.nodes[name] for name in sorted(names) if name in ledger.nodes]


def _node_of(ledger: Ledger, attachment: str) -> list[NodeName]:
    known = ledger.storage.attachments.get(attachment)
    return [known.node] if known is not None else []


def as_told(ledger: Ledger, node: Node) -> Node:
    """The node with what its drivers can attach and have attached."""
    storage, attributes = ledger.storage, {}
    if (drivers := storage.drivers.get(node.name)) is not None:
        attributes[keys.NODE_VOLUME_LIMITS] = drivers.limits
        if drivers.migrated:
            attributes[keys.NODE_MIGRATED] = drivers.migrated
    if attached := _attached(ledger, storage.attached_to.get(node.name, {})):
        attributes[keys.NODE_ATTACHED] = attached
    return replace(node, attributes={**node.attributes, **attributes}) if attributes else node


def _attached(ledger: Ledger, attachments: dict[str, Attachment]) -> str:
    """Handles by driver; a volume that is not there, or of no CSI driver, is not counted."""
    found: dict[str, set[str]] = defaultdict(set)
    for attachment in attachments.values():
        volume = ledger.storage.volumes.get(attachment.volume)
        if volume is not None and volume.handle:
            found[attachment.driver].add(volume.handle)
    sorted_handles = {driver: sorted(handles) for driver, handles in found.items()}
    return orjson.dumps(sorted_handles, option=orjson.OPT_SORT_KEYS).decode() if found else ""
