"""The sizes of a round."""

from dataclasses import dataclass

SMALLEST_PAGE = 40
PAGES = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes: ``episodes`` are kills; ``gang`` and ``single`` pods are distributed over them.

    ``finish_s``: time for the load to finish after the faults have stopped.
    """

    seed: int
    episodes: int
    gang: int
    single: int
    operators: int = 1
    finish_s: float = 240.0
    nodes: int = 10
    node_cpu: int = 4

    @property
    def page(self) -> int:
        """Objects per page of a list: small enough that every list has several pages, of which some expire."""
        return max(SMALLEST_PAGE, (self.gang + self.single) // PAGES)

    @property
    def name(self) -> str:
        """Name of its namespace and of its log folder."""
        return f"chaos-{self.seed}-{self.operators}"
