"""CEL selectors: whether a device meets an expression of a device class or claim. CEL is loaded with the first one.

An expression is compiled once, and evaluated once per kind of device, of which only the attributes count that it can
read. Its size is bounded, CEL bounds its iterations, and expressions whose texts could grow without bound are refused.
The API server admits only expressions whose cost it has estimated.

Quantities and semantic versions are bytes for CEL, equal for equal values. No attribute has that type.

Differs: the libraries ip, cidr, url, format, image and lists are missing, so that an expression with them does not
compile. A domain that the device does not have is empty only if the expression names it in quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Protocol

from muster_core.model.devices import Attribute, DeviceKind
from muster_core.placement.devices import versions

#: Longest expression, as in the API server.
_CHARACTERS: Final = 10_240

#: Characters that additions in nested bindings could make of an expression.
_GROWN: Final = 10_000_000

#: Expressions, and results, that are kept. If there are more, all are dropped.
_PROGRAMS: Final = 1024
_RESULTS: Final = 131_072

_TEXT: Final = re.compile(r"""[rR]?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_WORD: Final = re.compile(r"\w+", re.ASCII)

#: What can read an attribute that the expression does not name: macros, computed keys, and maps as a whole.
_COMPUTING: Final = re.compile(
    r"\b(all|exists\w*|filter|map|transform\w*|size|sets|dyn|type|string|join|replace|substring|charAt|split|optMap\w*)\b"
    r"|\+|[\w)\]]\s*\[(?!\??§\])|\b(attributes|capacity)\b(?!\s*(\[\??§\]|\.\??\s*\w+)\s*[.\[,])"
)
_BOUND: Final = re.compile(r"\bbind\s*\(\s*(\w+)\s*,")
_DOMAIN: Final = re.compile(r"\b(?:attributes|capacity)\s*\.\s*(\w+)", re.ASCII)
_GUARD: Final = re.compile(r"""("[^"\n]*"|'[^'\n]*')\s+in\s+device\s*\.\s*(attributes|capacity)\b""")


class _Result(Protocol):
    def type(self) -> Any: ...
    def value(self) -> Any: ...


class _CompiledExpression(Protocol):
    def eval(self, *, data: dict[str, Any]) -> _Result: ...
    def return_type(self) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled expression. `reads`: identifiers of attributes and capacities that it can read; None = any."""

    expression: _CompiledExpression
    reads: frozenset[str] | None
    #: Domains that it names, per map, which are empty for devices without them.
    attributes: tuple[str, ...]
    capacity: tuple[str, ...]

    def seen(self, kind: DeviceKind) -> DeviceKind:
        """Returns what the expression can see of a device."""
        if self.reads is None:
            return kind
        attributes = tuple(one for one in kind.attributes if one[0][1] in self.reads)
        capacity = tuple(one for one in kind.capacity if one[0][1] in self.reads)
        if len(attributes) == len(kind.attributes) and len(capacity) == len(kind.capacity):
            return kind
        return DeviceKind(kind.driver, attributes, capacity)

    def evaluate(self, kind: DeviceKind) -> bool | str:
        """Returns whether the device matches, or an error."""
        attributes: dict[str, dict[str, Any]] = {domain: {} for domain in self.attributes}
        capacity: dict[str, dict[str, Any]] = {domain: {} for domain in self.capacity}
        try:
            for (domain, name), value in kind.attributes:
                attributes.setdefault(domain, {})[name] = _encoded(value)
            for (domain, name), text in kind.capacity:
                capacity.setdefault(domain, {})[name] = _quantity(text)
        except ValueError as error:
            return str(error)
        device = {
            "driver": kind.driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": False,
        }
        try:
            result = self.expression.eval(data={"device": device})
        except RuntimeError as error:
            return _first_line(error)
        if result.type().name() == "BOOL":
            return bool(result.value())
        if result.type().name() == "ERROR":
            return _first_line(result.value())
        return f"it is of type {result.type().name()} and not a bool"


_programs: Final[dict[str, Program | str]] = {}
_results: Final[dict[tuple[str, DeviceKind], bool | str]] = {}


def compiled(expression: str) -> Program | str:
    """Returns the program of an expression, or why there is none."""
    known = _programs.get(expression)
    if known is None:
        if len(_programs) >= _PROGRAMS:
            _programs.clear()
            _results.clear()
        known = _programs[expression] = _compile(expression)
    return known


def matches(program: Program, expression: str, kind: DeviceKind) -> bool | str:
    """Returns whether the device meets the compiled expression, or an error."""
    about = (expression, program.seen(kind))
    known = _results.get(about)
    if known is None:
        if len(_results) >= _RESULTS:
            _results.clear()
        known = _results[about] = program.evaluate(about[1])
    return known


def _compile(expression: str) -> Program | str:
    if len(expression) > _CHARACTERS:
        return f"the expression is longer than {_CHARACTERS} characters"
    bare = _TEXT.sub("§", expression)
    binds = len(_BOUND.findall(bare))
    if (
        len(expression) * (bare.count("+") + 1) ** (binds + 1) > _GROWN
        or len(re.findall(r"\.(replace|join)\b", bare)) > 1
    ):
        return "the expression could build texts without bound: use fewer additions, cel.bind, replace or join"
    try:
        found: _CompiledExpression = _environment().compile(expression)
    except RuntimeError as error:
        return _first_line(error)
    if (kind := found.return_type().name()) not in ("BOOL", "DYN"):
        return f"must evaluate to bool or the unknown type, not {kind.lower()}"
    texts = [text[1:-1] for text in _TEXT.findall(expression)]
    named = {*texts, *_DOMAIN.findall(bare)}
    guards = {(text[1:-1], name) for text, name in _GUARD.findall(expression)}
    domains = (tuple(sorted(one for one in named if (one, name) not in guards)) for name in ("attributes", "capacity"))
    return Program(found, None if _computes(bare) else frozenset((*texts, *_WORD.findall(bare))), *domains)


def _computes(bare: str) -> bool:
    """Whether the expression may read attributes that it does not name. `bare`: without texts."""
    if _COMPUTING.search(bare):
        return True
    for name in _BOUND.findall(bare):
        uses = re.findall(rf"\b{re.escape(name)}\b\s*(.)", bare)
        if sum(use == "," for use in uses) > 1 or any(use not in ".[," for use in uses):
            return True
    return False


_CODE: Final = re.compile(r"^[A-Z_]+: (?:ERROR: )?| \[[A-Z_]+\]$")


def _first_line(error: object) -> str:
    """Returns the text of an error, with cel-go's words for the most frequent one."""
    text = _CODE.sub("", str(error).partition("\n")[0])
    return text.replace('Key not found in map : "', 'no such key: "')


def _encoded(attribute: Attribute) -> Any:
    kind, value = attribute
    return _version(str(value)) if kind == "version" else value


def _quantity(text: str) -> bytes:
    return b"q%d" % versions.quantity(text)


def _version(text: str) -> bytes:
    return b"v" + versions.version(text)[0].encode()


def _order(number: bytes) -> tuple[bytes, Any]:
    kind, text = number[:1], number[1:].decode()
    return kind, int(text) if kind == b"q" else versions.version(text)[1]


def _compare(one: bytes, other: bytes) -> int:
    (kind, left), (other_kind, right) = _order(one), _order(other)
    if kind != other_kind:
        raise ValueError("no such overload")
    return int(left > right) - int(left < right)


def _billionths(number: bytes) -> int:
    if number[:1] != b"q":
        raise ValueError("no such overload")
    return int(number[1:])


def _added(one: bytes, other: bytes | int, sign: int = 1) -> bytes:
    amount = other * _BILLION if isinstance(other, int) else _billionths(other)
    return b"q%d" % (_billionths(one) + sign * amount)


_BILLION: Final = 10**9


def _whole(number: bytes) -> int:
    whole, rest = divmod(_billionths(number), _BILLION)
    if rest or not -(2**63) <= whole < 2**63:
        raise ValueError("cannot convert value to integer")
    return whole


def _is_whole(number: bytes) -> bool:
    whole, rest = divmod(_billionths(number), _BILLION)
    return not rest and -(2**63) <= whole < 2**63


def _part(number: bytes, index: int) -> int:
    if number[:1] != b"v":
        raise ValueError("no such overload")
    return int(number[1:].decode().partition("-")[0].split(".")[index])


def _reads(read: Any) -> Any:
    def is_valid(*arguments: Any) -> bool:
        try:
            read(*arguments)
        except ValueError:
            return False
        return True

    return is_valid


def _semver(text: str, is_normalized: bool = False) -> bytes:  # noqa: FBT001, FBT002 - a function of CEL
    return _version(versions.normalized(text) if is_normalized else text)


_environments: Final[list[Any]] = []


def _environment() -> Any:
    """Returns the environment of kube-scheduler 1.37's selectors as far as it is supported, made at the first call."""
    if not _environments:
        _environments.append(_make_environment())
    return _environments[0]


def _make_environment() -> Any:
    from cel_expr_python import cel  # noqa: PLC0415 - 14 MB, which only clusters with devices need
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    number, text, whole, flag, real = cel.Type.BYTES, cel.Type.STRING, cel.Type.INT, cel.Type.BOOL, cel.Type.DOUBLE
    functions: dict[str, list[Any]] = {}

    def declare(name: str, of: list[Any], to: Any, call: Any, *, member: bool = True) -> None:
        overload = cel.Overload(
            f"{name}_{'_'.join(one.name() for one in of)}".lower(),
            return_type=to,
            parameters=of,
            is_member=member,
            impl=call,
        )
        functions.setdefault(name, []).append(overload)

    for name, read in (("quantity", _quantity), ("semver", _semver)):
        check = "is" + name[0].upper() + name[1:]
        declare(name, [text], number, read, member=False)
        declare(check, [text], flag, _reads(read), member=False)
    declare("semver", [text, flag], number, _semver, member=False)
    declare("isSemver", [text, flag], flag, _reads(_semver), member=False)
    declare("compareTo", [number, number], whole, _compare)
    declare("isGreaterThan", [number, number], flag, lambda one, other: _compare(one, other) > 0)
    declare("isLessThan", [number, number], flag, lambda one, other: _compare(one, other) < 0)
    declare("sign", [number], whole, lambda one: (_billionths(one) > 0) - (_billionths(one) < 0))
    declare("isInteger", [number], flag, _is_whole)
    declare("asInteger", [number], whole, _whole)
    declare("asApproximateFloat", [number], real, lambda one: _billionths(one) / _BILLION)
    for name, sign in (("add", 1), ("sub", -1)):
        for other in (number, whole):
            declare(name, [number, other], number, lambda one, more, sign=sign: _added(one, more, sign))
    for index, name in enumerate(("major", "minor", "patch")):
        declare(name, [number], whole, lambda one, index=index: _part(one, index))
    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings(2)]
    declared = [cel.FunctionDecl(name, overloads) for name, overloads in functions.items()]
    return cel.NewEnv(variables={"device": cel.Type.DYN}, extensions=extensions, functions=declared)
