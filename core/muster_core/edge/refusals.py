"""Why an item of a message, or a fact in its maps, cannot be taken: the edge's one error for it.

    Unfit      a field holds something that has no meaning here

Raised while decoding, caught where the item's Rejected* message is made; it
never leaves edge/.
"""

from __future__ import annotations


class Unfit(Exception):
    """`field` of an item is missing or out of bounds; `why` ends the sentence that names it."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why

    def inside(self, field: str) -> Unfit:
        """The same, seen from the field that holds this one."""
        return Unfit(f"{field}: {self.field}", self.why)
