"""The queue tree: names, parents and leaves, and what comes down from a queue to those below it.

Source: contract 2.3, 2.5, 2.6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from muster_core.edge.config import promises, properties
from muster_core.edge.config.access import access
from muster_core.edge.config.document import below
from muster_core.edge.config.limits import UNBOUND, Bound, Ceilings, limits
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.schema import LimitForm, QueueForm
from muster_core.edge.config.templates import template
from muster_core.model.config import ChildTemplate, QueueConfig
from muster_core.model.errors import ConfigurationError
from muster_core.model.ids import ROOT

_NAME: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
#: Where applications go that are recovered and have no other place (contract 2.10).
_RECOVERY: Final = "@recovery@"


@dataclass(frozen=True, slots=True)
class Above:
    """What a queue has from those above it; root has nobody above."""

    is_root: bool = False
    bound: Bound = UNBOUND
    ceilings: Ceilings = field(default_factory=Ceilings)
    properties: Mapping[str, str] = field(default_factory=dict)
    template: ChildTemplate | None = None


def root(forms: Sequence[QueueForm], limit_forms: Sequence[LimitForm], path: str, notes: Notes) -> QueueConfig:
    """The tree of a partition at `path`; `root` is put on top where the file leaves it out, and the partition's
    limits are those of root. Raises ConfigurationError.
    """
    spot = below(path, "queues")
    if len(forms) != 1 or forms[0].name.lower() != ROOT:
        found, ceilings = limits(limit_forms, below(path, "limits"), UNBOUND, Ceilings(), notes)
        children = _children(forms, spot, Above(ceilings=ceilings), notes)
        return QueueConfig(ROOT, parent=True, children=children, limits=found)
    form, spot = forms[0], below(spot, 0)
    _check_root(form, limit_forms, path, spot)
    most = Bound(max_applications=form.maxapplications or 0)
    shared = () if form.limits else limit_forms
    found, ceilings = limits(shared, below(path, "limits"), most, Ceilings(), notes)
    top = _queue(form, spot, Above(is_root=True, ceilings=ceilings), notes)
    properties.check_root(form.properties, below(spot, "properties"), notes)
    return replace(top, parent=True, policies=properties.of_root(top.policies), limits=top.limits or found)


def _check_root(form: QueueForm, limit_forms: Sequence[LimitForm], path: str, spot: str) -> None:
    if form.parent is False:
        raise ConfigurationError(below(spot, "parent"), "false", "cannot be of root", "leave it out")
    if form.resources.max or form.resources.guaranteed:
        raise ConfigurationError(
            below(spot, "resources"),
            ROOT,
            "has what the nodes have and cannot be given resources",
            "set them on the queues below root",
        )
    if limit_forms and form.limits and list(limit_forms) != form.limits:
        raise ConfigurationError(
            below(path, "limits"), "the limits", "differ from those of root", "keep one of the two lists"
        )


def queue_name(name: str, path: str) -> str:
    """The name in lower case. Raises ConfigurationError for one that no queue may have."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            path, name, "is not a queue name", "use 1 to 64 letters, digits and _ : # / @ -, without dots"
        )
    if name.lower() == _RECOVERY:
        raise ConfigurationError(
            path, name, "is kept for applications that are recovered", "choose another name; that queue makes itself"
        )
    return name.lower()


def _children(forms: Sequence[QueueForm], path: str, above: Above, notes: Notes) -> tuple[QueueConfig, ...]:
    children: dict[str, QueueConfig] = {}
    for index, form in enumerate(forms):
        spot = below(path, index)
        with notes.collecting():
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
    own_max, guaranteed = promises.resources(form, path, above.bound.max, notes)
    most = promises.applications(form, path, above.bound.max_applications, notes)
    found, ceilings = limits(form.limits, below(path, "limits"), Bound(own_max, most), above.ceilings, notes)
    here = Above(
        bound=above.bound.narrowed(Bound(own_max, most)),
        ceilings=ceilings,
        properties=properties.inherited(above.properties) | form.properties,
        template=_template(form, path, notes, above) or above.template,
    )
    children = _children(form.queues, below(path, "queues"), here, notes)
    promises.check_children(children, guaranteed, here.bound.max, below(path, "queues"))
    properties.check(form.properties, below(path, "properties"), notes)
    return QueueConfig(
        name=name,
        parent=form.parent is True or bool(form.queues),
        children=children,
        max=own_max,
        guaranteed=guaranteed,
        max_applications=most,
        properties=here.properties,
        policies=properties.policies(here.properties),
        submit_acl=access(form.submitacl, below(path, "submitacl"), notes),
        admin_acl=access(form.adminacl, below(path, "adminacl"), notes),
        limits=found,
        template=here.template,
    )


def _template(form: QueueForm, path: str, notes: Notes, above: Above) -> ChildTemplate | None:
    if form.childtemplate is None:
        return None
    spot = below(path, "childtemplate")
    if not (form.queues or form.parent or above.is_root):
        notes.odd(spot, "has no effect on a leaf")
    return template(form.childtemplate, spot, notes)
