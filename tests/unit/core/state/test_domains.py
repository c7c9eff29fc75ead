"""Cells of several topology keys: rows share a cell exactly if they are in the same domains."""

from __future__ import annotations

import numpy as np

from muster_core.state.nodes import Cells, Domains


def test_rows_in_different_domains_never_share_a_cell_however_many_keys_are_combined() -> None:
    size, values = 4096, 1023
    codes = {f"key{index}": np.zeros(size, dtype=np.int32) for index in range(7)}
    for column in codes.values():
        column[:values] = np.arange(values)  # so that each key has so many values
        column[values:] = 0
    # The first of seven keys weighs 2**60: 16 of it are 0 in 64 bits.
    codes["key0"][-1] = 16
    cells = Cells({key: Domains(column) for key, column in codes.items()}, size)
    assert cells.of[-1] != cells.of[-2]
    assert cells.of[-2] == cells.of[-3]
    assert cells.count == values + 1
