"""What can be wrong inside the operator.

OperatorError
├── ImpossibleTransitionError  a life cycle was driven where its table has no row: a bug
└── BadInputError              something a person wrote cannot be used: names the field, the problem and the fix
"""

from __future__ import annotations


class OperatorError(Exception):
    """Root of this package's errors."""


class ImpossibleTransitionError(OperatorError):
    """A state table has no row for this pair."""

    def __init__(self, state: str, event: str, subject: str = "") -> None:
        super().__init__(f"no transition from {state} on {event}" + (f" ({subject})" if subject else ""))
        self.state = state
        self.event = event
        self.subject = subject


class BadInputError(OperatorError):
    """A field of an annotation or object cannot be used.

    Raised inside ``translate`` and caught at its border: the agent sees a value with the text.
    """

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix
