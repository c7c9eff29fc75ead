"""Uniform generation for Hypothesis: every example is drawn independently; failures are shrunk as usual.

Hypothesis itself repeats parts of earlier examples and prefers simple ones, which finds crashes sooner. But it would
create many duplicate pairs, and rarely pairs with reasons that need several conditions at the same time.
"""

from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

_NAME: Final = "evenly"


class _Evenly(HypothesisProvider):
    """Draws integers with a uniform distribution. Other types are not drawn here."""

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
    """Settings for this number of examples, which depend only on the seed."""
    return settings(
        backend=_NAME,
        max_examples=examples,
        phases=(Phase.generate, Phase.shrink),
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
