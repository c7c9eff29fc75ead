"""Isolation of items that cannot be encoded, so that the rest of their message is sent.

Bound pods and nodes with pods are sent with their resources only. Other items are rejected as if by the core, so that
the pod, application or node gets the event of a rejection. Called by `si/session` after an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import structlog
from msgspec import structs

from muster_operator.model import problems
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AllocationSpec,
    ApplicationSubmitted,
    AskReleased,
    AskSubmitted,
    ClusterObjectReported,
    CoreRequest,
    NodeCreated,
    NodeUpdated,
)
from muster_operator.model.ids import Resources
from muster_operator.si.codec import UNENCODABLE, Batch, EncodedRequest, Encoder
from muster_si import keys, si_pb2

log = structlog.get_logger("muster.core")

#: Tags of a bound pod that are sent with its resources.
_COUNTED: Final = (keys.TAG_FOREIGN, keys.TAG_ALLOCATED_AT, keys.TAG_UNVERIFIED)

#: Maximum of an amount that the core accepts.
_MOST: Final = 2**62
Refusal = si_pb2.AllocationResponse | si_pb2.ApplicationResponse | si_pb2.NodeResponse


@dataclass(slots=True)
class EncodableBatch:
    """The part of a batch that can be encoded. ``refused``: rejections of the other items."""

    encoder: Encoder
    refused: list[Refusal] = field(default_factory=list)

    def message(self, batch: Batch) -> EncodedRequest:
        """Encodes the batch without the items that cannot be encoded.

        Raises the encoder's exception for an item that cannot be rejected: a release, or an action on a node.
        """
        kept = tuple(item for found in batch.requests if (item := self._kept(batch, found)) is not None)
        return self.encoder.encoded_as(batch.stream, kept, is_counted=batch.is_counted)

    def _kept(self, batch: Batch, item: CoreRequest) -> CoreRequest | None:
        error = self._error(batch, item)
        if error is None:
            return item
        log.error("an item cannot be sent to the core", item=type(item).__name__, exc_info=error)
        for reduced in self._reduced(batch, item):
            if self._error(batch, reduced) is None:
                return reduced
        self._refuse(item, problems.not_sent(type(error).__name__), error)
        return None

    def _error(self, batch: Batch, item: CoreRequest) -> Exception | None:
        try:
            self.encoder.encoded_as(batch.stream, (item,), is_counted=batch.is_counted)
        except UNENCODABLE as error:
            return error
        return None

    def _reduced(self, batch: Batch, item: CoreRequest) -> Iterator[CoreRequest]:
        """Reduced variants of the item that still have all its resources."""
        match item:
            case AllocationReported(allocation):
                yield AllocationReported(_bare(allocation))
            case NodeCreated(existing=existing) | NodeUpdated(existing=existing):
                reported = (self._kept(batch, AllocationReported(one)) for one in existing)
                left = tuple(one.allocation for one in reported if isinstance(one, AllocationReported))
                yield structs.replace(item, existing=left)
            case AllocationReleased() | AskReleased():
                yield structs.replace(item, message="")
            case _:
                return

    def _refuse(self, item: CoreRequest, reason: str, error: Exception) -> None:
        match item:
            case AskSubmitted(ask):
                no = si_pb2.RejectedAllocationAsk(allocationKey=ask.key, applicationID=ask.app or "", reason=reason)
                self.refused.append(si_pb2.AllocationResponse(rejected=[no]))
            case AllocationReported(allocation):
                ask = allocation.ask
                gone = si_pb2.RejectedAllocation(allocationKey=ask.key, applicationID=ask.app or "", reason=reason)
                self.refused.append(si_pb2.AllocationResponse(rejectedAllocations=[gone]))
            case ApplicationSubmitted(spec):
                if keys.APP_TAG_RENEWAL not in spec.tags:
                    never = si_pb2.RejectedApplication(applicationID=spec.app, reason=reason)
                    self.refused.append(si_pb2.ApplicationResponse(rejected=[never]))
            case NodeCreated(node):
                unknown = si_pb2.RejectedNode(nodeID=node.name, reason=reason)
                self.refused.append(si_pb2.NodeResponse(rejected=[unknown]))
            case NodeUpdated() | ClusterObjectReported():
                pass  # the core keeps its present state; the error was logged
            case _:
                raise error


def _bare(allocation: AllocationSpec) -> AllocationSpec:
    """The allocation with its resources only."""
    ask = allocation.ask
    tags = {tag: ask.tags[tag] for tag in _COUNTED if tag in ask.tags}
    return AllocationSpec(
        structs.replace(ask, tags=tags, common={}, resources=_countable(ask.resources)),
        allocation.node,
        allocation.allocation_id,
    )


def _countable(amounts: Resources) -> Resources:
    named = ((name.encode("utf-8", "replace").decode(), amount) for name, amount in amounts.items())
    return {name: max(-_MOST, min(amount, _MOST)) for name, amount in named}
