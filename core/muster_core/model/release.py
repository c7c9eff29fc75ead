"""Why something ends: TerminationType of seed 003, as the core uses it."""

from __future__ import annotations

from enum import StrEnum


class Termination(StrEnum):
    """STOPPED_BY_RM is the resource manager's word, the others are the core's.

    The receiver confirms with the same type; a confirmation of the core's own
    word is never echoed (semantics 4).
    """

    STOPPED_BY_RM = "STOPPED_BY_RM"
    TIMEOUT = "TIMEOUT"
    PREEMPTED_BY_SCHEDULER = "PREEMPTED_BY_SCHEDULER"
    PLACEHOLDER_REPLACED = "PLACEHOLDER_REPLACED"
