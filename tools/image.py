"""Reduces and precompiles the Python environment of the image: ``python image.py ENVIRONMENT``.

Only the build stage of the Dockerfile runs it, with the environment's own Python and the standard library. The steps:

* ``drop`` deletes files that no process of Muster opens.
* ``strip`` removes symbols and line numbers for debuggers from native libraries. A slim image has no ``strip``.
* ``warm`` writes the bytecode of all modules that the three programs import. The root file system is read-only, so
  every start would compile about a thousand modules again.

tests/unit/tools/test_image_contents.py imports the product without the deleted files.
"""

from __future__ import annotations

import importlib
import pkgutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

PACKAGES = ("muster_si", "muster_core", "muster_operator", "muster")
LATER = (
    "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
"""Modules that the product imports on demand, not at startup."""

EXTRA = "opentelemetry"
"""The package of the extra ``tracing``, which the image has and other environments may not have."""

DROPPED = {
    "**/tests": "the libraries' own tests",
    "numpy/_core/_*_tests.*.so": "tests",
    "numpy/_core/_simd.*.so": "single vector instructions, for tests",
    "numpy/testing": "the library of tests",
    "**/*.pyi": "for type checkers",
    "**/*.p[xy][xd]": "for compilers",
    "**/*.[cha]": "for compilers",
    "numpy/f2py": "compiles Fortran",
    "numpy/fft": "loaded on demand and not used",
    "numpy/polynomial": "loaded on demand and not used",
    "numpy/random": "loaded on demand and not used",
    "ldap3/protocol/schemas": "schemas of directories without schema information",
    "pygments/lexers": "syntax highlighting, which Muster does not use",
}
"""Files and folders of site-packages that are deleted, and why Muster does not need them."""

KEPT = (
    "pygments/lexers/__init__.py",
    "pygments/lexers/_mapping.py",
)
"""Modules in these folders that their packages import at load time; they import others only on attribute access."""

ELF64_LITTLE = b"\x7fELF\x02\x01"
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")


def unneeded(packages: Path) -> set[Path]:
    """Return the files below site-packages to delete."""
    found = {path for pattern in DROPPED for path in packages.glob(pattern)}
    files = {file for path in found for file in (path.rglob("*") if path.is_dir() else [path]) if not file.is_dir()}
    return files - {packages / name for name in KEPT}


def mapped(library: bytes) -> bytes | None:
    """Return the library without the bytes after its last segment; None if there are none or it is not 64-bit ELF.

    The loader maps segments only. After the last one are symbols and line numbers for debuggers, and the section table.
    """
    if not library.startswith(ELF64_LITTLE):
        return None
    fields = list(HEADER.unpack_from(library))
    offset, size, count = fields[5], fields[9], fields[10]
    segments = [SEGMENT.unpack_from(library, offset + size * number) for number in range(count)]
    end = max([HEADER.size, offset + size * count, *(segment[2] + segment[5] for segment in segments)])
    if end >= len(library):
        return None
    fields[6] = fields[12] = fields[13] = 0  # section table: offset, count, index of names
    return HEADER.pack(*fields) + library[HEADER.size : end]


def drop(packages: Path) -> int:
    """Delete unneeded files. Returns the number of bytes saved."""
    return sum(_removed(path) for path in unneeded(packages))


def strip(libraries: Iterable[Path]) -> int:
    """Strip native libraries. Returns the number of bytes saved."""
    saved = 0
    for path in libraries:
        whole = path.read_bytes()
        part = mapped(whole)
        if part is not None:
            path.write_bytes(part)
            saved += len(whole) - len(part)
    return saved


def warm() -> int:
    """Import all modules of Muster and LATER, so that Python writes bytecode. Returns the number of modules."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                _load(module.name)
    for name in LATER:
        _load(name)
    return len(sys.modules)


def _load(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != EXTRA:
            raise


def _removed(path: Path) -> int:
    size = path.stat().st_size
    path.unlink()
    return size


def main(environment: Path) -> None:
    """Run the three steps and print their results."""
    (packages,) = environment.glob("lib/python3.*/site-packages")
    print(f"dropped {drop(packages) / 2**20:.1f} MiB of unused files")
    print(f"stripped {strip(packages.rglob('*.so*')) / 2**20:.1f} MiB from native libraries")
    print(f"compiled {warm()} modules")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
