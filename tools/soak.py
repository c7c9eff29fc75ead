"""Sends random events to the core and checks its invariants (`make soak`).

    python -m tools.soak --events 100000 --seed 7

Each round has its own seed, counted up from the first. A failure is shrunk and printed with the seed that reproduces
it. With `--clock`, each scheduling cycle has a real time budget. A failure is then not shrunk but kept as a journal.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback

from tests.unit.core.scheduling.random_events.rounds import journal_of, run_round


def main() -> int:
    """Send the requested number of events. Returns 1 after a failure."""
    parser = argparse.ArgumentParser(prog="soak", description="check the core's invariants with random events")
    parser.add_argument("--events", type=int, default=100_000, help="minimal number of events")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first round (default: random; printed)")
    parser.add_argument("--clock", action="store_true", help="give cycles a real time budget")
    parser.add_argument("--keep-going", action="store_true", help="continue with the next seed after a failure")
    options = parser.parse_args()
    number = first = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    events = cycles = faults = crashes = 0
    broken: list[int] = []
    while events < options.events and (options.keep_going or not broken):
        try:
            tally = run_round(number, time.perf_counter if options.clock else None)  # noqa: TID251 - as the loop does
        except Exception:  # noqa: BLE001 - printed, with its shrunk example
            broken.append(number)
            print(traceback.format_exc(), file=sys.stderr)
            kept = f"; journal: {journal_of(number)}" if options.clock else ""
            print(f"seed {number}: failed{kept}; reproduce: make soak SEED={number}", file=sys.stderr, flush=True)
        else:
            events, cycles = events + tally.events, cycles + tally.cycles
            faults, crashes = faults + tally.faults, crashes + tally.crashes
            print(f"seed {number}: {events} of {options.events} events", flush=True)
        number += 1
    print(
        f"seeds {first} to {number - 1}: {events} events, {cycles} cycles, {faults} injected exceptions, "
        f"{crashes} recoveries; failed seeds: {broken or 'none'}"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
