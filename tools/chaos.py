"""Tests Muster under API faults and killed processes (`make chaos`).

    python -m tools.chaos --episodes 200 --seed 7

An episode kills (-9) operator, core or API server, alone or together, under a load of gangs and single pods. A proxy
makes requests to the API server fail. At the end of a round of at most a hundred episodes, every pod must be scheduled
or rejected, and the state of operator and core must equal that of the cluster. Exit code 1: something was lost, leaked
or duplicated, or an error was not handled. The last lines name it and the seed that reproduces it.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import statistics
import sys
from pathlib import Path

from devcluster import muster, signals
from devcluster.cluster import Cluster, running
from devcluster.flavour import Flavour
from tests.e2e.faults.campaign import NotRecovered, Result, run_campaign
from tests.e2e.faults.plan import Plan

ROUND = 100
"""Episodes per round, with 500 pods in gangs and 500 single pods."""
POD_SHARE = 5
"""Pods in gangs, and single pods, per episode."""


def summary(result: Result) -> list[str]:
    """Return the result of a round as lines of text."""
    faults = ", ".join(f"{count} x {fault}" for fault, count in sorted(_by_fault(result).items()))
    kills = ", ".join(f"{victim} {count}" for victim, count in sorted(result.kills.items()))
    items = ", ".join(f"{count} x {kind}" for kind, count in sorted(result.items.items()))
    counted = ", ".join(f"{what} {count}" for what, count in sorted(result.counted.items()))
    waits = result.recovery_s or [0.0]
    return [
        f"seed {result.plan.seed}: {result.plan.episodes} episodes in {result.seconds:.0f} s, {result.pods} pods",
        f"  items: {items}",
        f"  {result.requests.total()} requests of the operator; {result.faults.total()} faults: {faults}",
        f"  kills: {kills}; of these {result.again} during a recovery",
        f"  recovered after a kill: median {statistics.median(waits):.1f} s, at most {max(waits):.1f} s",
        f"  operator: {counted}",
        f"  violations: {len(result.violations)}",
        *(f"    {words}" for words in result.violations),
    ]


def _by_fault(result: Result) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, fault), count in result.faults.items():
        found[fault] = found.get(fault, 0) + count
    return found


async def chaos(episodes: int, seed: int, operators: int | None, keep: Path | None) -> int:
    """Run all rounds on one cluster and return the exit code. ``keep``: folder for the logs after a failure."""
    async with running(which=Flavour.LOCAL, readable=True) as cluster, muster.installed(cluster):
        done = rounds = 0
        while done < episodes:
            count = min(ROUND, episodes - done)
            pair = operators or 1 + rounds % 2
            plan = Plan(seed, count, gang=POD_SHARE * count, single=POD_SHARE * count, operators=pair)
            try:
                result = await run_campaign(cluster, plan, lambda words: print(words, flush=True))
            except NotRecovered as error:
                print(error, flush=True)
                _report(cluster, plan, keep)
                return 1
            print("\n".join(summary(result)), flush=True)
            if result.violations:
                _report(cluster, plan, keep)
                return 1
            done, rounds, seed = done + count, rounds + 1, seed + 1
    print(f"{done} episodes: nothing lost, leaked or duplicated")
    return 0


def _report(cluster: Cluster, plan: Plan, keep: Path | None) -> None:
    """Print how to reproduce the failure, and copy the logs."""
    print(f"reproduce: make chaos N={plan.episodes} SEED={plan.seed} OPERATORS={plan.operators}", file=sys.stderr)
    if keep is not None:
        target = keep / plan.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(cluster.folder / plan.name, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
        shutil.copy(cluster.folder / "audit.jsonl", target)
        print(f"logs of operator and core, and the audit log: {target}", file=sys.stderr)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="chaos", description="Muster under faults and kills")
    parser.add_argument("--episodes", type=int, default=200, help="number of episodes: kills, or pairs of kills")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first round (default: random; printed)")
    parser.add_argument(
        "--operators", type=int, default=None, help="number of operators (default: alternating one, two)"
    )
    parser.add_argument("--keep", type=Path, default=None, help="folder for the logs of a failed run")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    return signals.run(chaos(options.episodes, seed, options.operators, options.keep))


if __name__ == "__main__":
    raise SystemExit(main())
