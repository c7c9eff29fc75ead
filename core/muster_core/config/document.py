"""Reads YAML as plain data with the line of each path, collects findings, and parses quantities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import yaml

from muster_core.model import quantities
from muster_core.model.errors import ConfigurationError, shown
from muster_si.keys import CPU
from muster_si.near_names import meant_resource, nearest

#: Maximum number of reported errors, and of reported warnings. Users validate again after correcting them.
MOST: Final = 100

#: Names of a file that are compared with known ones.
MOST_COMPARED: Final = 10_000
_LONGEST: Final = 500


class Findings:
    """Collects errors and warnings in the order of the file."""

    def __init__(self) -> None:
        self._odd: list[tuple[str, str]] = []
        self._count = 0
        self._errors: list[ConfigurationError] = []
        self._left = MOST_COMPARED
        self._removed: tuple[str, ...] = ()

    def resources(self, names: Iterable[str] | None, path: str) -> None:
        """Adds a warning for each resource that no pod requests under this name."""
        for name in names or ():
            if self._may_compare() and (meant := meant_resource(name)):
                advice = f"use {CPU} for CPU" if meant == CPU else f"did you mean {meant}?"
                self.odd(below(path, name), f"has no effect; {advice}")

    def meant(self, name: str, known: Iterable[str]) -> str:
        """Returns the known name that an unknown one resembles; empty if none does."""
        return nearest(name, known) if self._may_compare() else ""

    def _may_compare(self) -> bool:
        """Whether another name may be compared with known ones: the work for a hostile file is bounded."""
        self._left -= 1
        return self._left >= 0

    def odd(self, path: str, what: str) -> None:
        """Adds a warning: the value at `path` has no effect, or one that the user may not expect."""
        self._count += 1
        if self._count <= MOST:
            self._odd.append((path, what))

    def wrong(self, error: ConfigurationError) -> None:
        """Adds an error: the configuration is rejected. Parsing continues, to find further errors."""
        is_consequence = any(removed.startswith(error.path) for removed in self._removed)
        if len(self._errors) < MOST and not is_consequence:
            self._errors.append(error)

    def hide_consequences(self) -> None:
        """Ignores further errors that the removal of the values with errors may cause, at their paths and above."""
        self._removed = tuple(error.path for error in self._errors)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Adds a ConfigurationError raised in the block to the errors. The block ends."""
        try:
            yield
        except ConfigurationError as error:
            self.wrong(error)

    def warnings(self, file: str = "", lines: Mapping[str, int] | None = None) -> tuple[str, ...]:
        """Returns the warnings, in the order of their lines in the file."""
        numbered = sorted(
            ((line_of(path, lines or {}), path, what) for path, what in self._odd), key=lambda one: one[0]
        )
        found = tuple(shown(f"{_place(file, line)}{path}: {what}", _LONGEST) for line, path, what in numbered)
        more = self._count - len(found)
        return (*found, f"and {more} more") if more else found

    def errors(self) -> tuple[ConfigurationError, ...]:
        """Returns the errors; empty = the configuration is valid."""
        return tuple(self._errors)


def _place(file: str, line: int) -> str:
    """Where a finding is, as compilers write it; empty without a file."""
    return (f"{file}:{line}: " if line else f"{file}: ") if file else ""


Data = dict[str, "Data"] | list["Data"] | str | None

#: Four times the limit of a ConfigMap, because it may contain compressed data.
MOST_CHARACTERS: Final = 4 * 1024 * 1024
MOST_DEPTH: Final = 100

#: Nodes of the document with all aliases expanded.
MOST_NODES: Final = 500_000

#: Total length of all paths. Without this limit, a long key and many aliases would expand to gigabytes of paths.
_MOST_PATHS: Final = 64 * 1024 * 1024
_MERGE: Final = "<<"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})

#: Path of findings about the complete file.
TOP: Final = "the file"


def read(text: str, lines: dict[str, int] | None = None) -> Data:
    """Parses the text; None for an empty one. Fills `lines` with the line of each path. Raises ConfigurationError."""
    if len(text) > MOST_CHARACTERS:
        raise ConfigurationError(
            TOP, None, f"has {len(text)} characters, more than {MOST_CHARACTERS}", "remove unused queues or comments"
        )
    try:
        text.encode()
        _check_depth(text)
        root = yaml.compose(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError as error:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem == "but found another document":
            second = f" (the second is in line {error.problem_mark.line + 1})" if error.problem_mark else ""
            fix = "write queues.yaml or the manifest of its ConfigMap, which is one document"
            raise ConfigurationError(TOP, None, f"has several YAML documents{second}", fix) from error
        raise ConfigurationError(TOP, None, f"is not YAML: {_where(error)}", "correct the syntax") from error
    except UnicodeEncodeError as error:
        raise ConfigurationError(TOP, None, f"is not UTF-8 at character {error.start}", "save it as UTF-8") from error
    return None if root is None else _Builder({} if lines is None else lines).build(root, "")


def below(path: str, key: str | int) -> str:
    """Returns the path of `key` below `path`: `a.b` or `a[0]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def line_of(path: str, lines: Mapping[str, int]) -> int:
    """Returns the line of the path, or of its nearest ancestor in the text; 0 if there is none."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 0)


def _check_depth(text: str) -> None:
    """Checks the nesting depth on the event stream, before any recursive function reads the document."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CBaseLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise ConfigurationError(
                    TOP, None, f"is nested too deeply in line {line}", f"use at most {MOST_DEPTH} levels"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _where(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        problem = f"line {error.problem_mark.line + 1}: {error.problem}"
        return f"{problem}; if the line begins with a tab, indent it with spaces" if "any token" in problem else problem
    return " ".join(str(error).split())


def _scalar(node: yaml.Node) -> str | None:
    is_plain = not (isinstance(node, yaml.ScalarNode) and node.style)
    value = str(node.value)
    return None if is_plain and value in _NULLS else value


class _Builder:
    """Converts YAML nodes to data, records their lines and counts them with all aliases expanded."""

    def __init__(self, lines: dict[str, int]) -> None:
        self._lines = lines
        self._nodes = 0
        self._depth = 0
        self._paths = 0

    def build(self, node: yaml.Node, path: str) -> Data:
        """Returns the data of the node at `path`."""
        self._nodes += 1
        if self._nodes > MOST_NODES or self._depth > MOST_DEPTH:
            raise _too_large()
        self._depth += 1
        data = self._inside(node, path)
        self._depth -= 1
        return data

    def _inside(self, node: yaml.Node, path: str) -> Data:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.CollectionNode):
            return [self._item(item, below(path, index)) for index, item in enumerate(node.value)]
        return _scalar(node)

    def _item(self, node: yaml.Node, path: str) -> Data:
        self._note(path, node)
        return self.build(node, path)

    def _note(self, path: str, node: yaml.Node) -> None:
        self._paths += len(path)
        if self._paths > _MOST_PATHS:
            raise _too_large()
        self._lines.setdefault(path, _line(node))

    def _mapping(self, node: yaml.MappingNode, path: str) -> Data:
        found: dict[str, Data] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigurationError(path or TOP, None, "has a key that is not text", "use plain words as keys")
            key = str(key_node.value)
            spot = below(path, key)
            if key in found or (key == _MERGE and merged):
                self._lines[spot] = _line(key_node)
                raise ConfigurationError(spot, key, "is a duplicate key", "keep one of the two")
            self._note(spot, key_node)
            if key == _MERGE and not key_node.style:
                merged = _merged(value_node, spot)
            else:
                found[key] = self.build(value_node, spot)
        for other in merged:
            data = self.build(other, path)
            found = (data | found) if isinstance(data, dict) else found
        return found


def _too_large() -> ConfigurationError:
    return ConfigurationError(
        TOP, None, "is too large because of its aliases", "replace them with their content, or remove them"
    )


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1 if node.start_mark else 0


def _merged(node: yaml.Node, path: str) -> list[yaml.Node]:
    """Returns the mappings that a merge key (`<<`) includes."""
    nodes = list(node.value) if isinstance(node, yaml.SequenceNode) else [node]
    for other in nodes:
        if not isinstance(other, yaml.MappingNode):
            raise ConfigurationError(path, "<<", "merges a value that is not a mapping", "name a mapping: <<: *name")
    return nodes


_FORM = re.compile(r"([0-9]+)\s*([A-Za-z]*)")
_POWERS = "kMGTPE"

_FACTORS = (
    {"": 1}
    | {suffix: 1000**power for power, suffix in enumerate(_POWERS, start=1)}
    | {f"{suffix.upper()}i": 1024**power for power, suffix in enumerate(_POWERS, start=1)}
)

_MILLI = "m"
_LARGEST = 2**63 - 1

# More digits than any int64; the number is not converted.
_MOST_DIGITS = 24


def quantity(resource: str, text: str, path: str) -> int:
    """Returns the amount of the resource in the unit of the model. Raises ConfigurationError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ConfigurationError(path, text, "is not a quantity", _fix(resource))
    digits, suffix = match.groups()
    if suffix == _MILLI and resource == CPU:
        factor = 1
    elif suffix in _FACTORS:
        factor = _FACTORS[suffix] * (1000 if resource == CPU else 1)
    else:
        raise ConfigurationError(path, text, f"has an unknown suffix {suffix!r}", _fix(resource))
    if len(digits) > _MOST_DIGITS or int(digits) * factor > _LARGEST:
        raise ConfigurationError(path, text, "is too large for 64 bits", "lower it, or remove it for no limit")
    return int(digits) * factor


def amounts(texts: Mapping[str, str] | None, path: str) -> dict[str, int]:
    """Returns the amounts by resource; None = no resources. Raises ConfigurationError."""
    return {name: quantity(name, text, below(path, name)) for name, text in (texts or {}).items()}


def valid_amounts(texts: Mapping[str, str] | None, path: str, notes: Findings) -> dict[str, int]:
    """Returns the amounts that are quantities. Errors of the others are added to `notes`."""
    found: dict[str, int] = {}
    for name, text in (texts or {}).items():
        with notes.collecting():
            found[name] = quantity(name, text, below(path, name))
    return found


def as_written(resource: str, amount: int) -> str:
    """Formats an amount of the model as a Kubernetes quantity."""
    return quantities.quantity(resource, amount)


def _fix(resource: str) -> str:
    if resource == CPU:
        return "write cores (10) or millicores (500m)"
    return "write a whole number, optionally with a suffix k M G T P E or Ki Mi Gi Ti Pi Ei (512Mi)"
