"""Gangs as YuniKorn writes them: the annotations `task-groups` and `schedulingPolicyParameters` of a pod."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from muster_operator.model import limits, problems
from muster_operator.model.errors import BadInputError
from muster_operator.model.pods import (
    NO_TOPOLOGY,
    GangDefinition,
    GangProblem,
    GangSource,
    Placement,
    TaskGroup,
    Topology,
)
from muster_operator.translate import go_json
from muster_operator.translate.constraints import constraints_tag, pod_constraints_tag
from muster_operator.translate.gangs.totals import placeholder_ask
from muster_operator.translate.known_names import PARAMETERS, misspelt_resources
from muster_operator.translate.values import Raw, TranslationCache, amount, canonical, canonical_name, nanos, text_bytes
from muster_si import keys
from muster_si.near_names import nearest

#: About 31 years. A larger value is a mistake and would overflow the core's timers.
_MAX_SECONDS: Final = 10**9
_TIMEOUT: Final = "placeholderTimeoutInSeconds"
_WAIT: Final = "gangWaitTimeoutInSeconds"
_STYLE: Final = "gangSchedulingStyle"
_PLACEMENT: Final = "gangPlacement"
_PLACEMENTS: Final = {placement.value: placement for placement in Placement}
_CHOICES: Final = "Reserve, Direct or Auto"
_TOPOLOGY: Final = "topologyKey"
_TOPOLOGY_LEVELS: Final = "topologyKeys"
_TOPOLOGY_MODE: Final = "topologyMode"
_MODES: Final = {"required": True, "preferred": False}

#: Unknown parameters that a warning names.
_NAMED_UNKNOWN: Final = 3

#: Problems of task groups that a message names.
_NAMED_INVALID: Final = 4

#: Similarity from which a parameter is suggested: there are few, and their names are long.
_SIMILAR_PARAMETER: Final = 0.6

#: A label key: an optional DNS prefix with a slash, and a name.
_LABEL_KEY: Final = re.compile(
    r"(?=[^/]{1,253}/|[^/]+$)([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a gang. Times in milliseconds, 0 = the default of the core.

    ``placement`` is None if the configured default applies. ``warnings`` name the parameter, the problem and the value
    that is used instead.
    """

    style: str = keys.STYLE_SOFT
    placeholder_timeout_ms: int = 0
    wait_timeout_ms: int = 0
    topology: Topology = NO_TOPOLOGY
    placement: Placement | None = None
    warnings: tuple[str, ...] = ()


def _milliseconds(name: str, value: str, warnings: list[str]) -> int:
    """Converts whole seconds to milliseconds. Adds a warning and returns 0 (the default) for any other text."""
    if value.isascii() and value.isdigit() and len(value) <= 19 and int(value) <= _MAX_SECONDS:
        return int(value) * 1000
    warnings.append(problems.not_seconds(name, value))
    return 0


def _style(value: str, warnings: list[str]) -> str:
    if value not in {keys.STYLE_SOFT, keys.STYLE_HARD}:
        warnings.append(problems.unknown_value(_STYLE, value, "Soft", "Soft or Hard"))
        return keys.STYLE_SOFT
    return value


def _placement(value: str, default: Placement, warnings: list[str]) -> Placement | None:
    if value == keys.PLACEMENT_REMOVED:
        warnings.append(problems.removed_value(_PLACEMENT, value, Placement.AUTO, _CHOICES))
        return Placement.AUTO
    if value not in _PLACEMENTS:
        warnings.append(problems.unknown_value(_PLACEMENT, value, f"{default}, the default,", _CHOICES))
    return _PLACEMENTS.get(value)


def _topology(pairs: dict[str, str], warnings: list[str]) -> Topology:
    """The topology that the gang is packed by. The default mode is ``preferred``."""
    parameter = _TOPOLOGY_LEVELS if _TOPOLOGY_LEVELS in pairs else _TOPOLOGY
    value, mode = pairs.get(parameter, ""), pairs.get(_TOPOLOGY_MODE, "preferred")
    if mode not in _MODES:
        warnings.append(problems.unknown_value(_TOPOLOGY_MODE, mode, "preferred", "required or preferred"))
    if parameter not in pairs:
        if _TOPOLOGY_MODE in pairs:
            warnings.append(problems.mode_without_topology(_TOPOLOGY_MODE, _TOPOLOGY))
        return NO_TOPOLOGY
    levels = tuple(dict.fromkeys(value.split(">")))
    are_keys = value.isascii() and all(map(_LABEL_KEY.fullmatch, levels))
    if not are_keys or len(levels) > limits.TOPOLOGY_LEVELS:
        warnings.append(problems.not_a_label_key(parameter, value))
        return NO_TOPOLOGY
    if parameter == _TOPOLOGY_LEVELS and _TOPOLOGY in pairs:
        warnings.append(problems.ignored_topology(_TOPOLOGY, _TOPOLOGY_LEVELS))
    return Topology(levels, _MODES.get(mode, False))


def _pairs(text: str, warnings: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in text.split():
        name, sign, value = entry.partition("=")
        if not sign or not name or "=" in value:
            warnings.append(problems.not_a_parameter(entry))
        else:
            pairs[name] = value
    return pairs


def _report_unknown(pairs: dict[str, str], warnings: list[str]) -> None:
    """One warning about all unknown names, with the known names that they resemble, or with all known ones.

    Differs: unknown scheduling parameters are reported with a suggestion; YuniKorn ignores them.
    """
    unknown = sorted(set(pairs).difference(PARAMETERS))
    if not unknown:
        return
    named = ", ".join(name[:40] for name in unknown[:_NAMED_UNKNOWN])
    if len(unknown) > _NAMED_UNKNOWN:
        named += f" and {len(unknown) - _NAMED_UNKNOWN} more"
    meant = [nearest(name, PARAMETERS, _SIMILAR_PARAMETER) for name in unknown[:_NAMED_UNKNOWN]]
    found = list(dict.fromkeys(filter(None, meant)))
    hint = f"did you mean {', '.join(found)}?" if found else f"known parameters are {', '.join(PARAMETERS)}"
    subject = f"parameter {named} is" if len(unknown) == 1 else f"parameters {named} are"
    warnings.append(problems.unknown_parameters(subject, hint))


def read_parameters(text: str, default: Placement = Placement.RESERVE) -> Parameters:
    """Parses the annotation `schedulingPolicyParameters`. Unknown names are reported and ignored.

    ``default``: the configured placement, which a warning about an unknown placement names.
    """
    warnings: list[str] = []
    pairs = _pairs(text, warnings)
    _report_unknown(pairs, warnings)
    timeout = _milliseconds(_TIMEOUT, pairs[_TIMEOUT], warnings) if _TIMEOUT in pairs else 0
    wait = _milliseconds(_WAIT, pairs[_WAIT], warnings) if _WAIT in pairs else 0
    style = _style(pairs[_STYLE], warnings) if _STYLE in pairs else keys.STYLE_SOFT
    placement = _placement(pairs[_PLACEMENT], default, warnings) if _PLACEMENT in pairs else None
    topology = _topology(pairs, warnings)
    return Parameters(style, timeout, wait, topology, placement, tuple(warnings))


_FIELD: Final = "task-groups"


class _Notes:
    """Collects the problems of an annotation and the warnings about it."""

    def __init__(self) -> None:
        self.invalid: list[str] = []
        self.warnings: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Adds a problem that is raised in the block, which ends there."""
        try:
            yield
        except BadInputError as error:
            self.invalid.append(str(error))


def _name(where: str, value: str) -> str:
    if not value:
        raise BadInputError(f"{where}.name", "is missing or empty", "give every group a name")
    if text_bytes(value) > limits.TASK_GROUP_NAME_BYTES:
        problem = f"has more than {limits.TASK_GROUP_NAME_BYTES} bytes"
        raise BadInputError(f"{where}.name", problem, "give the group a shorter name")
    return value


def _min_member(where: str, value: int | None) -> int:
    """The members to reserve. KubeRay writes 0 for a worker group that its autoscaler starts.

    Differs: nothing is reserved for a group of 0 members, and the others stay a gang; YuniKorn ignores the definition.
    """
    field, fix = f"{where}.minMember", "write the number of members, 0 or more"
    if value is None:
        raise BadInputError(field, "is missing", fix)
    if value < 0:
        raise BadInputError(field, f"is {value}", fix)
    return value


def _min_resource(where: str, value: dict[str, str] | None, notes: _Notes) -> tuple[dict[str, int], dict[str, str]]:
    """Resources of one member: in the scheduler's units, and as written with Kubernetes' names."""
    field = f"{where}.minResource"
    if value is None:
        raise BadInputError(field, "is missing", 'write for example {"cpu": "1", "memory": "2Gi"}')
    amounts: dict[str, int] = {}
    written: dict[str, str] = {}
    for resource, quantity in value.items():
        name = canonical_name(resource)
        with notes.collected():
            if name in amounts:
                raise BadInputError(f"{field}.{resource}", "cpu and vcore are the same resource", "keep cpu only")
            amounts[name] = _amount(f"{field}.{resource}", name, quantity)
            written["cpu" if name == keys.CPU else resource] = quantity
    notes.warnings += misspelt_resources(field, amounts)
    return amounts, written


def _amount(field: str, name: str, quantity: str) -> int:
    if name == keys.PODS:
        raise BadInputError(field, "is counted by itself", "remove it")
    nano = nanos(field, quantity)
    if nano < 0:
        raise BadInputError(field, "is negative", "write zero or more")
    return amount(name, nano)


def _check_inter_pod_terms(where: str, fields: Raw) -> None:
    """Reports now the affinity errors for which the API server would reject each placeholder later."""
    try:
        pod_constraints_tag(fields, "", {})
    except BadInputError as error:
        raise BadInputError(f"{where}.{error.field}", error.problem, error.fix) from error


def _group(index: int, raw: Raw, notes: _Notes) -> TaskGroup | None:
    """The group, or None if it is invalid."""
    where = f"{_FIELD}[{index}]"
    count, name, min_member = len(notes.invalid), "", 0
    amounts: dict[str, int] = {}
    written: dict[str, str] = {}
    fields = {field: raw[field] for field in go_json.POD_FIELDS if raw.get(field)}
    with notes.collected():
        name = _name(where, raw.get("name", ""))
    with notes.collected():
        min_member = _min_member(where, raw.get("minMember"))
    with notes.collected():
        amounts, written = _min_resource(where, raw.get("minResource"), notes)
    with notes.collected():
        _check_inter_pod_terms(where, fields)
    if len(notes.invalid) > count:
        return None
    return TaskGroup(
        name=name,
        min_member=min_member,
        min_resource=amounts,
        requests=written,
        labels=raw.get("labels", {}),
        annotations=raw.get("annotations", {}),
        pod_fields=canonical(where, fields),
        constraints=constraints_tag(fields),
    )


def _groups(text: str, notes: _Notes) -> tuple[TaskGroup, ...]:
    """The valid groups."""
    if (size := text_bytes(text)) > limits.TASK_GROUPS_BYTES:
        problem = f"{size} bytes, more than {limits.TASK_GROUPS_BYTES}"
        raise BadInputError(_FIELD, problem, "define fewer or smaller groups")
    value, unknown = go_json.task_groups(_FIELD, text)
    notes.warnings += unknown
    if not value:
        raise BadInputError(_FIELD, "is empty", "write a JSON array of groups, or remove the annotation")
    if len(value) > limits.GANG_GROUPS:
        problem = f"{len(value)} task groups, more than {limits.GANG_GROUPS}"
        raise BadInputError(_FIELD, problem, "merge task groups with equal members")
    groups: dict[str, TaskGroup] = {}
    for index, entry in enumerate(value):
        with notes.collected():
            if (group := _group(index, entry, notes)) is None:
                continue
            if group.name in groups:
                raise BadInputError(
                    f"{_FIELD}[{index}].name", f'"{group.name}" is a duplicate name', "use unique names"
                )
            groups[group.name] = group
    return tuple(groups.values())


def read(source: GangSource, default: Placement, _: Mapping[str, int]) -> GangDefinition | GangProblem | None:
    """Reads the gang that a pod defines. Returns a problem if the definition is invalid, None if there is none.

    ``default``: the placement of a gang that does not specify one.
    """
    if source.problem:
        return GangProblem(source.problem)
    if not source.task_groups.strip():
        return None
    key = f"{default} {len(source.parameters)} {source.parameters}{source.task_groups}".encode("utf-8", "replace")
    return _GANGS.get(key, lambda _: _read_gang(source, default))


def _weight(found: GangDefinition | GangProblem) -> int:
    """Estimated bytes of a cache entry, measured with one node selector and one toleration per group."""
    return 1024 + 2048 * len(found.groups) if isinstance(found, GangDefinition) else 1024


_GANGS: Final[TranslationCache[GangDefinition | GangProblem]] = TranslationCache(_weight)


def _read_gang(source: GangSource, default: Placement) -> GangDefinition | GangProblem:
    notes = _Notes()
    groups: tuple[TaskGroup, ...] = ()
    ask: dict[str, int] = {}
    with notes.collected():
        groups = _groups(source.task_groups, notes)
    if not notes.invalid:
        with notes.collected():
            ask = placeholder_ask(groups)
    if notes.invalid:
        return GangProblem("; ".join((*notes.invalid[:_NAMED_INVALID], *notes.warnings)))
    parameters = read_parameters(source.parameters, default)
    return GangDefinition(
        groups=groups,
        placeholder_ask=ask,
        style=parameters.style,
        placeholder_timeout_ms=parameters.placeholder_timeout_ms,
        wait_timeout_ms=parameters.wait_timeout_ms,
        topology=parameters.topology,
        placement=parameters.placement or default,
        warnings=(*notes.warnings, *parameters.warnings),
    )
