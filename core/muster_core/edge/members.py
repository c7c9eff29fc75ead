"""The task groups of a gang as the application tag `muster/members` lists them (muster_si.keys).

Each distinct text is read once. Called by fields.py; raises Unfit, which names what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, cast

from muster_core.edge import facts, pod_facts
from muster_core.edge.facts import QUANTITY_LIMIT
from muster_core.edge.reading import NAME_LIMIT, REMEMBERED, Object, an_object, each, only, pairs, parsed, text_of
from muster_core.edge.refusals import Unfit
from muster_core.model.ids import TaskGroup
from muster_core.model.specs import Member
from muster_si import keys

_FIELDS: Final = frozenset({"name", "minMember", "resource", "constraints", "podConstraints", "labels"})


@lru_cache(maxsize=REMEMBERED)
def read(text: str, namespace: str) -> tuple[Member, ...]:
    """The value of the tag, of an application in this namespace."""
    found = each(parsed(text), "members", lambda one: _member(one, namespace))
    names = [member.group for member in found]
    if len(set(names)) < len(names):
        raise Unfit("members", "name a task group twice")
    return found


def _member(found: Object, namespace: str) -> Member:
    only(found, _FIELDS)
    name, count = text_of(found, "name"), found.get("minMember")
    if not name or len(name) > NAME_LIMIT:
        raise Unfit("name", "is empty or too long")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < QUANTITY_LIMIT:
        raise Unfit("minMember", f"of {name!r} is not a positive number")
    amounts = an_object(found.get("resource") or {}, "resource")
    if not all(isinstance(amount, int) and not isinstance(amount, bool) for amount in amounts.values()):
        raise Unfit("resource", f"of {name!r} holds something that is not a whole number")
    company = pod_facts.company_of(an_object(found.get("podConstraints") or {}, "podConstraints"), namespace)
    labels = ((keys.TAG_POD_LABEL_PREFIX + key, value) for key, value in pairs(found.get("labels"), "labels"))
    return Member(
        group=TaskGroup(name),
        count=count,
        resources=facts.resources(cast("Mapping[str, int]", amounts)),
        constraints=facts.constraints_of(an_object(found.get("constraints") or {}, "constraints")),
        apart=company.apart,
        tags=((keys.TAG_NAMESPACE, namespace), *labels),
        near=company.near,
    )
