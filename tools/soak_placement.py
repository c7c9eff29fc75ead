"""Compares the placement of random pods in random clusters with kube-scheduler's own plugins (`make soak`).

    python -m tools.soak_placement --pairs 20000 --seed 7

Each round has its own seed, counted up from the first. The first difference is shrunk and printed with the seed that
reproduces it.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.conformance.kube_scheduler import KubeScheduler
from tests.conformance.rounds import Different, Tally, clusters_of, compare

_PAIRS_OF_A_ROUND = 4000


def main() -> int:
    """Compare the requested number of pairs. Returns 1 if one differs."""
    parser = argparse.ArgumentParser(prog="soak_placement", description="compare placements with kube-scheduler's")
    parser.add_argument("--pairs", type=int, default=20_000, help="minimal number of pairs")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first round (default: random; printed)")
    options = parser.parse_args()
    number = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    tally = Tally()
    with KubeScheduler() as kube_scheduler:
        while tally.pairs < options.pairs:
            try:
                for scenario, clusters in clusters_of(min(_PAIRS_OF_A_ROUND, options.pairs)).items():
                    compare(kube_scheduler, scenario, clusters, number, tally)
            except Different as different:
                again = f"python -m tools.soak_placement --pairs {options.pairs} --seed {number}"
                print(f"{different}\nafter {tally.pairs} equal pairs; reproduce: {again}", file=sys.stderr, flush=True)
                return 1
            print(f"seed {number}: {tally.pairs} of {options.pairs} pairs", flush=True)
            tally.kept.clear()
            number += 1
    for reason, count in tally.decided.most_common():
        print(f"{count:8} {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
