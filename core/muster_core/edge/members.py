"""The task groups of a gang as the application tag `muster/members` lists them (muster_si.keys).

Each distinct text is read once. Called by fields.py; raises Unfit, which names what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from muster_core.edge import facts, pod_facts
from muster_core.edge.facts import QUANTITY_LIMIT
from muster_core.edge.reading import (
    NAME_LIMIT,
    Object,
    an_object,
    each,
    flag,
    number,
    only,
    pairs,
    parsed,
    remembered,
    text_of,
)
from muster_core.edge.refusals import Unfit
from muster_core.model.company import ANY_COMPANY
from muster_core.model.facts import NO_FACTS, NO_PREFERENCES, PodFacts
from muster_core.model.ids import TaskGroup
from muster_core.model.limits import MEMBERS_PER_GANG, QUANTITY, TASK_GROUPS_PER_GANG
from muster_core.model.specs import Member
from muster_si import keys

_FIELDS: Final = frozenset({"name", "minMember", "resource", "constraints", "podConstraints", "labels"})
#: Of places without pods, which have no other pod to say it.
_PODLESS_FIELDS: Final = frozenset({"preferences", "priority", "allowPreemptSelf", "allowPreemptOther"})
_PRIORITY_LIMIT: Final = 2**31


@remembered
def read(text: str, namespace: str) -> tuple[Member, ...]:
    """The value of the tag, of an application in this namespace."""
    listed = parsed(text)
    if isinstance(listed, list) and len(listed) > TASK_GROUPS_PER_GANG:
        raise Unfit(
            "members", f"has {len(listed)} task groups, the limit is {TASK_GROUPS_PER_GANG}: define fewer groups"
        )
    found = each(listed, "members", lambda one: _member(one, namespace))
    names = [member.group for member in found]
    if len(set(names)) < len(names):
        raise Unfit("members", "name a task group twice")
    if (total := sum(member.count for member in found)) > MEMBERS_PER_GANG:
        raise Unfit("minMember", f"of all task groups is {total}, the limit is {MEMBERS_PER_GANG}: reduce minMember")
    return found


def _member(found: Object, namespace: str) -> Member:
    only(found, _FIELDS | _PODLESS_FIELDS)
    name, count = text_of(found, "name"), found.get("minMember")
    if not name or len(name) > NAME_LIMIT:
        raise Unfit("name", "is empty or too long")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < QUANTITY_LIMIT:
        raise Unfit("minMember", f"of {name!r} is not a positive number")
    amounts = an_object(found.get("resource") or {}, "resource")
    if not all(isinstance(amount, int) and not isinstance(amount, bool) for amount in amounts.values()):
        raise Unfit("resource", f"of {name!r} holds something that is not a whole number")
    labels = ((keys.TAG_POD_LABEL_PREFIX + key, value) for key, value in pairs(found.get("labels"), "labels"))
    resources = facts.resources(cast("Mapping[str, int]", amounts), QUANTITY)
    if any(amount * count > QUANTITY_LIMIT for _, amount in resources.items()):
        raise Unfit("minMember", f"of {name!r} is absurd")
    return Member(
        group=TaskGroup(name),
        count=count,
        resources=resources,
        constraints=facts.constraints_of(an_object(found.get("constraints") or {}, "constraints")),
        facts=_facts(found, namespace),
        tags=((keys.TAG_NAMESPACE, namespace), *labels),
        priority=number(found, "priority", least=-_PRIORITY_LIMIT, most=_PRIORITY_LIMIT),
        allow_preempt_self=flag(found, "allowPreemptSelf", default=True),
        allow_preempt_other=flag(found, "allowPreemptOther", default=True),
    )


def _facts(found: Object, namespace: str) -> PodFacts:
    company = pod_facts.company_of(an_object(found.get("podConstraints") or {}, "podConstraints"), namespace)
    liked = an_object(found.get("preferences") or {}, "preferences")
    if company == ANY_COMPANY and not liked:
        return NO_FACTS
    return PodFacts(company, preferences=pod_facts.preferences_of(liked) if liked else NO_PREFERENCES)
