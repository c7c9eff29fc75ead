"""YAML text as plain data, findings in it, and quantities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import yaml

from muster_core.model.errors import ConfigurationError, shown
from muster_si.keys import CPU

#: Of each kind. More are not told: who sees these will look again.
MOST: Final = 100
_LONGEST: Final = 500


class Findings:
    """Collects both, in the order of the file."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._errors: list[ConfigurationError] = []

    def odd(self, path: str, what: str) -> None:
        """What stands at `path` has an effect that its writer may not expect, or none."""
        self._count += 1
        if self._count <= MOST:
            self._lines.append(shown(f"{path}: {what}", _LONGEST))

    def wrong(self, error: ConfigurationError) -> None:
        """The configuration is refused; the reading continues for what else there is to tell."""
        if len(self._errors) < MOST:
            self._errors.append(error)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """What is wrong in the block ends the block and is kept."""
        try:
            yield
        except ConfigurationError as error:
            self.wrong(error)

    def lines(self) -> tuple[str, ...]:
        """What its writer should know."""
        more = self._count - len(self._lines)
        return (*self._lines, f"and {more} more") if more else tuple(self._lines)

    def errors(self) -> tuple[ConfigurationError, ...]:
        """What is wrong; nothing = the configuration may be put in force."""
        return tuple(self._errors)


Data = dict[str, "Data"] | list["Data"] | str | None

#: Four times what a ConfigMap can hold, since it may hold it compressed.
MOST_CHARACTERS: Final = 4 * 1024 * 1024
MOST_DEPTH: Final = 100

#: Of the document with every alias written out.
MOST_NODES: Final = 500_000

#: Of all paths together: a long key under many aliases is a small text and gigabytes of paths.
_MOST_PATHS: Final = 64 * 1024 * 1024
_MERGE: Final = "<<"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})

#: The path of what is the matter with all of it.
TOP: Final = "the file"


def read(text: str, lines: dict[str, int] | None = None) -> Data:
    """The data in the text; None for an empty one. `lines` is given the line of each path, as far as one gets.
    Raises ConfigurationError.
    """
    if len(text) > MOST_CHARACTERS:
        raise ConfigurationError(
            TOP, f"{len(text)} characters", "is too long", f"keep it below {MOST_CHARACTERS} characters"
        )
    try:
        text.encode()
        _check_depth(text)
        root = yaml.compose(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError as error:
        raise ConfigurationError(TOP, _where(error), "is not YAML", "correct the line it names") from error
    except UnicodeEncodeError as error:
        raise ConfigurationError(TOP, f"character {error.start}", "is not text", "write it in UTF-8") from error
    return None if root is None else _Builder({} if lines is None else lines).build(root, "")


def below(path: str, key: str | int) -> str:
    """The path of what is under `key`: `a.b` or `a[0]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def line_of(path: str, lines: Mapping[str, int]) -> int:
    """The line of a path, or of the nearest thing above it that is in the text; 0 where there is none."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 0)


def _check_depth(text: str) -> None:
    """Count nesting on the stream of events, before anything recursive sees the document."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CBaseLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise ConfigurationError(
                    TOP, f"line {line}", "is nested too deep", f"keep it within {MOST_DEPTH} levels"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _where(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return str(error)


def _scalar(node: yaml.Node) -> str | None:
    is_plain = not (isinstance(node, yaml.ScalarNode) and node.style)
    value = str(node.value)
    return None if is_plain and value in _NULLS else value


class _Builder:
    """Turns nodes into data, keeps their lines and counts them, aliases written out."""

    def __init__(self, lines: dict[str, int]) -> None:
        self._lines = lines
        self._nodes = 0
        self._depth = 0
        self._paths = 0

    def build(self, node: yaml.Node, path: str) -> Data:
        """The data of a node at `path`."""
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
                raise ConfigurationError(path or TOP, "a key", "is not text", "use plain words as keys")
            key = str(key_node.value)
            spot = below(path, key)
            if key in found or (key == _MERGE and merged):
                self._lines[spot] = _line(key_node)
                raise ConfigurationError(spot, key, "is there twice", "keep one of the two")
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
        TOP, "an alias", "makes the document too large", "replace it with its content, or remove it"
    )


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1 if node.start_mark else 0


def _merged(node: yaml.Node, path: str) -> list[yaml.Node]:
    """The mappings that `<<` brings in."""
    nodes = list(node.value) if isinstance(node, yaml.SequenceNode) else [node]
    for other in nodes:
        if not isinstance(other, yaml.MappingNode):
            raise ConfigurationError(path, "<<", "merges what is not a mapping", "name a mapping, as in <<: *name")
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

# Longer than any int64: the digits are not even looked at.
_MOST_DIGITS = 24


def quantity(resource: str, text: str, path: str) -> int:
    """The amount that `text` says of `resource`, in the model's unit. Raises ConfigurationError."""
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
        raise ConfigurationError(path, text, "is too large for 64 bits", "write less, or leave it out for no bound")
    return int(digits) * factor


def amounts(texts: Mapping[str, str] | None, path: str) -> dict[str, int]:
    """Resource by resource; nothing for None. Raises ConfigurationError."""
    return {name: quantity(name, text, below(path, name)) for name, text in (texts or {}).items()}


def as_written(resource: str, amount: int) -> str:
    """An amount of the model as queues.yaml would say it."""
    return f"{amount}m" if resource == CPU else str(amount)


def _fix(resource: str) -> str:
    if resource == CPU:
        return "write whole cores (10) or thousandths of a core (500m)"
    return "write a whole number, with one of k M G T P E or Ki Mi Gi Ti Pi Ei if you like (512Mi)"
