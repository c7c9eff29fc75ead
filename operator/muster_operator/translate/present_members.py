"""What the present pods of a task group have in common, for the placeholders of the group (semantics, rule 15).

A pod can request more than its task group says, for example because of a LimitRange, an injected container or a
RuntimeClass, and it can have constraints that the task group leaves out. A placeholder that is smaller, or on a node
that no member can use, reserves nothing that a member can take.

Differs: placeholders request the maximum of their task group and its present pods and have the node constraints that
all these pods have; YuniKorn creates them from the task group only.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import islice
from typing import Any, Final, TypeVar

from muster_operator.model.ids import PodUid, Resources, larger
from muster_operator.model.pods import Pod, TaskGroup
from muster_operator.translate.constraints import constraints_tag, pod_constraints_tag
from muster_operator.translate.values import Raw, canonical
from muster_si import keys

#: Every pod gets these tolerations from the API server (DefaultTolerationSeconds), placeholders too.
_DEFAULT_TOLERATIONS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

#: Constraints of a member that its placeholder has in the core only. Tolerations are not among them: a kubelet evicts a
#: placeholder pod without them.
_NODE: Final = frozenset({"nodeSelector", "nodeAffinity", "features"})

#: Number of different constraints of members that a report names at most.
_MOST_REPORTED: Final = 64

_Requested = tuple[tuple[str, int], ...]
_Texts = tuple[str, str, str]

#: Constraints that placeholder pods never get. A copy on a placeholder pod needs the labels of the members, and
#: their controller would adopt a pod with these labels; host ports are forbidden by the Pod Security Standards.
_SHOWN: Final = {"affinity": "podAffinity", "antiAffinity": "podAntiAffinity", "spread": "topologySpreadConstraints"}
_INTER_POD: Final = frozenset(_SHOWN)


class PresentMembers:
    """The maximum of what the present members of a task group request, and the constraints that all of them have.

    A placeholder is paired with a member, so that the core plans the placeholder with the constraints of that pod.
    Members are counted by what they request, so that the end of one among many equal ones needs no computation.
    """

    def __init__(self) -> None:
        self._members: dict[PodUid, tuple[_Requested, _Texts]] = {}
        self._amounts: Counter[_Requested] = Counter()
        self._texts: Counter[_Texts] = Counter()
        self._resources: Resources = {}
        self._node: Raw = {}
        self._is_stale = False
        self._alone: deque[PodUid] = deque()
        self._pairs: dict[PodUid, PodUid] = {}
        self._group: TaskGroup | None = None
        self._result: TaskGroup | None = None

    def add(self, pod: Pod) -> bool:
        """Adds a member. Returns whether the group changes for placeholders that are created later."""
        self._refresh()
        before = (self._resources, self._node)
        amounts, texts = self._members[pod.ref.uid] = _amounts(pod), _texts(pod)
        self._alone.append(pod.ref.uid)
        if amounts not in self._amounts:
            self._resources = larger(self._resources, dict(amounts))
        if texts not in self._texts:
            node = _parsed(texts[0])
            self._node = _shared(self._node, node) if self._texts else node
        self._amounts[amounts] += 1
        self._texts[texts] += 1
        if before == (self._resources, self._node):
            return False
        self._group = None
        return True

    def remove(self, member: PodUid) -> bool:
        """Removes a member. Returns whether the group may change for placeholders that are created later."""
        found = self._members.pop(member, None)
        if found is None:
            return False
        was_last = [_count_down(self._amounts, found[0]), _count_down(self._texts, found[1])]
        self._is_stale = self._is_stale or any(was_last)
        return any(was_last)

    def _refresh(self) -> None:
        """Computes the maximum and the common constraints again if members have ended that may have decided them."""
        if self._is_stale:
            self._is_stale, self._group = False, None
            self._resources = reduce(larger, map(dict, self._amounts), {})
            node = [_parsed(text) for text, *_ in self._texts]
            self._node = reduce(_shared, node) if node else {}

    def pair(self, placeholder: PodUid) -> None:
        """Pairs a placeholder with a member that has none. Without such a member it stays alone."""
        while self._alone and placeholder not in self._pairs:
            member = self._alone.popleft()
            if member in self._members:
                self._pairs[placeholder] = member

    def part(self, placeholder: PodUid) -> None:
        """The placeholder has ended: its member is paired with another one."""
        if (member := self._pairs.pop(placeholder, None)) in self._members and member is not None:
            self._alone.append(member)

    def member_like(self, placeholder: PodUid) -> PodUid | None:
        """The member that the placeholder is paired with. If all have the same constraints, any does."""
        if (member := self._pairs.get(placeholder)) in self._members:
            return member
        return next(reversed(self._members), None) if len(self._texts) == 1 else None

    def applied_to(self, group: TaskGroup) -> TaskGroup:
        """The task group with the larger amount of each resource, and with the node constraints that it leaves out."""
        self._refresh()
        if self._group is not group or self._result is None:
            self._group, self._result = group, self._effective(group)
        return self._result

    def _effective(self, group: TaskGroup) -> TaskGroup:
        more = {name: most for name, most in self._resources.items() if most > group.min_resource.get(name, 0)}
        fields: Raw = json.loads(group.pod_fields)
        wanted = {name: value for name, value in self._node.items() if name != "features"}
        added = _missing(wanted, _parsed(group.constraints))
        if not more and not added:
            return group
        fields["nodeSelector"] = {**added.get("nodeSelector", {}), **fields.get("nodeSelector", {})}
        fields["tolerations"] = [*fields.get("tolerations", []), *added.get("tolerations", [])]
        if "nodeAffinity" in added:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": added["nodeAffinity"]}}
            affinity = fields.get("affinity", {})
            fields["affinity"] = {**affinity, "nodeAffinity": {**affinity.get("nodeAffinity", {}), **required}}
        fields = {name: value for name, value in fields.items() if value}
        return replace(
            group,
            min_resource={**group.min_resource, **more},
            requests={**group.requests, **{_kubernetes_name(name): written(name, most) for name, most in more.items()}},
            pod_fields=canonical("task group", fields),
            constraints=constraints_tag(fields),
        )

    def only_reserved_by_scheduler(self, group: TaskGroup) -> list[str]:
        """Names of the members' constraints that the placeholder pods of the group do not have."""
        own = pod_constraints_tag(json.loads(group.pod_fields), "", {})
        texts = list(islice(self._texts, _MOST_REPORTED))
        found = {name for _, text, _ in texts for name in _missing(_inter_pod(text), _parsed(own))}
        has_ports = any(ports for *_, ports in texts)
        return [*(shown for name, shown in _SHOWN.items() if name in found), *(["host ports"] if has_ports else [])]


def tags_like(tags: Mapping[str, str], member: Pod) -> Mapping[str, str]:
    """Tags of a placeholder for the core, with the constraints and host ports that its member has in addition.

    Labels of the member are added as well, because its constraints select them.
    """
    texts = _texts(member)
    node = _merged(tags.get(keys.TAG_CONSTRAINTS, ""), texts[0], _NODE)
    inter_pod = _merged(tags.get(keys.TAG_POD_CONSTRAINTS, ""), texts[1], _INTER_POD)
    ports = texts[2] if keys.CONTAINER_PORTS not in tags else ""
    if not node and not inter_pod and not ports:
        return tags
    labels = {tag: value for tag, value in member.tags.items() if tag.startswith(keys.TAG_POD_LABEL_PREFIX)}
    added = {keys.TAG_CONSTRAINTS: node, keys.TAG_POD_CONSTRAINTS: inter_pod, keys.CONTAINER_PORTS: ports}
    return {**labels, **tags, **{tag: text for tag, text in added.items() if text}}


@lru_cache(maxsize=4096)
def _merged(own: str, other: str, names: frozenset[str]) -> str:
    """The own constraints with those of the other that the own ones leave out. Empty if there are none to add."""
    mine = _parsed(own)
    added = _missing({name: value for name, value in _parsed(other).items() if name in names}, mine)
    for name, value in added.items():
        if isinstance(value, dict):
            added[name] = {**value, **mine.get(name, {})}
    return canonical("constraints", mine | added) if added else ""


def _amounts(pod: Pod) -> _Requested:
    return tuple(sorted((name, value) for name, value in pod.resources.items() if name != keys.PODS))


_Counted = TypeVar("_Counted")


def _count_down(counts: Counter[_Counted], key: _Counted) -> bool:
    """Counts one less. Returns whether it was the last one."""
    counts[key] -= 1
    if counts[key]:
        return False
    del counts[key]
    return True


def _texts(pod: Pod) -> _Texts:
    find = pod.tags.get
    return find(keys.TAG_CONSTRAINTS, ""), find(keys.TAG_POD_CONSTRAINTS, ""), find(keys.CONTAINER_PORTS, "")


def _inter_pod(text: str) -> Raw:
    return {name: terms for name, terms in _parsed(text).items() if name in _INTER_POD}


def _parsed(text: str) -> Raw:
    found: Raw = json.loads(text) if text else {}
    return found


def _shared(one: Raw, other: Raw) -> Raw:
    """What both constraints require."""
    found: Raw = {}
    for name in one.keys() & other.keys():
        found[name] = _both(name, one[name], other[name])
    return {name: value for name, value in found.items() if value}


def _both(name: str, one: Any, other: Any) -> Any:
    if one == other:
        return one
    if isinstance(one, dict):
        return dict(one.items() & other.items())
    # The terms of node affinity are alternatives, so they count together.
    return None if name == "nodeAffinity" else [entry for entry in one if entry in other]


def _missing(wanted: Raw, own: Raw) -> Raw:
    """What of the wanted constraints the own ones leave out."""
    found: Raw = {}
    for name, value in wanted.items():
        if isinstance(value, dict):
            found[name] = {key: entry for key, entry in value.items() if key not in own.get(name, {})}
        elif name == "tolerations":
            there = own.get(name, [])
            found[name] = [one for one in value if one not in there and one.get("key") not in _DEFAULT_TOLERATIONS]
        elif name not in own:
            found[name] = value
    return {name: value for name, value in found.items() if value}


_UNITS: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_BYTES: Final = frozenset({"memory", "ephemeral-storage"})


def written(name: str, value: int) -> str:
    """An amount in the scheduler's unit as a Kubernetes quantity."""
    if name == keys.CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    units = _UNITS if name in _BYTES or name.startswith("hugepages-") else ()
    return next((f"{value // size}{unit}" for unit, size in units if value % size == 0), str(value))


def _kubernetes_name(name: str) -> str:
    return "cpu" if name == keys.CPU else name


def to_write(group: TaskGroup, effective: TaskGroup) -> tuple[str, str]:
    """How the placeholders differ from the definition, and the fields to write in the task group. Empty = they do not.

    Both are one line of JSON fields.
    """
    before, after = group.min_resource, effective.min_resource
    more = {name: most for name, most in after.items() if most > before.get(name, 0)}
    amounts = {_kubernetes_name(name): written(name, most) for name, most in more.items()}
    fields: dict[str, Any] = {"minResource": amounts} if amounts else {}
    old, new = json.loads(group.pod_fields), json.loads(effective.pod_fields)
    changed = {name: value for name, value in new.items() if value != old.get(name)}
    parts = [f"{key}: {amount} instead of {group.requests.get(key) or 0}" for key, amount in amounts.items()]
    parts += [f"{name}: {json.dumps(value)}" for name, value in changed.items()]
    return ", ".join(parts), json.dumps(fields | changed)[1:-1]
