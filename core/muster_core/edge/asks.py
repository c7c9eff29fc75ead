"""AllocationAsks → asks: those that differ in key, name and time alone are read once.

What a thousand pods of one job ask for is the same but for these three. An ask without them, as bytes, tells what it is
like; the first one is read carefully, and the others are it, with what is their own: 4 us instead of 14. Called by
si_decode.py; raises Unfit with the field's name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_core.edge import facts, fields, pod_facts
from muster_core.edge.facts import QUANTITY_LIMIT
from muster_core.edge.fields import Amounts, Partitions
from muster_core.edge.refusals import Unfit
from muster_core.model.specs import AskSpec
from muster_si import keys, si_pb2

_SECOND: Final = 1_000_000_000
#: Asks remembered that others may be like; beyond it the memo starts anew.
_REMEMBERED: Final = 2048
#: An ask of more bytes is like no other.
_LONGEST: Final = 16_384
#: What is each ask's own, beside its key.
OWN_TAGS: Final = (keys.TAG_POD_NAME, keys.TAG_CREATION_TIME)
#: What hangs on the name as well.
_OF_THE_NAME: Final = frozenset({keys.TAG_VOLUMES, keys.TAG_PLACEMENT})


class Asks:
    """Reads the asks of one resource manager."""

    def __init__(self, partitions: Partitions, amounts: Amounts) -> None:
        self._partitions, self._amounts = partitions, amounts
        self._known: dict[bytes, AskSpec] = {}

    def read(self, ask: si_pb2.AllocationAsk) -> AskSpec:
        """What it says. The ask is as it was afterwards. Raises Unfit."""
        tags, key = ask.tags, ask.allocationKey
        name, created = tags.get(keys.TAG_POD_NAME), tags.get(keys.TAG_CREATION_TIME)
        if name is None or created is None or not key:
            return self._whole(ask)
        del tags[keys.TAG_POD_NAME], tags[keys.TAG_CREATION_TIME]
        ask.allocationKey = ""
        text = ask.SerializeToString()
        tags[keys.TAG_POD_NAME], tags[keys.TAG_CREATION_TIME], ask.allocationKey = name, created, key
        like = self._known.get(text)
        if like is None:
            found = self._whole(ask)
            return self._remembered(text, found) if _OF_THE_NAME.isdisjoint(found.tags) else found
        return _alike(like, key, name, created)

    def _remembered(self, text: bytes, found: AskSpec) -> AskSpec:
        """The same, as one that others may be like."""
        if len(text) > _LONGEST:
            return found
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        common = {tag: value for tag, value in found.tags.items() if tag not in OWN_TAGS}
        like = self._known[text] = replace(found, common=common)
        return like

    def _whole(self, ask: si_pb2.AllocationAsk) -> AskSpec:
        count = ask.maxAllocations
        if count <= 0:
            raise Unfit("maxAllocations", f"is not positive: {count}")
        amount = self._amounts.read(ask.resourceAsk, "resourceAsk")
        if count > 1 and any(each * count > QUANTITY_LIMIT for _, each in amount.items()):
            raise Unfit("resourceAsk", f"is absurd when taken {count} times")
        tags = fields.tags(ask.tags, "tags")
        group = fields.group(ask.taskGroupName)
        itself, others = fields.preemption(ask)
        return AskSpec(
            partition=self._partitions.find(ask.partitionName),
            application=fields.application_id(ask.applicationID),
            key=fields.allocation_key(ask.allocationKey),
            resources=amount,
            constraints=fields.constraints(tags),
            group=group,
            placeholder=ask.placeholder and bool(group),  # seed 003: ignored without a task group
            originator=ask.Originator,
            priority=ask.priority,
            max_allocations=count,
            timeout_ns=facts.span_ns(ask.executionTimeoutMilliSeconds, "executionTimeoutMilliSeconds"),
            namespace=tags.get(keys.TAG_NAMESPACE, ""),
            tags=tags,
            avoid=fields.nodes_to_avoid(tags),
            required_node=fields.required_node(tags),
            placement=fields.placement(tags),
            facts=pod_facts.read(tags),
            allow_preempt_self=itself,
            allow_preempt_other=others,
            created_ns=fields.moment(tags, keys.TAG_CREATION_TIME, _SECOND),
        )


def _alike(like: AskSpec, key: str, name: str, created: str) -> AskSpec:
    """One that differs from it in these. Raises Unfit."""
    tags = {**like.common, keys.TAG_POD_NAME: name, keys.TAG_CREATION_TIME: created}
    return AskSpec(
        like.partition,
        like.application,
        fields.allocation_key(key),
        like.resources,
        like.constraints,
        like.group,
        like.placeholder,
        like.podless,
        like.originator,
        like.priority,
        like.max_allocations,
        like.timeout_ns,
        like.namespace,
        tags,
        like.avoid,
        like.required_node,
        like.placement,
        like.facts,
        like.allow_preempt_self,
        like.allow_preempt_other,
        fields.moment(tags, keys.TAG_CREATION_TIME, _SECOND),
        like.common,
    )
