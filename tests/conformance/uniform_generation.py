"""Uniform generation for Hypothesis: every example is drawn independently; failures are shrunk as usual.

Hypothesis' own way repeats parts of earlier examples and prefers simple ones, which finds crashes sooner. Of pairs that
are to be counted it makes many twice, and reasons that need several things at once hardly ever.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

_NAME: Final = "evenly"


class _Evenly(HypothesisProvider):
    """Every whole number between two bounds is as likely as every other; nothing else is drawn here."""

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        if min_value is None or max_value is None or weights is not None or self._random is None:
            return super().draw_integer(min_value, max_value, weights=weights, shrink_towards=shrink_towards)
        return self._random.randint(min_value, max_value)


AVAILABLE_PROVIDERS[_NAME] = _Evenly


def evenly(examples: int) -> settings:
    """Settings for so many examples, told apart by nothing but their seed."""
    return settings(
        backend=_NAME,
        max_examples=examples,
        phases=(Phase.generate, Phase.shrink),
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
