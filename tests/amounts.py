"""How much the random and the exhaustive tests run: a fixed part in `make test`, and all of it in `make soak`.

`make soak` sets MUSTER_TESTS=thorough and selects the tests of Hypothesis and those marked `thorough`.
"""

import os
from typing import Final

IS_THOROUGH: Final = os.environ.get("MUSTER_TESTS") == "thorough"


def amount(usual: int, thorough: int) -> int:
    """How many random numbers, pairs or steps this run takes."""
    return thorough if IS_THOROUGH else usual
