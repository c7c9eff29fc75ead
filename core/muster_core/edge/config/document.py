"""YAML text as plain data: mappings, lists, text and None; nothing else.

Every scalar stays the text that was written: what it means is decided by the
field it stands in, so `memory: 010` is not read as octal and a queue may be
called `123`. Refused before anything is built: too much text, too deep
nesting, keys that come twice, aliases that blow a document up.

Merge keys (`<<: *name`) work as in YuniKorn's parser: what the mapping says
itself comes first, then the merged mappings in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import yaml

from muster_core.model.errors import ConfigurationError

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
        TOP, "an alias", "makes the document too large", "write out what it stands for, or leave it out"
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
