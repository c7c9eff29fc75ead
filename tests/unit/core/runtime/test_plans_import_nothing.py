"""A plan imports no module: reading one from disk stops the scheduler for tens of milliseconds."""

import subprocess
import sys
from typing import Final

PLANS: Final = """
import sys
from benchmarks import core_shapes
known = set(sys.modules)
for name in core_shapes.WORKS:
    core_shapes.measured(name, 20, share=0.001)
print(*sorted(set(sys.modules) - known))
"""


def test_no_plan_imports_a_module() -> None:
    done = subprocess.run([sys.executable, "-c", PLANS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
