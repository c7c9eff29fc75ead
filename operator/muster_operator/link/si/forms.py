"""Asks of one class, as messages: one is made with care, the others are copies of it with what is their own.

To fill in a message from Python costs 5 us, most of it for the tags; to copy one and write two tags costs a quarter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster_operator.model.allocations import OWN_TAGS, AskSpec
from muster_si import si_pb2

#: Forms remembered; beyond it the memo starts anew.
_REMEMBERED: Final = 2048

_Kind = tuple[int, object, str, bool, bool, int, bool, bool]


class Forms:
    """`whole` makes the message of an ask. What it is made of is kept beside a form: no other object can get its id."""

    def __init__(self, whole: Callable[[AskSpec], si_pb2.AllocationAsk]) -> None:
        self._whole = whole
        self._known: dict[_Kind, tuple[AskSpec, si_pb2.AllocationAsk]] = {}

    def add(self, request: si_pb2.AllocationRequest, ask: AskSpec) -> None:
        """Add the ask to the request."""
        message = request.asks.add()
        if not ask.common:
            message.CopyFrom(self._whole(ask))
            return
        message.CopyFrom(self._form(ask))
        message.allocationKey = ask.key
        told, tags = ask.tags, message.tags
        for tag in OWN_TAGS:
            if tag in told:
                tags[tag] = told[tag]

    def _form(self, ask: AskSpec) -> si_pb2.AllocationAsk:
        kind = (
            id(ask.common),
            ask.app,
            ask.task_group,
            ask.placeholder,
            ask.originator,
            ask.priority,
            ask.allow_preempt_self,
            ask.allow_preempt_other,
        )
        known = self._known.get(kind)
        if known is None or known[0].resources != ask.resources:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            form = self._whole(ask)
            form.ClearField("tags")
            form.tags.update(ask.common)
            known = self._known[kind] = (ask, form)
        return known[1]
