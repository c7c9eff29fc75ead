"""What the image leaves out of its environment, and what it brings along: ``python image.py ENVIRONMENT``.

Only the Dockerfile runs it, in the stage that is thrown away, with the environment's own Python and nothing but the
standard library. Three steps, each of which tells what it saved:

* ``drop``: files that no process of ours ever opens.
* ``strip``: of native libraries what the loader does not map: symbols and line numbers for debuggers. There is no
  ``strip`` in a slim image, and nothing to get one with.
* ``warm``: bytecode of what the three programs import, the standard library's too, for the root is read-only and a
  start would compile some thousand modules anew.

tests/unit/repo/test_image_contents.py imports all of the product without what is dropped.
"""

from __future__ import annotations

import importlib
import pkgutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

PACKAGES = ("muster_si", "muster_core", "muster_operator", "muster")
LATER = ("kubernetes.client", "kubernetes.config", "kubernetes.stream.ws_client")
"""What is imported where it is needed, and not at the start."""

DROPPED = {
    "**/tests": "the libraries' own tests",
    "kubernetes/**/*_test.py": "the same",
    "numpy/_core/_*_tests.*.so": "the same",
    "numpy/_core/_simd.*.so": "vector instructions one by one, for the same",
    "numpy/testing": "what the same are written with",
    "**/*.pyi": "what type checkers read",
    "**/*.p[xy][xd]": "what compilers read",
    "**/*.[cha]": "the same",
    "numpy/f2py": "compiles Fortran",
    "numpy/fft": "loaded by who names it, and nothing here does",
    "numpy/polynomial": "the same",
    "numpy/random": "the same",
    "kubernetes/aio": "the client once more, for asyncio",
    "kubernetes/client/api": "a method for each path: requests go out by their path",
    "kubernetes/client/models": "a class for each kind: objects are read as plain JSON",
    "ldap3/protocol/schemas": "what directories are like that nobody asks",
    "pygments/lexers": "colours for source code, which nothing here prints",
}
"""Files and folders of site-packages, and why nobody misses them."""

KEPT = (
    "kubernetes/client/api/__init__.py",
    "kubernetes/client/models/__init__.py",
    "pygments/lexers/__init__.py",
    "pygments/lexers/_mapping.py",
)
"""Of those what is loaded with what is around it; each looks further only when it is asked for a name."""

ELF64_LITTLE = b"\x7fELF\x02\x01"
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")


def unneeded(packages: Path) -> set[Path]:
    """Files below site-packages that the image does not hold."""
    found = {path for pattern in DROPPED for path in packages.glob(pattern)}
    files = {file for path in found for file in (path.rglob("*") if path.is_dir() else [path]) if not file.is_dir()}
    return files - {packages / name for name in KEPT}


def mapped(library: bytes) -> bytes | None:
    """The library without what no segment maps; None where there is nothing of that, or it is no library for 64 bits.

    The loader goes by segments. Behind the last of them lie the symbols and line numbers that only debuggers read, and
    the table of sections.
    """
    if not library.startswith(ELF64_LITTLE):
        return None
    fields = list(HEADER.unpack_from(library))
    offset, size, count = fields[5], fields[9], fields[10]
    segments = [SEGMENT.unpack_from(library, offset + size * number) for number in range(count)]
    end = max([HEADER.size, offset + size * count, *(segment[2] + segment[5] for segment in segments)])
    if end >= len(library):
        return None
    fields[6] = fields[12] = fields[13] = 0  # where the sections' table is, how many, and which holds their names
    return HEADER.pack(*fields) + library[HEADER.size : end]


def drop(packages: Path) -> int:
    """Take away what is not needed. Returns the bytes that are gone."""
    return sum(_removed(path) for path in unneeded(packages))


def strip(libraries: Iterable[Path]) -> int:
    """Take from native libraries what is never mapped. Returns the bytes that are gone."""
    saved = 0
    for path in libraries:
        whole = path.read_bytes()
        part = mapped(whole)
        if part is not None:
            path.write_bytes(part)
            saved += len(whole) - len(part)
    return saved


def warm() -> int:
    """Import all of ours, and what is imported later; Python writes the bytecode. Returns the number of modules."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)
    return len(sys.modules)


def _removed(path: Path) -> int:
    size = path.stat().st_size
    path.unlink()
    return size


def main(environment: Path) -> None:
    """The three steps, told of."""
    (packages,) = environment.glob("lib/python3.*/site-packages")
    print(f"dropped {drop(packages) / 2**20:.1f} MiB that nothing opens")
    print(f"stripped {strip(packages.rglob('*.so*')) / 2**20:.1f} MiB that no loader maps")
    print(f"compiled {warm()} modules")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
