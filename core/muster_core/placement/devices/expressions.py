"""CEL selectors: whether a device meets an expression of a device class or claim. CEL is loaded with the first one.

An expression is compiled once, and evaluated once per kind of device, of which only the attributes count that it can
read. Its size is bounded, CEL bounds its iterations, and an expression that could take long is refused, because its
evaluation cannot be interrupted.

Quantities and semantic versions are bytes for CEL, equal for equal values. No attribute has that type.

Differs: the libraries ip, cidr, url, format, image, sets and lists are missing, so that an expression with them does
not compile, and an expression that may take long is refused. A domain that the device does not have is empty only if
the expression names it in quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Protocol

from muster_core.model.devices import Attribute, DeviceKind
from muster_core.placement.devices import versions

#: Longest expression, as in the API server.
_CHARACTERS: Final = 10_240

#: Work that an expression may cause: CEL bounds iterations, but not what lists and texts in them cost.
_WORK: Final = 5_000_000

#: Attributes and capacities of a device, and one: the least number of elements of a list that an iteration may read.
_ELEMENTS: Final = 33

#: Expressions, and results, that are kept. If there are more, all are dropped.
_PROGRAMS: Final = 1024
_RESULTS: Final = 131_072

_TEXT: Final = re.compile(r"""[rR]?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_WORD: Final = re.compile(r"\w+", re.ASCII)

_LEVEL: Final = re.compile(r"\.\s*(?:all|exists\w*|filter|map|transform\w*)\s*\(|\bbind\s*\(", re.ASCII)
_GROWING: Final = re.compile(r"\.\s*(?:replace|join)\b", re.ASCII)

#: Uses of the device that name the attribute which they read, after its texts were replaced by a mark.
_FIELD: Final = r"(?:\[\??§\]|\.\??\s*\w+\b(?!\s*\())"
_DOMAIN_OF: Final = r"\.\s*(?:attributes|capacity)\s*(?:\[§\]|\.\s*\w+\b(?!\s*\())\s*"
_NAMING: Final = re.compile(rf"device\s*(?:\.\s*(?:driver|allowMultipleAllocations)\b|{_DOMAIN_OF}{_FIELD})", re.ASCII)
_BINDING: Final = re.compile(rf"\bbind\s*\(\s*(\w+)\s*,\s*device\s*{_DOMAIN_OF},", re.ASCII)
_DEVICE: Final = re.compile(r"\bdevice\b", re.ASCII)
_BOUND: Final = re.compile(r"\bbind\s*\(", re.ASCII)
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
        is_shared = kind.is_shared and "allowMultipleAllocations" in self.reads
        if (len(attributes), len(capacity), is_shared) == (len(kind.attributes), len(kind.capacity), kind.is_shared):
            return kind
        return DeviceKind(kind.driver, attributes, capacity, is_shared)

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
            "allowMultipleAllocations": kind.is_shared,
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
    bare, texts = _TEXT.sub("§", expression), [text[1:-1] for text in _TEXT.findall(expression)]
    if _work(bare, max(map(len, texts), default=0)) > _WORK:
        return "the expression may take too long: use fewer and shorter lists, texts, macros and cel.bind"
    try:
        found: _CompiledExpression = _environment().compile(expression)
    except RuntimeError as error:
        return _first_line(error)
    if (kind := found.return_type().name()) not in ("BOOL", "DYN"):
        return f"must evaluate to bool or the unknown type, not {kind.lower()}"
    named = {*texts, *_DOMAIN.findall(bare)}
    guards = {(text[1:-1], name) for text, name in _GUARD.findall(expression)}
    domains = (tuple(sorted(one for one in named if (one, name) not in guards)) for name in ("attributes", "capacity"))
    reads = frozenset((*texts, *_WORD.findall(bare))) if _names_all(bare) and "\\" not in expression else None
    return Program(found, reads, *domains)


def _work(bare: str, longest: int) -> int:
    """Returns an upper bound of the elements and texts that an evaluation may read. `bare`: without texts.

    Macros and bindings may read each list in each element of another one, and additions in bindings double texts.
    """
    levels = 1 + len(_LEVEL.findall(bare))
    texts: int = longest * (bare.count("+") + 1) ** (len(_BOUND.findall(bare)) + 1)
    elements: int = (bare.count(",") + _ELEMENTS) ** levels
    grown: int = texts ** (len(_GROWING.findall(bare)) + 1)
    return elements * max(1, grown // 64)


def _names_all(bare: str) -> bool:
    """Whether the expression names each attribute that it reads. `bare`: without texts."""
    bound = _BINDING.findall(bare)
    left = _NAMING.sub("", _BINDING.sub("bind(", bare))
    for name in bound:
        left = re.sub(rf"\b{name}\s*{_FIELD}", "", left)
    return not _DEVICE.search(left) and not any(re.search(rf"\b{name}\b", left) for name in bound)


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
