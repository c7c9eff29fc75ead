"""Schema of queues.yaml."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from muster_core.config.document import TOP, Data, Findings, below
from muster_core.model.errors import ConfigurationError
from muster_si.near_names import plain

_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_MOST_DIGITS = 20
_MOST = 2**64 - 1
_BROKEN = "broken rule"


def _broken(rule: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError(_BROKEN, "{rule}", {"rule": rule, "fix": fix})


def _flag(value: object) -> object:
    if not isinstance(value, str) or value not in _TRUE | _FALSE:
        raise _broken("is neither true nor false", "write true or false")
    return value in _TRUE


def _count(value: object) -> object:
    is_count = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS
    if not is_count or int(str(value)) > _MOST:
        raise _broken("is not a whole number of 0 or more", "write digits only")
    return int(str(value))


def _texts(value: object) -> object:
    """Converts a property without a value to an empty value."""
    return {key: "" if text is None else text for key, text in value.items()} if isinstance(value, dict) else value


def _weight(value: object) -> object:
    try:
        weight = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        weight = math.nan
    if not (weight >= 0 and math.isfinite(weight)):
        raise _broken("is not a weight", "write a number of 0 or more, such as 1.0")
    return weight


Flag = Annotated[bool, BeforeValidator(_flag)]
Count = Annotated[int, BeforeValidator(_count)]
Weight = Annotated[float, BeforeValidator(_weight)]
Properties = Annotated[dict[str, str], BeforeValidator(_texts)]


class Meaning(NamedTuple):
    """Description and default of a key; docs/reference/queues-yaml.md is generated from it."""

    text: str
    default: str = "none"


class Form(BaseModel):
    """A mapping with known keys. A key without a value counts as absent."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: Remedy in the error if the value is not a mapping.
    instead: ClassVar[str] = "write a mapping"

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: object) -> object:
        if not isinstance(data, dict):
            raise _broken("is not a mapping", cls.instead)
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


class ResourcesForm(Form):
    """`resources` of a queue or template."""

    guaranteed: Annotated[
        dict[str, str] | None, Meaning("resources that preemption restores, and the share in fair ordering", "0")
    ] = None
    max: Annotated[
        dict[str, str] | None,
        Meaning(
            "maximum of all pods of the queue and its children; a resource that is not listed is unlimited, "
            "0 forbids it",
            "unlimited",
        ),
    ] = None


class LimitForm(Form):
    """One entry of `limits`."""

    limit: Annotated[str, Meaning("comment")] = ""
    users: Annotated[list[str], Meaning('users that the limit applies to; `"*"`: each user without an entry')] = []
    groups: Annotated[list[str], Meaning('groups that the limit applies to; `"*"`: all other groups together')] = []
    maxapplications: Annotated[
        Count, Meaning("maximum number of applications that each can run at the same time", "unlimited")
    ] = 0
    maxresources: Annotated[dict[str, str] | None, Meaning("maximum resources that each can use", "unlimited")] = None


class TemplateForm(Form):
    """`childtemplate` of a queue."""

    maxapplications: Annotated[Count, Meaning("as of a queue", "unlimited")] = 0
    properties: Annotated[Properties, Meaning("as of a queue")] = {}
    resources: Annotated[ResourcesForm, Meaning("as of a queue", "unlimited")] = ResourcesForm()


class QueueForm(Form):
    """One queue."""

    name: Annotated[str, Meaning("1 to 64 letters, digits and `_ : # / @ -`; not case-sensitive; no dots")]
    parent: Annotated[
        Flag | None, Meaning("`true`: placement rules can create queues below an empty queue", "has `queues`")
    ] = None
    queues: Annotated[list[QueueForm], Meaning("child queues; only a leaf runs pods")] = []
    maxapplications: Annotated[
        Count | None, Meaning("maximum number of applications that run at the same time; others wait", "unlimited")
    ] = None
    properties: Annotated[
        Properties, Meaning("ordering, priority and preemption: [below](#properties)", "inherited")
    ] = {}
    adminacl: Annotated[str, Meaning("further users that may submit, here or in a parent", "no user")] = ""
    submitacl: Annotated[str, Meaning("users that [may submit](#access), here or in a parent", "no user")] = ""
    resources: ResourcesForm = ResourcesForm()
    limits: Annotated[list[LimitForm], Meaning("limits of users and groups: [below](#limits)")] = []
    childtemplate: Annotated[
        TemplateForm | None,
        Meaning(
            "`maxapplications`, `properties` and `resources` of child queues that are created on demand",
            "that of the nearest parent",
        ),
    ] = None


class FilterForm(Form):
    """`filter` of a placement rule."""

    type: Annotated[str, Meaning("`allow`: the rule applies only to these; `deny`: to all others", "`allow`")] = ""
    users: Annotated[list[str], Meaning("names; one entry may be a regular expression", "all")] = []
    groups: Annotated[list[str], Meaning("names; one entry may be a regular expression", "all")] = []


class RuleForm(Form):
    """One placement rule."""

    name: Annotated[str, Meaning("name of a rule: see the table below")]
    create: Annotated[
        Flag, Meaning("whether the rule creates a queue that does not exist; otherwise it does not match", "`false`")
    ] = False
    parent: Annotated[RuleForm | None, Meaning("rule that determines the parent queue", "root")] = None
    value: Annotated[str, Meaning("with `fixed`: a queue or a path; with `tag`: the name of the tag")] = ""
    filter: FilterForm | None = None


class PreemptionForm(Form):
    """`preemption` of a partition."""

    enabled: Annotated[
        Flag | None, Meaning("[preemption](../concepts/preemption.md) for guarantees and DaemonSets", "`true`")
    ] = None
    quotapreemptionenabled: Annotated[
        Flag | None,
        Meaning("[preemption](../concepts/preemption.md#quota-preemption) of pods above a lowered `max`", "`false`"),
    ] = None


class NodeSortForm(Form):
    """`nodesortpolicy` of a partition."""

    instead: ClassVar[str] = "write it as a mapping, nodesortpolicy: {type: fair}"

    type: Annotated[
        str,
        Meaning("`fair` or `binpacking`: [order of nodes](#order-of-nodes)", "`fair`, with balance"),
    ] = ""
    resourceweights: Annotated[
        dict[str, Weight], Meaning("weights of the resources in this order", "`vcore: 1, memory: 1`")
    ] = {}


class ResolverForm(Form):
    """`usergroupresolver` of a partition."""

    type: Annotated[
        str, Meaning("`os` or `ldap`: where [a user's groups](#groups-of-users) come from if its pods name none")
    ] = ""


class PartitionForm(Form):
    """One partition."""

    name: Annotated[
        str, Meaning("name of the partition, formed like a queue name; Kubernetes has only `default`", "`default`")
    ] = ""
    queues: Annotated[list[QueueForm], Meaning("the queue tree; if `root` is missing, Muster adds it")]
    placementrules: Annotated[
        list[RuleForm],
        Meaning(
            "rules that determine the queue of an application: [below](#placement-rules)",
            "the queue that the pod names",
        ),
    ] = []
    limits: Annotated[list[LimitForm], Meaning("the [limits](#limits) of `root`")] = []
    preemption: PreemptionForm = PreemptionForm()
    nodesortpolicy: NodeSortForm = NodeSortForm()
    usergroupresolver: ResolverForm = ResolverForm()


class FileForm(Form):
    """The complete file."""

    partitions: Annotated[list[PartitionForm], Meaning("one for each; at least one")]
    checksum: Annotated[str, Meaning("checksum of the text without this line; `validate-conf` verifies it")] = ""


#: By letters and digits: the key of a queue that users write as a property.
INSTEAD_OF_PROPERTY: Final = {
    "max": "resources.max",
    "maxresource": "resources.max",
    "maxresources": "resources.max",
    "capacity": "resources.max",
    "quota": "resources.max",
    "min": "resources.guaranteed",
    "guaranteed": "resources.guaranteed",
    "guaranteedresource": "resources.guaranteed",
    "guaranteedresources": "resources.guaranteed",
    "resources": "resources",
    "maxapplications": "maxapplications",
    "maxapps": "maxapplications",
    "parent": "parent: true",
    "submitacl": "submitacl",
    "adminacl": "adminacl",
}

#: Keys of old releases of YuniKorn and of other schedulers, and what they are called here.
_OTHER_KEYS: Final = {"users": "limits", "groups": "limits", "acl": "submitacl", "subQueues": "queues"}

#: Rule and fix for the errors of pydantic.
_WORDS = {
    "missing": ("is required", "add it"),
    "list_type": ("is not a list", "write a list: one item per line, each after a dash"),
    "dict_type": ("is not a mapping", "write a mapping of names to values"),
    "string_type": ("is not text", "write one plain value"),
}


def check(data: Data, notes: Findings) -> FileForm | None:
    """Validates the data. Errors are added to `notes`. None = the rest cannot be checked.

    Invalid values are removed from the data, so that the errors of the rest are found in the same run.
    """
    try:
        return FileForm.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False)
    # Missing keys are reported last, because often the key exists with a spelling error.
    for one in sorted(found, key=lambda one: one["type"] == "missing"):
        notes.wrong(_error_of(one, notes))
    if not all(_is_removed(data, one) for one in found):
        return None
    notes.hide_consequences()
    try:
        return FileForm.model_validate(data)
    except ValidationError:
        return None


def _is_removed(data: Data, finding: ErrorDetails) -> bool:
    """Removes an invalid value from the data, or adds a missing one. Returns False if neither is possible."""
    *above, key = finding["loc"] or ("",)
    for step in above:
        if (isinstance(data, dict) and isinstance(step, str)) or (isinstance(data, list) and isinstance(step, int)):
            data = data[step]  # type: ignore[index]  # the kinds are checked
        else:
            return False
    if isinstance(data, list) and isinstance(key, int) and finding["type"] == "string_type":
        data[key] = ""
        return True
    if not isinstance(data, dict):
        return False
    if finding["type"] == "missing":
        data[str(key)] = "" if key == "name" else []
    else:
        data.pop(str(key), None)
    return True


def _error_of(finding: ErrorDetails, notes: Findings) -> ConfigurationError:
    kind, place, found = finding["type"], finding["loc"], finding["input"]
    path = ""
    for step in place:
        path = below(path, step)
    if kind == "extra_forbidden":
        known = _form_of(place[:-1]).model_fields
        other = _OTHER_KEYS.get(str(place[-1]), "")
        meant = other if other in known else notes.meant(str(place[-1]), known)
        fix = f"did you mean {meant}? Known here" if meant else "known here"
        return ConfigurationError(path, str(place[-1]), "is not a known key", f"{fix}: {', '.join(known)}")
    context = finding.get("ctx", {})
    rule, fix = _WORDS.get(kind, (str(context.get("rule", finding["msg"])), str(context.get("fix", "correct it"))))
    if kind == "string_type" and len(place) > 1 and place[-2] == "properties":
        instead = INSTEAD_OF_PROPERTY.get(plain(str(place[-1])))
        fix = f"remove it, and write {instead} of the queue" if instead else fix
    value = found if isinstance(found, str) and kind != "missing" else None
    return ConfigurationError(path or TOP, value, rule, fix)


def _form_of(place: tuple[int | str, ...]) -> type[Form]:
    """Returns the class of the mapping at a path of the file."""
    form: type[Form] = FileForm
    for step in place:
        if isinstance(step, str):
            form = next(_forms_in(form.model_fields[step].annotation))
    return form


def _forms_in(annotation: object) -> Iterator[type[Form]]:
    if isinstance(annotation, type) and issubclass(annotation, Form):
        yield annotation
    for part in get_args(annotation):
        yield from _forms_in(part)
