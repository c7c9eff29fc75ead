"""The queue tree: names, parents and leaves, and amounts that must agree down the tree.

Source: contract 2.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from muster_core.edge.config import limits, properties
from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.quantities import amounts, as_written
from muster_core.edge.config.schema import QueueForm
from muster_core.model.access import EVERYBODY, Access
from muster_core.model.config import QueueConfig
from muster_core.model.errors import ConfigurationError
from muster_core.model.ids import ROOT
from muster_core.model.policies import QueuePolicies
from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources
from muster_si.keys import CPU

_NAME: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
_MOST_ACL_FIELDS: Final = 2
_EVERYBODY: Final = "*"
#: Kubernetes' name for what queues.yaml calls vcore.
_MISTAKEN: Final = "cpu"


@dataclass(frozen=True, slots=True)
class Above:
    """What a queue has from those above it. `max_applications` 0 = unlimited."""

    max: Limit = UNLIMITED
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


def root(forms: Sequence[QueueForm], path: str, notes: Notes) -> QueueConfig:
    """The tree of a partition; `root` is put on top where the file leaves it out. Raises ConfigurationError."""
    if len(forms) != 1 or forms[0].name.lower() != ROOT:
        return QueueConfig(ROOT, parent=True, children=_children(forms, path, Above(), notes))
    form, path = forms[0], below(path, 0)
    if form.parent is False:
        raise ConfigurationError(below(path, "parent"), "false", "cannot be of root", "leave it out")
    if form.resources.max or form.resources.guaranteed:
        raise ConfigurationError(
            below(path, "resources"),
            ROOT,
            "has what the nodes have and cannot be given resources",
            "set them on the queues below root",
        )
    return replace(_queue(form, path, Above(), notes), parent=True)


def queue_name(name: str, path: str) -> str:
    """The name in lower case. Raises ConfigurationError for one that no queue may have."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            path, name, "is not a queue name", "use 1 to 64 letters, digits and _ : # / @ -, without dots"
        )
    return name.lower()


def _children(forms: Sequence[QueueForm], path: str, above: Above, notes: Notes) -> tuple[QueueConfig, ...]:
    children: dict[str, QueueConfig] = {}
    for index, form in enumerate(forms):
        spot = below(path, index)
        child = _queue(form, spot, above, notes)
        if child.name in children:
            raise ConfigurationError(
                below(spot, "name"),
                form.name,
                "is the name of another queue beside it",
                "rename one; case does not count",
            )
        children[child.name] = child
    return tuple(children.values())


def _queue(form: QueueForm, path: str, above: Above, notes: Notes) -> QueueConfig:
    name = queue_name(form.name, below(path, "name"))
    if form.parent is False and form.queues:
        raise ConfigurationError(
            below(path, "parent"), "false", "is untrue: there are queues below it", "leave it out or write true"
        )
    own_max, guaranteed = _amounts(form, path, above, notes)
    most = _max_applications(form, path, above, notes)
    effective = properties.inherited(above.properties) | form.properties
    here = Above(above.max.narrowed(own_max), most, effective)
    children = _children(form.queues, below(path, "queues"), here, notes)
    _check_promises(children, guaranteed, here.max, below(path, "queues"))
    _check_access(form, path, notes)
    limits.check(form.limits, below(path, "limits"), notes)
    if form.childtemplate is not None:
        _check_template(form, below(path, "childtemplate"), notes)
    properties.check(form.properties, below(path, "properties"), notes)
    return QueueConfig(
        name=name,
        parent=form.parent is True or bool(children),
        children=children,
        max=own_max,
        guaranteed=guaranteed,
        max_applications=most,
        properties=effective,
        policies=QueuePolicies(order=properties.order(effective)),
        submit_acl=_access(form.submitacl),
        admin_acl=_access(form.adminacl),
    )


def _amounts(form: QueueForm, path: str, above: Above, notes: Notes) -> tuple[Limit, Resources]:
    spot = below(path, "resources")
    own_max = Limit(amounts(form.resources.max, below(spot, "max")))
    guaranteed = Resources(amounts(form.resources.guaranteed, below(spot, "guaranteed")))
    if own_max.get(_MISTAKEN) is not None:
        notes.odd(below(below(spot, "max"), _MISTAKEN), f"has no effect, {_MISTAKEN} is called {CPU} here")
    for name, bound in own_max.items():
        over = above.max.get(name)
        if over is not None and bound > over:
            raise ConfigurationError(
                below(below(spot, "max"), name),
                (form.resources.max or {})[name],
                f"is more than the {as_written(name, over)} of a queue above it",
                "write at most that",
            )
    for name in above.max.narrowed(own_max).excess(guaranteed):
        raise ConfigurationError(
            below(below(spot, "guaranteed"), name),
            (form.resources.guaranteed or {})[name],
            "is more than the max of the queue or of one above it",
            "guarantee less or raise the max",
        )
    return own_max, guaranteed


def _max_applications(form: QueueForm, path: str, above: Above, notes: Notes) -> int:
    spot, most = below(path, "maxapplications"), form.maxapplications
    if most == 0:
        notes.odd(spot, "0 means unlimited")
    if above.max_applications and not most:
        raise ConfigurationError(
            spot, "nothing", "is required below a queue that has it", f"write 1 to {above.max_applications}"
        )
    if above.max_applications and most and most > above.max_applications:
        raise ConfigurationError(
            spot,
            str(most),
            f"is more than the {above.max_applications} of the queue above",
            "write at most that",
        )
    return most or 0


def _check_promises(children: Sequence[QueueConfig], guaranteed: Resources, most: Limit, path: str) -> None:
    total = NOTHING
    for child in children:
        total += _promised(child)
    bounds = (("guaranteed", Limit(dict(guaranteed.items()))), ("max", most))
    for what, bound in bounds:
        for name in bound.excess(total):
            raise ConfigurationError(
                path,
                f"{as_written(name, total[name])} of {name}",
                f"is guaranteed in all, more than the {what} above it ({as_written(name, bound.get(name) or 0)})",
                f"guarantee less in the children or raise the {what}",
            )


def _promised(queue: QueueConfig) -> Resources:
    """What the queue guarantees: its own word, or its children's where theirs is more."""
    total = NOTHING
    for child in queue.children:
        total += _promised(child)
    return Resources({name: max(queue.guaranteed[name], total[name]) for name in {*queue.guaranteed, *total}})


def _access(acl: str) -> Access:
    if acl.strip() == _EVERYBODY:
        return EVERYBODY
    users, _, groups = acl.partition(" ")
    return Access(users=frozenset(users.split(",")) - {""}, groups=frozenset(groups.split(",")) - {""})


def _check_access(form: QueueForm, path: str, notes: Notes) -> None:
    for key, acl in (("submitacl", form.submitacl), ("adminacl", form.adminacl)):
        if len(acl.split()) > _MOST_ACL_FIELDS:
            raise ConfigurationError(
                below(path, key), acl, "has more than two parts", "write users, one blank, groups; commas within each"
            )
        if acl.strip() not in {"", _EVERYBODY}:
            notes.idle(below(path, key))


def _check_template(form: QueueForm, path: str, notes: Notes) -> None:
    template = form.childtemplate
    if template is None:
        return
    most = Limit(amounts(template.resources.max, below(path, "resources.max")))
    guaranteed = Resources(amounts(template.resources.guaranteed, below(path, "resources.guaranteed")))
    for name in most.excess(guaranteed):
        raise ConfigurationError(
            below(path, f"resources.guaranteed.{name}"),
            as_written(name, guaranteed[name]),
            "is more than the max of the template",
            "guarantee less or raise the max",
        )
    notes.idle(path)
