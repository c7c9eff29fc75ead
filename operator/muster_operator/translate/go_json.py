"""Decodes the JSON of annotations as Go does it in YuniKorn: `task_groups`, `user_info`, `quantities`.

A reader is called with the path of a value, the parsed value, and what the field has already: Go decodes a duplicate
key into the present value. Null is the zero value of maps, lists and pointers, and leaves text and numbers unchanged.
`tests/conformance/test_json.py` compares all of this with `encoding/json`.

Differs: JSON nested about 1,000 levels deep is rejected, where Go accepts 10,000. An amount above 64 bits is rejected,
where Go takes the largest amount. Both errors name the field.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from muster_operator.model import problems
from muster_operator.model.errors import BadInputError
from muster_si.near_names import nearest

#: Characters of a key or value in a message, and unknown keys that are compared with known ones.
_SHOWN: Final = 40
_MOST_COMPARED: Final = 32

#: Similarity from which a key is suggested: an object has few keys.
_SIMILAR: Final = 0.6


class Notes:
    """Collects warnings about unknown keys that resemble a known one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._left = _MOST_COMPARED

    def unknown(self, where: str, key: str, known: Mapping[str, str]) -> None:
        """Adds an unknown key. `known`: the keys of the object by their lower case."""
        if self._left:
            self._left -= 1
            if meant := nearest(key, known.values(), _SIMILAR):
                self.lines.append(problems.misspelt_key(f"{where}.{_valid(key[:_SHOWN])}", meant))


#: (path, parsed value, present value, warnings) -> value; None = the zero value, which structs leave out.
Reader = Callable[[str, Any, Any, Notes], Any]


class _Number(str):
    """A number as written, so that no digit is lost and none is taken for text."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object in their order, with duplicates."""

    __slots__ = ()


#: Characters that Go's case folding takes for a letter of a key.
_FOLDED: Final = str.maketrans({"\u017f": "s", "\u212a": "k"})
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def parsed(field: str, text: str, fix: str) -> Any:
    """Parses JSON. Halves of surrogate pairs become the replacement character.

    Raises:
        BadInputError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_Members, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        problem = f"is not JSON ({error.msg} at line {error.lineno}, column {error.colno})"
        raise BadInputError(field, problem, fix) from error
    except RecursionError as error:
        raise BadInputError(field, "is nested too deeply", "write plain, flat JSON") from error
    except ValueError as error:
        raise BadInputError(field, f"is not JSON ({error})", fix) from error


def _valid(text: str) -> str:
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _kind(value: Any) -> str:
    """The value and its kind for an error message."""
    match value:
        case _Members():
            return "an object"
        case list():
            return "a list"
        case _Number():
            return f"the number {value[:_SHOWN]}"
        case str():
            return f'"{_valid(value[:_SHOWN])}"'
        case _:
            return json.dumps(value)


def text(where: str, value: Any, present: Any, _: Notes) -> str | None:
    """Reads text."""
    if value is None:
        return present  # type: ignore[no-any-return] # what this reader returned
    if not isinstance(value, str) or isinstance(value, _Number):
        raise BadInputError(where, f"is {_kind(value)}, not text", "write text in quotes")
    return _valid(value)


def quantity(where: str, value: Any, present: Any, _: Notes) -> str:
    """Reads a quantity, which may be a number, as text. It is not parsed."""
    if value is None:
        return "0"
    if not isinstance(value, str):
        raise BadInputError(where, f"is {_kind(value)}, not a quantity", 'write a quantity such as "500m" or "4Gi"')
    return _valid(value).strip()


def whole(bits: int) -> Reader:
    """Returns a reader of whole numbers of this size."""

    def read(where: str, value: Any, present: Any, _: Notes) -> int | None:
        if value is None:
            return present  # type: ignore[no-any-return] # what this reader returned
        fix = "write a whole number without quotes"
        if not isinstance(value, _Number) or not value.removeprefix("-").isdecimal():
            raise BadInputError(where, f"is {_kind(value)}, not a whole number", fix)
        if len(value) > bits or not -(2 ** (bits - 1)) <= int(value) < 2 ** (bits - 1):
            raise BadInputError(where, f"is {_kind(value)}, which does not fit {bits} bits", fix)
        return int(value)

    return read


def optional(reader: Reader) -> Reader:
    """Returns a reader of a pointer: null is no value."""
    return lambda where, value, present, notes: None if value is None else reader(where, value, present, notes)


def map_of(reader: Reader) -> Reader:
    """Returns a reader of an object with any keys."""

    def read(where: str, value: Any, present: Any, notes: Notes) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, _Members):
            raise BadInputError(where, f"is {_kind(value)}, not an object", 'write {"key": "value"}')
        found: dict[str, Any] = dict(present or {})
        for key, entry in value:
            found[_valid(key)] = _or_empty(reader(f"{where}.{_valid(key)}", entry, None, notes))
        return found

    return read


def _or_empty(item: Any) -> Any:
    return "" if item is None else item


def list_of(reader: Reader) -> Reader:
    """Returns a reader of a list. The items of a duplicate key are read into those that are present."""

    def read(where: str, value: Any, present: Any, notes: Notes) -> list[Any] | None:
        if value is None:
            return None
        if not isinstance(value, list) or isinstance(value, _Members):
            raise BadInputError(where, f"is {_kind(value)}, not a list", "write [...]")
        there = present or []
        return [
            _or_empty(reader(f"{where}[{index}]", item, there[index] if index < len(there) else None, notes))
            for index, item in enumerate(value)
        ]

    return read


def struct(fields: Mapping[str, Reader]) -> Reader:
    """Returns a reader of an object with these keys, in any case.

    The result has the keys that the text has, except those of empty pointers, maps and lists. Unknown keys are ignored;
    those that resemble a known one are reported.
    """
    by_folded = {name.lower(): name for name in fields}

    def read(where: str, value: Any, present: Any, notes: Notes) -> dict[str, Any]:
        found: dict[str, Any] = dict(present or {})
        if value is None:
            return found
        if not isinstance(value, _Members):
            raise BadInputError(where, f"is {_kind(value)}, not an object", f"write {{{', '.join(fields)}}}")
        for key, entry in value:
            name = by_folded.get(key.translate(_FOLDED).lower())
            if name is None:
                notes.unknown(where, key, by_folded)
                continue
            read_value = fields[name](f"{where}.{name}", entry, found.get(name), notes)
            if read_value is None:
                found.pop(name, None)
            else:
                found[name] = read_value
        return found

    return read


_TEXTS: Final = map_of(text)
_LIST: Final = list_of(text)
_REQUIREMENTS: Final = list_of(struct({"key": text, "operator": text, "values": _LIST}))
_SELECTOR: Final = optional(struct({"matchLabels": _TEXTS, "matchExpressions": _REQUIREMENTS}))
_NODE_TERM: Final = struct({"matchExpressions": _REQUIREMENTS, "matchFields": _REQUIREMENTS})
_POD_TERM: Final = struct(
    {
        "labelSelector": _SELECTOR,
        "namespaces": _LIST,
        "topologyKey": text,
        "namespaceSelector": _SELECTOR,
        "matchLabelKeys": _LIST,
        "mismatchLabelKeys": _LIST,
    }
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHTED_POD_TERM: Final = struct({"weight": whole(32), "podAffinityTerm": _POD_TERM})
_PODS: Final = optional(struct({_REQUIRED: list_of(_POD_TERM), _PREFERRED: list_of(_WEIGHTED_POD_TERM)}))
_NODES: Final = optional(
    struct(
        {
            _REQUIRED: optional(struct({"nodeSelectorTerms": list_of(_NODE_TERM)})),
            _PREFERRED: list_of(struct({"weight": whole(32), "preference": _NODE_TERM})),
        }
    )
)

#: Fields of a pod's spec, as in Kubernetes 1.37.
POD_FIELDS: Final[Mapping[str, Reader]] = {
    "nodeSelector": _TEXTS,
    "tolerations": list_of(
        struct({"key": text, "operator": text, "value": text, "effect": text, "tolerationSeconds": optional(whole(64))})
    ),
    "affinity": optional(struct({"nodeAffinity": _NODES, "podAffinity": _PODS, "podAntiAffinity": _PODS})),
    "topologySpreadConstraints": list_of(
        struct(
            {
                "maxSkew": whole(32),
                "topologyKey": text,
                "whenUnsatisfiable": text,
                "labelSelector": _SELECTOR,
                "minDomains": optional(whole(32)),
                "nodeAffinityPolicy": optional(text),
                "nodeTaintsPolicy": optional(text),
                "matchLabelKeys": _LIST,
            }
        )
    ),
}

#: Fields of a task group.
GROUP_FIELDS: Final[Mapping[str, Reader]] = {
    "name": text,
    "minMember": whole(32),
    "minResource": map_of(quantity),
    "labels": _TEXTS,
    "annotations": _TEXTS,
    **POD_FIELDS,
}
_GROUPS: Final = list_of(struct(GROUP_FIELDS))
_USER: Final = struct({"user": text, "groups": _LIST})


def task_groups(field: str, annotation: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Reads the list of task groups: their fields, and warnings about keys. Raises BadInputError."""
    notes = Notes()
    value = parsed(field, annotation, "write a JSON array of groups")
    return _GROUPS(field, value, None, notes) or [], notes.lines


def user_info(field: str, annotation: str) -> tuple[str, list[str], list[str]]:
    """Reads a user and the groups, and warnings about keys. Raises BadInputError."""
    notes = Notes()
    found = _USER(field, parsed(field, annotation, 'write {"user": "name", "groups": ["group"]}'), None, notes)
    return found.get("user", ""), found.get("groups", []), notes.lines


def is_printable_name(name: str) -> bool:
    """Whether a user or group is not blank and has no control characters, which could rewrite a reader's terminal."""
    return bool(name.strip()) and not any(unicodedata.category(character) == "Cc" for character in name)


def quantities(field: str, annotation: str) -> dict[str, str]:
    """Reads an object of quantities in quotes, which are not parsed. Raises BadInputError."""
    return _TEXTS(field, parsed(field, annotation, 'write for example {"cpu": "64"}'), None, Notes()) or {}
