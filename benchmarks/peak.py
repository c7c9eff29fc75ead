"""The peak memory of this process."""

from pathlib import Path
from typing import Final

_FIELD: Final = "VmHWM:"


def peak_mib() -> float:
    """Return the peak resident memory in MiB. `ru_maxrss` cannot be used: it starts with the parent's value."""
    status = Path("/proc/self/status").read_text().splitlines()
    [found] = [line for line in status if line.startswith(_FIELD)]
    return int(found.split()[1]) / 1024
