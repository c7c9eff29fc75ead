"""Validates the queue tree and the placement rules: names, access lists, properties, templates and filters.

Differs: a filter of a placement rule whose entries are all invalid is rejected. In YuniKorn such a filter matches no
user, without a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster_core.config import quotas
from muster_core.config.document import Findings, as_written, below, valid_amounts
from muster_core.config.quotas import UNBOUND, Ceilings, LimitBound, is_group, is_user, limits
from muster_core.config.schema import INSTEAD_OF_PROPERTY, FilterForm, LimitForm, QueueForm, RuleForm, TemplateForm
from muster_core.config.settings import duration_ns
from muster_core.model.config import (
    ALLOW_ALL,
    DEFAULT_POLICIES,
    DENY_ALL,
    SORT,
    AccessList,
    ApplicationOrder,
    ChildTemplate,
    PlacementRule,
    PreemptionPolicy,
    PriorityPolicy,
    QueueConfig,
    QueuePolicies,
    RuleFilter,
    problem,
)
from muster_core.model.errors import ConfigurationError
from muster_core.model.ids import ROOT
from muster_core.model.resources import Limit, Resources
from muster_si.keys import APP_TAG_NAMESPACE, APP_TAG_PARENT_QUEUE
from muster_si.near_names import plain

_EVERYBODY: Final = "*"
_MOST_FIELDS: Final = 2
_USER: Final = re.compile(r"[a-zA-Z0-9_.@-]+[$]?")
_GROUP: Final = re.compile(r"[a-zA-Z0-9_-]+")


def access(text: str, path: str, notes: Findings) -> AccessList:
    """Parses an access list; an empty list allows no user. Raises ConfigurationError."""
    fields = text.split()
    if len(fields) > _MOST_FIELDS:
        raise ConfigurationError(
            path, text, "has more than two parts", "write users, one space, groups; separate names by commas"
        )
    if fields == [_EVERYBODY]:
        return ALLOW_ALL
    if not fields:
        return DENY_ALL
    if len(fields) == 1:
        fields = ["", *fields] if text[0].isspace() else [*fields, ""]
    users, groups = fields
    return AccessList(
        users=_names(users, _USER, below(path, "users"), notes),
        groups=_names(groups, _GROUP, below(path, "groups"), notes),
    )


def _access(text: str, path: str, notes: Findings) -> AccessList:
    """Returns the access list, which allows no user if it is invalid."""
    found = DENY_ALL
    with notes.collecting():
        found = access(text, path, notes)
    return found  # noqa: RET504  # a return within the block would make this line unreachable for mypy


def _names(text: str, form: re.Pattern[str], path: str, notes: Findings) -> frozenset[str]:
    found = set()
    for name in filter(None, text.split(",")):
        if form.fullmatch(name):
            found.add(name)
        elif name == _EVERYBODY:
            notes.odd(path, "'*' with other names has no effect; write it alone to match all")
        else:
            notes.odd(path, f"{name[:80]!r} is not a valid name in an access list and is ignored")
    return frozenset(found)


_PRIORITY: Final = "priority.policy"
_OFFSET: Final = "priority.offset"
_PREEMPTION: Final = "preemption.policy"
_QUOTA_DELAY: Final = "quota.preemption.delay"
_OWN_ONLY: Final = frozenset({_PRIORITY, _OFFSET})
_MOST_OFFSET: Final = 2**31 - 1
_MOST_COUNT: Final = 2**64 - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")

_ORDERS: Final = {
    "fifo": ApplicationOrder.FIFO,
    "fair": ApplicationOrder.FAIR,
    "stateaware": ApplicationOrder.FIFO,  # as in YuniKorn since version 1.6
}


@dataclass(frozen=True, slots=True)
class _OneOf:
    """Parser of a property with a fixed set of values."""

    choices: Mapping[str, object]

    def __call__(self, text: str) -> object:
        return self.choices[text.lower()]


def _number(least: int, most: int) -> Callable[[str], object]:
    def read(text: str) -> int:
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return read


def _span(least: int) -> Callable[[str], object]:
    def read(text: str) -> int:
        span = duration_ns(text, "")
        if span < least:
            raise ValueError(text)
        return span

    return read


#: Per property: the field of QueuePolicies, its parser, and the end of the warning about an invalid value.
_READERS: Final[Mapping[str, tuple[str, Callable[[str], object], str]]] = {
    SORT: ("order", _OneOf(_ORDERS), "not fifo or fair"),
    "application.sort.priority": (
        "sorts_by_priority",
        _OneOf({"enabled": True, "disabled": False}),
        "not enabled or disabled",
    ),
    _PRIORITY: ("priority", _OneOf({policy.value: policy for policy in PriorityPolicy}), "not default or fence"),
    _OFFSET: ("priority_offset", _number(-_MOST_OFFSET - 1, _MOST_OFFSET), "not a whole number of 32 bits"),
    _PREEMPTION: (
        "preemption",
        _OneOf({policy.value: policy for policy in PreemptionPolicy}),
        "not default, fence or disabled",
    ),
    "preemption.delay": ("preemption_delay_ns", _span(1), "not a duration longer than 0"),
    "preemption.daemonsets": ("daemonsets_preempt_all", _OneOf({"true": True, "false": False}), "not true or false"),
    _QUOTA_DELAY: ("quota_preemption_delay_ns", _span(0), "not a duration"),
    "application.unschedasks.backoff": ("backoff_after", _number(0, _MOST_COUNT), "not a whole number of 0 or more"),
    "application.unschedasks.backoff.delay": ("backoff_delay_ns", _span(1), "not a duration longer than 0"),
}


def inherited(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties that a configured child inherits from its parent."""
    return {
        key: value
        for key, value in properties.items()
        if key not in _OWN_ONLY and (key != _PREEMPTION or value.strip().lower() == PreemptionPolicy.DISABLED)
    }


def policies(properties: Mapping[str, str]) -> QueuePolicies:
    """Converts effective properties. Invalid values are replaced by the default."""
    known: dict[str, Any] = {}
    for key, text in properties.items():
        if key in _READERS and (value := _value(key, text)) is not None:
            known[_READERS[key][0]] = value
    return replace(DEFAULT_POLICIES, **known)


def of_root(effective: QueuePolicies) -> QueuePolicies:
    """Removes policies that have no effect on root, because root has no siblings."""
    return replace(
        effective,
        priority=DEFAULT_POLICIES.priority,
        priority_offset=DEFAULT_POLICIES.priority_offset,
        preemption=DEFAULT_POLICIES.preemption,
        quota_preemption_delay_ns=DEFAULT_POLICIES.quota_preemption_delay_ns,
    )


def on_demand(effective: QueuePolicies) -> QueuePolicies:
    """Removes policies that have no effect on a dynamic queue: a configuration never lowers its maximum."""
    return replace(effective, quota_preemption_delay_ns=DEFAULT_POLICIES.quota_preemption_delay_ns)


def check(properties: Mapping[str, str], path: str, notes: Findings) -> None:
    """Adds warnings about unknown properties and invalid values."""
    for key, text in properties.items():
        if key not in _READERS:
            instead = INSTEAD_OF_PROPERTY.get(plain(key))
            meant = "" if instead else notes.meant(key, _READERS)
            advice = f"; write {instead} of the queue" if instead else f"; did you mean {meant}?" if meant else ""
            notes.odd(below(path, key), f"is not a known property and has no effect{advice}")
        elif _value(key, text) is None:
            _, reader, problem_of_value = _READERS[key]
            meant = notes.meant(text, reader.choices) if isinstance(reader, _OneOf) else ""
            advice = f"; did you mean {meant}?" if meant else ""
            notes.odd(below(path, key), f"{text[:80]!r} is {problem_of_value}; the default is used{advice}")


def check_root(properties: Mapping[str, str], path: str, notes: Findings) -> None:
    """Adds warnings about properties that have no effect on root."""
    for key in (_PRIORITY, _OFFSET, _PREEMPTION, _QUOTA_DELAY):
        if key in properties:
            notes.odd(below(path, key), "has no effect on root itself")


def check_on_demand(properties: Mapping[str, str], path: str, notes: Findings) -> None:
    """Adds warnings about properties that have no effect in a template."""
    if _QUOTA_DELAY in properties:
        notes.odd(below(path, _QUOTA_DELAY), "has no effect on queues that are created on demand")


def _value(key: str, text: str) -> object:
    """Returns the value of a known property; None = invalid."""
    try:
        return _READERS[key][1](text.strip())
    except (KeyError, ValueError, ConfigurationError):
        return None


def template(form: TemplateForm, path: str, notes: Findings) -> ChildTemplate | None:
    """Returns the template; None = it is empty, so the inherited one applies. Raises ConfigurationError."""
    for what, names in (("max", form.resources.max), ("guaranteed", form.resources.guaranteed)):
        notes.resources(names, below(path, f"resources.{what}"))
    most = Limit(valid_amounts(form.resources.max, below(path, "resources.max"), notes))
    guaranteed = Resources(valid_amounts(form.resources.guaranteed, below(path, "resources.guaranteed"), notes))
    if not (most or guaranteed or form.maxapplications or form.properties):
        notes.odd(path, "is empty and is ignored")
        return None
    for name in most.excess(guaranteed):
        raise ConfigurationError(
            below(path, f"resources.guaranteed.{name}"),
            as_written(name, guaranteed[name]),
            "exceeds the max of the template",
            "lower guaranteed, or raise max",
        )
    spot = below(path, "properties")
    check(form.properties, spot, notes)
    check_on_demand(form.properties, spot, notes)
    return ChildTemplate(
        max=most,
        guaranteed=guaranteed,
        max_applications=form.maxapplications,
        properties=form.properties,
        policies=on_demand(policies(form.properties)),
    )


_NAME: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")

#: Queue for recovered applications that no rule places.
_RECOVERY: Final = "@recovery@"


@dataclass(frozen=True, slots=True)
class ParentQueue:
    """What a queue inherits from its ancestors."""

    is_root: bool = False
    bound: LimitBound = UNBOUND
    ceilings: Ceilings = field(default_factory=Ceilings)
    properties: Mapping[str, str] = field(default_factory=dict)
    template: ChildTemplate | None = None
    path: str = ""
    #: By property: the queue that sets it.
    origins: Mapping[str, str] = field(default_factory=dict)


def root(forms: Sequence[QueueForm], limit_forms: Sequence[LimitForm], path: str, notes: Findings) -> QueueConfig:
    """Returns the queue tree of the partition at `path`. Errors are added to `notes`.

    Adds `root` if the file omits it. The limits of the partition are those of root.
    """
    spot = below(path, "queues")
    if len(forms) != 1 or forms[0].name.lower() != ROOT:
        found, ceilings = limits(limit_forms, below(path, "limits"), UNBOUND, Ceilings(), notes)
        children = _children(forms, spot, ParentQueue(ceilings=ceilings, path=ROOT), notes)
        return QueueConfig(ROOT, parent=True, children=children, limits=found)
    form, spot = forms[0], below(spot, 0)
    _check_root(form, limit_forms, path, spot, notes)
    most = LimitBound(max_applications=form.maxapplications or 0)
    shared = () if form.limits else limit_forms
    found, ceilings = limits(shared, below(path, "limits"), most, Ceilings(), notes)
    top = _queue(form, spot, ParentQueue(is_root=True, ceilings=ceilings), notes)
    check_root(form.properties, below(spot, "properties"), notes)
    return replace(top, parent=True, policies=of_root(top.policies), limits=top.limits or found)


def _check_root(form: QueueForm, limit_forms: Sequence[LimitForm], path: str, spot: str, notes: Findings) -> None:
    if form.parent is False:
        notes.wrong(ConfigurationError(below(spot, "parent"), "false", "is not possible for root", "remove it"))
    if form.resources.max or form.resources.guaranteed:
        rule, fix = "always has the resources of all nodes", "set them on the queues below root"
        notes.wrong(ConfigurationError(below(spot, "resources"), ROOT, rule, fix))
    if limit_forms and form.limits and list(limit_forms) != form.limits:
        rule, fix = "differs from the limits of root", "keep one of the two lists"
        notes.wrong(ConfigurationError(below(path, "limits"), None, rule, fix))


def partition_name(name: str, path: str) -> str:
    """Returns the name in lower case. Raises ConfigurationError for an invalid name."""
    return _checked(name, path, "partition")


def queue_name(name: str, path: str) -> str:
    """Returns the name in lower case. Raises ConfigurationError for an invalid name."""
    _checked(name, path, "queue")
    if name.lower() == _RECOVERY:
        raise ConfigurationError(path, name, "is reserved for recovered applications", "choose another name")
    return name.lower()


def _checked(name: str, path: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            path, name, f"is not a {what} name", "use 1 to 64 letters, digits and _ : # / @ -, without dots"
        )
    return name.lower()


def _children(forms: Sequence[QueueForm], path: str, above: ParentQueue, notes: Findings) -> tuple[QueueConfig, ...]:
    children: dict[str, QueueConfig] = {}
    for index, form in enumerate(forms):
        spot = below(path, index)
        with notes.collecting():
            child = _queue(form, spot, above, notes)
            if child.name in children:
                raise ConfigurationError(
                    below(spot, "name"),
                    form.name,
                    "is the name of another queue of the same parent",
                    "rename one; names are not case-sensitive",
                )
            children[child.name] = child
    return tuple(children.values())


def _queue(form: QueueForm, path: str, above: ParentQueue, notes: Findings) -> QueueConfig:
    """Returns the queue without the parts that have errors, which are added to `notes`: the parts are independent."""
    name = form.name.lower()
    with notes.collecting():
        queue_name(form.name, below(path, "name"))
    if form.parent is False and form.queues and not above.is_root:
        rule, fix = "is not possible for a queue with children", "remove it, or write true"
        notes.wrong(ConfigurationError(below(path, "parent"), "false", rule, fix))
    own_max, guaranteed = quotas.resources(form, path, above.bound.max, notes)
    most = quotas.applications(form, path, above.bound.max_applications, notes)
    found, ceilings = limits(form.limits, below(path, "limits"), LimitBound(own_max, most), above.ceilings, notes)
    own_path = f"{above.path}.{name}" if above.path else name
    passed = inherited(above.properties)
    here = ParentQueue(
        path=own_path,
        origins={key: above.origins.get(key, above.path) for key in passed} | dict.fromkeys(form.properties, own_path),
        bound=above.bound.narrowed(LimitBound(own_max, most)),
        ceilings=ceilings,
        properties=passed | form.properties,
        template=_template(form, path, notes, above, own_path) or above.template,
    )
    known_errors = len(notes.errors())
    children = _children(form.queues, below(path, "queues"), here, notes)
    with notes.collecting() if len(notes.errors()) == known_errors else suppress(ConfigurationError):
        quotas.check_children(children, guaranteed, here.bound.max, below(path, "queues"))
    check(form.properties, below(path, "properties"), notes)
    return QueueConfig(
        name=name,
        parent=form.parent is True or bool(form.queues),
        children=children,
        max=own_max,
        guaranteed=guaranteed,
        max_applications=most,
        properties=here.properties,
        origins=here.origins,
        policies=policies(here.properties),
        submit_acl=_access(form.submitacl, below(path, "submitacl"), notes),
        admin_acl=_access(form.adminacl, below(path, "adminacl"), notes),
        limits=found,
        template=here.template,
    )


def _template(form: QueueForm, path: str, notes: Findings, above: ParentQueue, own_path: str) -> ChildTemplate | None:
    if form.childtemplate is None:
        return None
    spot = below(path, "childtemplate")
    if not (form.queues or form.parent or above.is_root):
        notes.odd(spot, "has no effect on a leaf")
    found = None
    with notes.collecting():
        found = template(form.childtemplate, spot, notes)
    return None if found is None else replace(found, origin=own_path)


_TYPES: Final = {"": True, "allow": True, "deny": False}
_SPECIAL: Final = frozenset("^$*+?()[{}|")


def rule_filter(form: FilterForm, path: str, notes: Findings) -> RuleFilter:
    """Returns the filter of a rule. Raises ConfigurationError."""
    allow = _TYPES.get(form.type.lower())
    if allow is None:
        raise ConfigurationError(below(path, "type"), form.type, "is not a type of filter", "write allow or deny")
    users, user_expression = _entries(form.users, is_user, "user", below(path, "users"), notes)
    groups, group_expression = _entries(form.groups, is_group, "group", below(path, "groups"), notes)
    return RuleFilter(allow, users, groups, user_expression, group_expression)


def _entries(
    entries: Sequence[str], is_name: Callable[[str], bool], kind: str, path: str, notes: Findings
) -> tuple[frozenset[str], str]:
    """Returns the names and the regular expression."""
    if len(entries) == 1:
        return _only(entries[0], is_name, kind, below(path, 0))
    names = set()
    for index, entry in enumerate(entries):
        if not is_name(entry):
            notes.odd(below(path, index), f"{entry[:80]!r} is not a {kind} name and is ignored")
        elif entry in names:
            notes.odd(below(path, index), f"{entry!r} is listed twice")
        names |= {entry} if is_name(entry) else set()
    if entries and not names:
        raise ConfigurationError(path, ", ".join(entries), f"has no valid {kind} name", "name one, or remove it")
    return frozenset(names), ""


def _only(entry: str, is_name: Callable[[str], bool], kind: str, path: str) -> tuple[frozenset[str], str]:
    if _SPECIAL.isdisjoint(entry):
        if not is_name(entry):
            raise ConfigurationError(
                path,
                entry,
                f"is neither a {kind} name nor a regular expression",
                "write a name, or an expression: ^dev-",
            )
        return frozenset({entry}), ""
    if why := problem(entry):
        raise ConfigurationError(path, entry, f"is not a regular expression: {why}", "use RE2 syntax, such as ^dev-")
    return frozenset(), entry


_NAMES: Final = ("provided", "user", "fixed", "tag")

#: Tags of applications that can name a queue.
_TAGS: Final = (APP_TAG_NAMESPACE, APP_TAG_PARENT_QUEUE)
_FIXED: Final = "fixed"
_QUALIFIED: Final = f"{ROOT}."


def rules(forms: Sequence[RuleForm], path: str, root: QueueConfig | None, notes: Findings) -> tuple[PlacementRule, ...]:
    """Returns the rules in their order. Errors are added to `notes`.

    `root`: None if the queues have errors, so that the queues that rules name are not checked.
    """
    found = []
    for index, form in enumerate(forms):
        spot = below(path, index)
        with notes.collecting():
            rule = _rule(form, spot, notes)
            if root is not None:
                _check_fixed_part(rule, spot, root)
            found.append(rule)
    return tuple(found)


def _rule(form: RuleForm, path: str, notes: Findings) -> PlacementRule:
    name = form.name.lower()
    if name not in _NAMES:
        meant = notes.meant(name, _NAMES)
        fix = f"{f'did you mean {meant}? ' if meant else ''}choose one of {', '.join(_NAMES)}"
        raise ConfigurationError(below(path, "name"), form.name, "is not a placement rule", fix)
    value = _rule_value(name, form.value, below(path, "value"))
    if name == "tag" and value not in _TAGS:
        meant = notes.meant(value, _TAGS)
        advice = f"; did you mean {meant}?" if meant else f"; the tags are {', '.join(_TAGS)}"
        if value == "queue":
            advice = "; the rule provided reads the queue that a pod names"
        notes.odd(below(path, "value"), f"{value[:80]!r} is not a tag of applications of Kubernetes{advice}")
    parent = None if form.parent is None else _rule(form.parent, below(path, "parent"), notes)
    if name == _FIXED and parent is not None and value.startswith(_QUALIFIED):
        raise ConfigurationError(
            below(path, "value"), form.value, "starts at root and has a parent rule too", "remove one of the two"
        )
    who = None if form.filter is None else rule_filter(form.filter, below(path, "filter"), notes)
    return PlacementRule(name, create=form.create, value=value, parent=parent, filter=who)


def _rule_value(name: str, value: str, path: str) -> str:
    if name == _FIXED:
        if not value:
            raise ConfigurationError(path, None, "is required by the rule fixed", "write the path of a queue")
        return ".".join(queue_name(part, path) for part in value.split("."))
    if name == "tag" and not value:
        raise ConfigurationError(path, None, "is required by the rule tag", "write a tag, such as namespace")
    return value


def _check_fixed_part(rule: PlacementRule, path: str, root: QueueConfig) -> None:
    """Checks that the leading fixed rules of a chain name existing queues, or queues that may be created."""
    place: str = ROOT
    for step in _innermost_first(rule):
        if step.name != _FIXED:
            break
        place = _joined(place, step.value)
        _check_place(place, path, root, create=step.create, is_target=step is rule)


def _innermost_first(rule: PlacementRule) -> Iterator[PlacementRule]:
    if rule.parent is not None:
        yield from _innermost_first(rule.parent)
    yield rule


def _joined(place: str, value: str) -> str:
    return value if value == ROOT or value.startswith(_QUALIFIED) else f"{place}.{value}"


def _check_place(place: str, path: str, root: QueueConfig, *, create: bool, is_target: bool) -> None:
    queue = root
    for name in place.split(".")[1:]:
        child = next((child for child in queue.children if child.name == name), None)
        if child is None:
            if not queue.parent:
                raise ConfigurationError(path, place, f"would be below the leaf {queue.name}", "name another queue")
            if not create:
                raise ConfigurationError(path, place, "is not a queue", "add it under queues, or write create: true")
            return
        queue = child
    if is_target and queue.parent:
        raise ConfigurationError(path, place, "is a parent queue and accepts no applications", "name a leaf")
    if not is_target and not queue.parent:
        raise ConfigurationError(path, place, "is a leaf and can have no queue below it", "name a parent queue")
