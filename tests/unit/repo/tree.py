"""The files of the repository for the repository tests: hand-written files, without environments and caches."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("proto", "core", "operator", "cli")

_HIDDEN_BUT_OURS = {".ci", ".github"}
_MADE_BY_RUNS = {"__pycache__", "build", "dist", "node_modules", "tmp"}


def name(path: Path) -> str:
    """The path as a reader of a failure wants it: from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def is_generated(path: Path) -> bool:
    """Whether the protocol compiler wrote the file."""
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in _MADE_BY_RUNS and (not path.name.startswith(".") or path.name in _HIDDEN_BUT_OURS):
                yield from _walk(path)
        elif not path.is_symlink() and path.name != ".git":  # a file in a git worktree
            yield path


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """All files of the repository, or those with one of the given suffixes."""
    return tuple(path for path in _walk(ROOT) if not suffixes or path.suffix in suffixes)


@cache
def modules(*folders: str) -> tuple[Path, ...]:
    """The Python files written by hand, in the whole repository or below the given folders."""
    tops = [ROOT / folder for folder in folders] or [ROOT]
    return tuple(
        path for path in files(".py") if not is_generated(path) and any(path.is_relative_to(top) for top in tops)
    )


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(), name(path))
