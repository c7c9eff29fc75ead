"""The form of queues.yaml: which keys may stand where, and of what kind they are.

Every scalar arrives as text (see `document`); an unknown key is refused where
it stands, with the keys that are known there. What values mean together is
checked later, in `queues`, `rules` and `limits`.
Source: contract 2.1-2.10.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from muster_core.edge.config.document import TOP, Data, below
from muster_core.edge.config.notes import Notes
from muster_core.model.errors import ConfigurationError

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
    """A property without a value is one with an empty value."""
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


class Form(BaseModel):
    """A mapping with known keys. A key without a value counts as absent."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: What to say where something else than a mapping stands.
    instead: ClassVar[str] = "write a mapping"

    @model_validator(mode="before")
    @classmethod
    def _said_only(cls, data: object) -> object:
        if not isinstance(data, dict):
            raise _broken("is not a mapping", cls.instead)
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


class ResourcesForm(Form):
    """`resources` of a queue or template."""

    guaranteed: dict[str, str] | None = None
    max: dict[str, str] | None = None


class LimitForm(Form):
    """One entry of `limits` (contract 2.7)."""

    limit: str = ""
    users: list[str] = []
    groups: list[str] = []
    maxapplications: Count = 0
    maxresources: dict[str, str] | None = None


class TemplateForm(Form):
    """`childtemplate` (contract 2.6)."""

    maxapplications: Count = 0
    properties: Properties = {}
    resources: ResourcesForm = ResourcesForm()


class QueueForm(Form):
    """One queue (contract 2.3)."""

    name: str
    parent: Flag | None = None
    queues: list[QueueForm] = []
    maxapplications: Count | None = None
    properties: Properties = {}
    adminacl: str = ""
    submitacl: str = ""
    resources: ResourcesForm = ResourcesForm()
    limits: list[LimitForm] = []
    childtemplate: TemplateForm | None = None


class FilterForm(Form):
    """`filter` of a placement rule."""

    type: str = ""
    users: list[str] = []
    groups: list[str] = []


class RuleForm(Form):
    """One placement rule (contract 2.10)."""

    name: str
    create: Flag = False
    parent: RuleForm | None = None
    value: str = ""
    filter: FilterForm | None = None


class PreemptionForm(Form):
    """`preemption` of a partition."""

    enabled: Flag | None = None
    quotapreemptionenabled: Flag | None = None


class NodeSortForm(Form):
    """`nodesortpolicy` of a partition."""

    instead: ClassVar[str] = "write it as a mapping, nodesortpolicy: {type: fair}"

    type: str = ""
    resourceweights: dict[str, Weight] = {}


class ResolverForm(Form):
    """`usergroupresolver` of a partition."""

    type: str = ""


class PartitionForm(Form):
    """One partition (contract 2.2)."""

    name: str = ""
    queues: list[QueueForm]
    placementrules: list[RuleForm] = []
    limits: list[LimitForm] = []
    preemption: PreemptionForm = PreemptionForm()
    nodesortpolicy: NodeSortForm = NodeSortForm()
    usergroupresolver: ResolverForm = ResolverForm()


class FileForm(Form):
    """The whole file."""

    partitions: list[PartitionForm]
    checksum: str = ""


#: pydantic's own findings in our words: rule and fix.
_WORDS = {
    "missing": ("is required", "add it"),
    "list_type": ("is not a list", "write a list: one item per line, each after a dash"),
    "dict_type": ("is not a mapping", "write a mapping of names to values"),
    "string_type": ("is not text", "write one plain value"),
}


def check(data: Data, notes: Notes) -> FileForm | None:
    """The data in the form of the file; None where it is not, which is noted."""
    try:
        return FileForm.model_validate(data)
    except ValidationError as error:
        # What is missing goes last: it is often a key that stands there misspelt.
        for found in sorted(error.errors(include_url=False), key=lambda one: one["type"] == "missing"):
            notes.wrong(_said(found))
        return None


def _said(finding: ErrorDetails) -> ConfigurationError:
    kind, place, found = finding["type"], finding["loc"], finding["input"]
    path = ""
    for step in place:
        path = below(path, step)
    if kind == "extra_forbidden":
        known = ", ".join(_form_of(place[:-1]).model_fields)
        return ConfigurationError(path, str(place[-1]), "is not a known key", f"known here: {known}")
    context = finding.get("ctx", {})
    rule, fix = _WORDS.get(kind, (str(context.get("rule", finding["msg"])), str(context.get("fix", "correct it"))))
    value = found if isinstance(found, str) and kind != "missing" else _kind(kind, found)
    return ConfigurationError(path or TOP, value, rule, fix)


def _form_of(place: tuple[int | str, ...]) -> type[Form]:
    """What stands at a place of the file, which is a mapping with known keys."""
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


def _kind(error: str, found: object) -> str:
    """What stands there, in a word, where it is not one value."""
    if error == "missing" or found is None:
        return "nothing"
    return "a list" if isinstance(found, list) else "a mapping"
