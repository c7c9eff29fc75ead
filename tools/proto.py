"""Generates the message classes of ``proto/muster_si/*.proto``, or checks that the ones in the tree are fresh.

Called by ``make proto`` and, with ``--check``, by ``make check`` and a test. The compiler is the one of grpcio-tools,
so the version in ``uv.lock`` decides the output.
"""

import argparse
import shutil
import sys
import sysconfig
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]  # grpcio-tools ships no types

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
HEADER = b"# Written by `make proto`; do not edit.\n"
PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


class CompilerError(Exception):
    """The protocol compiler rejected a file. It wrote the reason to the standard error."""


def generate(proto: Path, into: Path) -> None:
    """Compile every .proto file below ``proto`` into the same folders of ``into``.

    Raises CompilerError if the compiler rejects a file.
    """
    sources = sorted(path.relative_to(proto).as_posix() for path in proto.glob("*/*.proto"))
    if not sources:
        return
    plugins = Path(sysconfig.get_path("scripts"))
    arguments = [
        "protoc",
        f"--proto_path={proto}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        f"--python_out={into}",
        f"--grpc_python_out={into}",
        f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
        f"--mypy_out=quiet:{into}",
        f"--mypy_grpc_out=quiet:{into}",
        *sources,
    ]
    if protoc.main(arguments) != 0:
        raise CompilerError(" ".join(sources))
    for name, text in generated(into).items():
        (into / name).write_bytes(HEADER + text)


def generated(folder: Path) -> dict[str, bytes]:
    """Return the content of the generated files below ``folder`` by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for pattern in PATTERNS
        for path in sorted(folder.rglob(pattern))
    }


def drift(proto: Path = PROTO) -> list[str]:
    """Return the generated files that differ from the compiler's current output, or are not part of it."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(proto, Path(scratch))
        fresh = generated(Path(scratch))
    kept = generated(proto)
    return sorted(name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name))


def regenerate(proto: Path = PROTO) -> list[str]:
    """Write files that differ, delete obsolete ones, and return the names of both."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(proto, Path(scratch))
        fresh = generated(Path(scratch))
        kept = generated(proto)
        changed = sorted(name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name))
        for name in changed:
            if name in fresh:
                shutil.copyfile(Path(scratch) / name, proto / name)
            else:
                (proto / name).unlink()
    return changed


def main() -> int:
    """Run the command line. The exit code is 1 if a check found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a file is stale")
    if not parser.parse_args().check:
        for name in regenerate():
            print(f"proto/{name}")
        return 0
    stale = drift()
    for name in stale:
        print(f"stale: proto/{name} (run `make proto`)", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
