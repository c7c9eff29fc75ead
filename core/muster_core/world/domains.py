"""The nodes by their values of one label: what a term with a topology key counts by.

Made by plan/feasibility/topology.py when a key is first asked for, and thrown
away when a fact of nodes changes; the members of a value are looked up when
they are first asked for.
"""

from __future__ import annotations

import numpy as np

from muster_core.world.columns import CodeColumn, IntColumn


class Domains:
    """One topology key. `codes`: per row the number of its value, -1 = it lacks the label; `count`: numbers go up to
    here.
    """

    __slots__ = ("_members", "codes", "count")

    def __init__(self, codes: CodeColumn) -> None:
        self.codes: IntColumn = codes.astype(np.int64)
        self.codes.flags.writeable = False
        self.count = int(codes.max(initial=-1)) + 1
        self._members: list[IntColumn] = []

    def members(self, code: int) -> IntColumn:
        """The rows with this value."""
        if not self._members:
            order = np.argsort(self.codes, kind="stable")
            ends = np.searchsorted(self.codes[order], np.arange(self.count))
            self._members = np.split(order, ends)[1:]
        return self._members[code]
