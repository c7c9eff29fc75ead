"""Random events against the core's invariants for as long as one likes (`make soak`).

    python -m tools.soak --events 100000 --seed 7

Runs in rounds, each with a seed of its own, counted up from the first. What
breaks is shrunk and printed, with the seed that finds it again at once.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.unit.core.engine.randomly.rounds import run_round


def main() -> int:
    """Tell so many events; 1 if something broke."""
    parser = argparse.ArgumentParser(prog="soak", description="random events against the core's invariants")
    parser.add_argument("--events", type=int, default=100_000, help="how many, at least")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; printed, chosen if not given")
    options = parser.parse_args()
    number = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    told = 0
    while told < options.events:
        try:
            told += run_round(number)
        except BaseException:
            print(f"broken after {told} events; once more: make soak SEED={number}", file=sys.stderr, flush=True)
            raise
        print(f"seed {number}: {told} of {options.events} events", flush=True)
        number += 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
