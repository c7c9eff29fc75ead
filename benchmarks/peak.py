"""The memory of this process."""

from pathlib import Path


def peak_mib() -> float:
    """Return the peak resident memory in MiB. `ru_maxrss` cannot be used: it starts with the parent's value."""
    return _mib("VmHWM:")


def resident_mib() -> float:
    """Return the resident memory in MiB."""
    return _mib("VmRSS:")


def _mib(field: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(field)[2].split()[0]) / 1024
