"""``task-groups``: a gang's definition, read with every check of contract 1.3.

Called by the agent when a pod creates its application. What is wrong comes back as a value that names the field and
the fix; nothing here is ever raised to the caller.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from muster_operator.model import limits
from muster_operator.model.errors import BadInputError
from muster_operator.model.groups import GangDefinition, GangProblem, Placement, TaskGroup
from muster_operator.model.pods import GangSource
from muster_operator.model.resources import MAX_AMOUNT, added, times
from muster_operator.translate.canonical import canonical
from muster_operator.translate.company import company_tag
from muster_operator.translate.constraints import constraints_tag
from muster_operator.translate.memo import Memo
from muster_operator.translate.parameters import read_parameters
from muster_operator.translate.quantities import amount, canonical_name, nanos
from muster_operator.translate.raw import Raw, text_bytes
from muster_si import keys

_FIELD: Final = "task-groups"
_MAX_DEPTH: Final = 24
_MAX_INT32: Final = 2**31 - 1

_STRING_MAPS: Final = ("labels", "annotations", "nodeSelector")
_OBJECT_LISTS: Final = ("tolerations", "topologySpreadConstraints")
_POD_FIELDS: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
_KNOWN: Final = {
    name.lower(): name for name in ("name", "minMember", "minResource", *_STRING_MAPS, *_OBJECT_LISTS, "affinity")
}


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _decoded(text: str) -> Any:
    """The JSON value; numbers with a point stay text, so that no digit is lost."""
    if (size := text_bytes(text)) > limits.TASK_GROUPS_BYTES:
        problem = f"{size} bytes, more than {limits.TASK_GROUPS_BYTES}"
        raise BadInputError(_FIELD, problem, "define fewer or smaller groups")
    try:
        return json.loads(text, parse_float=str, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        problem = f"is not JSON ({error.msg} at line {error.lineno}, column {error.colno})"
        raise BadInputError(_FIELD, problem, "write a JSON array of groups") from error
    except RecursionError as error:
        raise BadInputError(_FIELD, "is nested too deeply", "write plain, flat JSON") from error
    except ValueError as error:
        raise BadInputError(_FIELD, f"is not JSON ({error})", "write a JSON array of groups") from error


def _check_depth(value: Any) -> None:
    """Breadth first, so that depth costs no stack (semantics 26)."""
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise BadInputError(_FIELD, "is nested too deeply", "write plain, flat JSON")


def _name(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadInputError(f"{where}.name", "is missing or empty", "give every group a name")
    if text_bytes(value) > limits.TASK_GROUP_NAME_BYTES:
        problem = f"has more than {limits.TASK_GROUP_NAME_BYTES} bytes"
        raise BadInputError(f"{where}.name", problem, "give the group a shorter name")
    return value


def _min_member(where: str, value: Any) -> int:
    field, fix = f"{where}.minMember", "write the number of members, 1 or more"
    if value is None:
        raise BadInputError(field, "is missing", fix)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInputError(field, f"{str(value)[:40]!r} is not a whole number", fix)
    if value <= 0:
        raise BadInputError(field, f"is {value}", fix)
    if value > _MAX_INT32:
        raise BadInputError(field, "does not fit 32 bits", fix)
    return value


def _min_resource(where: str, value: Any) -> tuple[dict[str, int], dict[str, str]]:
    """One member in the scheduler's units, and as written under Kubernetes' names."""
    field = f"{where}.minResource"
    if not isinstance(value, dict):
        problem = "is missing" if value is None else "is not an object"
        raise BadInputError(field, problem, 'write for example {"cpu": "1", "memory": "2Gi"}')
    amounts: dict[str, int] = {}
    written: dict[str, str] = {}
    for resource, quantity in value.items():
        name = canonical_name(resource)
        if name == keys.PODS:
            raise BadInputError(f"{field}.{resource}", "is counted by itself", "remove it")
        if name in amounts:
            raise BadInputError(f"{field}.{resource}", "cpu and vcore are the same resource", "keep cpu only")
        nano = nanos(f"{field}.{resource}", quantity)
        if nano < 0:
            raise BadInputError(f"{field}.{resource}", "is negative", "write zero or more")
        amounts[name] = amount(name, nano)
        written["cpu" if name == keys.CPU else resource] = "0" if quantity is None else str(quantity)
    return amounts, written


def _strings(where: str, field: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(entry, str) for entry in value.values()):
        raise BadInputError(f"{where}.{field}", "is not an object of strings", "quote every value")
    return value


def _pod_fields(where: str, raw: Raw) -> Raw:
    fields = {field: raw[field] for field in _POD_FIELDS if raw.get(field)}
    for field in _OBJECT_LISTS:
        value = fields.get(field, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise BadInputError(f"{where}.{field}", "is not a list of objects", "write it as in a pod's spec")
    if not isinstance(fields.get("affinity", {}), dict):
        raise BadInputError(f"{where}.affinity", "is not an object", "write it as in a pod's spec")
    return fields


def _check_company(where: str, fields: Raw) -> None:
    """What the API server would refuse of every placeholder is better told now."""
    try:
        company_tag(fields, "", {})
    except BadInputError as error:
        raise BadInputError(f"{where}.{error.field}", error.problem, error.fix) from error


def _group(index: int, value: Any) -> TaskGroup:
    where = f"{_FIELD}[{index}]"
    if not isinstance(value, dict):
        raise BadInputError(where, "is not an object", "write {name, minMember, minResource} for each group")
    raw = {_KNOWN[key.lower()]: entry for key, entry in value.items() if key.lower() in _KNOWN}
    name = _name(where, raw.get("name"))
    amounts, written = _min_resource(where, raw.get("minResource"))
    maps = {field: _strings(where, field, raw.get(field)) for field in _STRING_MAPS}
    fields = _pod_fields(where, raw)
    _check_company(where, fields)
    return TaskGroup(
        name=name,
        min_member=_min_member(where, raw.get("minMember")),
        min_resource=amounts,
        requests=written,
        labels=maps["labels"],
        annotations=maps["annotations"],
        pod_fields=canonical(where, fields),
        constraints=constraints_tag(fields),
    )


def _groups(text: str) -> tuple[TaskGroup, ...]:
    value = _decoded(text)
    if not isinstance(value, list) or not value:
        problem = "is not a JSON array" if not isinstance(value, list) else "is an empty array"
        raise BadInputError(_FIELD, problem, "write a JSON array of groups, or remove the annotation")
    if len(value) > limits.GANG_GROUPS:
        problem = f"{len(value)} task groups, more than {limits.GANG_GROUPS}"
        raise BadInputError(_FIELD, problem, "merge task groups with equal members")
    _check_depth(value)
    canonical(_FIELD, value)  # nothing in it may be unwritable
    groups = tuple(_group(index, entry) for index, entry in enumerate(value))
    seen: set[str] = set()
    for index, group in enumerate(groups):
        if group.name in seen:
            raise BadInputError(f"{_FIELD}[{index}].name", f'"{group.name}" is there twice', "name every group once")
        seen.add(group.name)
    return groups


def placeholder_ask(groups: tuple[TaskGroup, ...]) -> dict[str, int]:
    """What all placeholders ask for together, their pods included (contract 1.3).

    Raises:
        BadInputError: it does not fit 64 bits, or there are more members than GANG_MEMBERS.
    """
    total: dict[str, int] = {}
    for index, group in enumerate(groups):
        total = added(total, times({**group.min_resource, keys.PODS: 1}, group.min_member))
        for name, value in total.items():
            if value > MAX_AMOUNT:
                problem = f"{name} of all members together does not fit 64 bits"
                raise BadInputError(f"{_FIELD}[{index}].minResource.{name}", problem, "ask for less")
        if total[keys.PODS] > limits.GANG_MEMBERS:
            problem = f"{total[keys.PODS]} members in total, more than {limits.GANG_MEMBERS}"
            raise BadInputError(f"{_FIELD}[{index}].minMember", problem, "reduce minMember")
    return total


def read_gang(source: GangSource, default: Placement = Placement.RESERVE) -> GangDefinition | GangProblem | None:
    """The gang that a pod defines, what is wrong with it, or None when it defines none.

    ``default``: the placement of a gang that names none.
    """
    if source.problem:
        return GangProblem(source.problem)
    if not source.task_groups.strip():
        return None
    key = f"{default} {len(source.parameters)} {source.parameters}{source.task_groups}".encode("utf-8", "replace")
    return _GANGS.get(key, lambda _: _read_gang(source, default))


def _weight(found: GangDefinition | GangProblem) -> int:
    """Bytes, as measured of gangs with a node selector and a toleration a group; a problem quotes what it is about."""
    return 1024 + 2048 * len(found.groups) if isinstance(found, GangDefinition) else 1024


_GANGS: Final[Memo[GangDefinition | GangProblem]] = Memo(_weight)


def _read_gang(source: GangSource, default: Placement) -> GangDefinition | GangProblem:
    try:
        groups = _groups(source.task_groups)
        ask = placeholder_ask(groups)
    except BadInputError as error:
        return GangProblem(str(error))
    parameters = read_parameters(source.parameters, default)
    return GangDefinition(
        groups=groups,
        placeholder_ask=ask,
        style=parameters.style,
        placeholder_timeout_ms=parameters.placeholder_timeout_ms,
        wait_timeout_ms=parameters.wait_timeout_ms,
        topology=parameters.topology,
        placement=parameters.placement or default,
        warnings=parameters.warnings,
    )
