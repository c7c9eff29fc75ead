"""The most memory that this process has had."""

from pathlib import Path
from typing import Final

_FIELD: Final = "VmHWM:"


def peak_mib() -> float:
    """MiB resident at most, of this program alone: `ru_maxrss` begins with what the process had that started it."""
    status = Path("/proc/self/status").read_text().splitlines()
    [found] = [line for line in status if line.startswith(_FIELD)]
    return int(found.split()[1]) / 1024
