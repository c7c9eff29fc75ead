"""The sizes of a round."""

from __future__ import annotations

from dataclasses import dataclass

SMALLEST_PAGE = 40
PAGES = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """How much: ``episodes`` are kills; ``gang`` and ``single`` pods are spread over them.

    ``settle_s``: for the load to come to its end once the faults have stopped.
    """

    seed: int
    episodes: int
    gang: int
    single: int
    operators: int = 1
    settle_s: float = 240.0
    nodes: int = 10
    node_cpu: int = 4

    @property
    def page(self) -> int:
        """Objects in a page of a list: small enough that every list has several pages, and some of them expire."""
        return max(SMALLEST_PAGE, (self.gang + self.single) // PAGES)

    @property
    def name(self) -> str:
        """Of its namespace, and of the folder of its logs."""
        return f"chaos-{self.seed}-{self.operators}"
