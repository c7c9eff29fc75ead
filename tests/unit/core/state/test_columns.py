"""Memory limits of cached results for all nodes."""

from __future__ import annotations

import pytest

from muster_core.state.columns import most_kept


@pytest.mark.parametrize("rows, each", [(15_000, 8), (100_000, 8), (15_000, 7)])
def test_a_large_cluster_caches_fewer_results_to_stay_within_128_mib(rows: int, each: int) -> None:
    assert 100 < most_kept(rows, each) <= 128 * 2**20 / (rows * each)


def test_a_small_or_empty_cluster_caches_4096_results() -> None:
    assert most_kept(500, 8) == most_kept(0, 8) == 4096
