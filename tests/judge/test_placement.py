"""Where a pod may go, and why it may not go elsewhere, is what kube-scheduler says: compared on random clusters.

`MUSTER_JUDGE_SEED` and `MUSTER_JUDGE_PAIRS` choose other pairs, and more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.judge.clusters import SHARES
from tests.judge.kube import Judge
from tests.judge.rounds import Different, Tally, clusters_of, compare

SEED = int(os.environ.get("MUSTER_JUDGE_SEED", "1"))
PAIRS = int(os.environ.get("MUSTER_JUDGE_PAIRS", "6000"))


@dataclass(slots=True)
class Round:
    """One round, and the theme's difference where there was one."""

    tally: Tally = field(default_factory=Tally)
    differences: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def judged() -> Iterator[Round]:
    found = Round()
    with Judge() as judge:
        for theme, clusters in clusters_of(PAIRS).items():
            try:
                compare(judge, theme, clusters, SEED, found.tally)
            except Different as difference:
                found.differences[theme] = str(difference)
        yield found


@pytest.mark.parametrize("theme", SHARES)
def test_a_pod_may_go_where_kube_scheduler_would_put_it_and_is_refused_with_its_words(
    judged: Round, theme: str
) -> None:
    if theme in judged.differences:
        pytest.fail(judged.differences[theme], pytrace=False)
