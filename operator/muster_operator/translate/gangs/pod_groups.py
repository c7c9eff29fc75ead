"""PodGroups of Kubernetes and of scheduler-plugins: the object, and the gang that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from muster_operator.model import limits, names, problems
from muster_operator.model.errors import BadInputError
from muster_operator.model.pod_groups import CONDITION_OF, GroupCondition, PodGroup
from muster_operator.model.pods import (
    NO_TOPOLOGY,
    GangDefinition,
    GangProblem,
    GangSource,
    Placement,
    PodGroupSource,
    TaskGroup,
    Topology,
)
from muster_operator.translate.gangs.totals import placeholder_ask
from muster_operator.translate.values import Raw, integer, mapping, objects, text, text_bytes
from muster_si import keys

#: About 31 years: a PodGroup waits until it can be scheduled, so no timeout of the configuration ends its gang.
_NEVER_MS: Final = 10**12

#: Fields of the specification that Muster does not implement. Their pods wait, because ignoring them breaks a promise.
_UNSUPPORTED: Final = ("resourceClaims", "parentCompositePodGroupName")


def read_pod_group(raw: Raw, app: str, queue: str) -> PodGroup | None:
    """Translates a PodGroup. Returns None if it has no name or UID.

    ``app``, ``queue``: from its labels and annotations, as those of a pod are read. Not the user, which the webhook
    verifies on pods only. Values that are too long are dropped, because every pod of the group would have them.
    """
    metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
    name, uid = text(metadata.get("name")), text(metadata.get("uid"))
    if not name or not uid:
        return None
    gang = mapping(spec.get("schedulingPolicy")).get("gang")
    min_count = integer(mapping(gang).get("minCount")) if isinstance(gang, dict) else 0
    problem = next(_problems(name, spec, min_count, app, queue), "")
    return PodGroup(
        namespace=text(metadata.get("namespace")),
        name=name,
        uid=uid,
        generation=integer(metadata.get("generation")),
        min_count=min_count,
        priority=integer(spec["priority"]) if isinstance(spec.get("priority"), int) else None,
        preemption_policy=text(spec.get("preemptionPolicy")),
        topology=next(iter(_topology(spec)), ""),
        app=app if _fits_app(app) else "",
        queue=queue if _fits_queue(queue) else "",
        problem=problem,
        condition=_condition(raw),
    )


def read_labelled_pod_group(raw: Raw, app: str, queue: str) -> PodGroup | None:
    """Translates a PodGroup of scheduler-plugins. Returns None if it has no name or UID. ``app``, ``queue``: as above.

    Its controller writes the status. ``minResources`` estimates what Muster reads from the pods, and
    ``scheduleTimeoutSeconds`` ends reservations, which a gang that waits does not have.
    """
    metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
    name, uid = text(metadata.get("name")), text(metadata.get("uid"))
    if not name or not uid:
        return None
    min_count = integer(spec.get("minMember"))
    found = (*_size_problems(name, "spec.minMember", min_count, least=0), *_key_problems(name, app, queue))
    return PodGroup(
        namespace=text(metadata.get("namespace")),
        name=name,
        uid=uid,
        generation=integer(metadata.get("generation")),
        min_count=min_count,
        app=app if _fits_app(app) else "",
        queue=queue if _fits_queue(queue) else "",
        problem=next(iter(found), ""),
        declared_by=names.LABEL_POD_GROUP,
        size_key="spec.minMember",
        identity=name,
    )


def _size_problems(name: str, field: str, size: int, least: int) -> Iterator[str]:
    if size < least:
        yield problems.pod_group_field(name, field, f"is {size}, less than {least}")
    elif size > limits.GANG_MEMBERS:
        yield problems.pod_group_field(name, field, f"is {size}, more than {limits.GANG_MEMBERS}")


def _problems(name: str, spec: Raw, min_count: int, app: str, queue: str) -> Iterator[str]:
    """What keeps the pods of the group from being scheduled."""
    policy = mapping(spec.get("schedulingPolicy"))
    if isinstance(policy.get("gang"), dict):
        yield from _size_problems(name, "spec.schedulingPolicy.gang.minCount", min_count, least=1)
    elif not isinstance(policy.get("basic"), dict):
        yield problems.pod_group_field(name, "spec.schedulingPolicy", "is neither gang nor basic")
    for field in _UNSUPPORTED:
        if spec.get(field):
            yield problems.pod_group_field(name, f"spec.{field}", "is not supported yet")
    topology, constraints = _topology(spec), spec.get("schedulingConstraints") or {}
    if not isinstance(constraints, dict) or constraints.keys() - {"topology"} or len(topology) > 1 or "" in topology:
        yield problems.pod_group_field(name, "spec.schedulingConstraints", "has more than one topology key")
    elif topology and not min_count:
        yield problems.pod_group_field(name, "spec.schedulingConstraints", "is not supported yet for the policy basic")
    mode = spec.get("disruptionMode")
    if mode == "PodGroup" or (isinstance(mode, dict) and mode.get("all") is not None):
        yield problems.pod_group_field(name, "spec.disruptionMode.all", "is not supported yet")
    yield from _key_problems(name, app, queue)


def _key_problems(name: str, app: str, queue: str) -> Iterator[str]:
    if not _fits_app(app):
        yield problems.pod_group_field(
            name, names.LABEL_APP_ID, f"has more than {limits.APPLICATION_ID_CHARACTERS} characters"
        )
    if not _fits_queue(queue):
        yield problems.pod_group_field(name, names.LABEL_QUEUE, f"has more than {limits.QUEUE_BYTES} bytes")


def _topology(spec: Raw) -> list[str]:
    """The node labels that all pods must have equal values of."""
    return [text(entry.get("key")) for entry in objects(mapping(spec.get("schedulingConstraints")).get("topology"))]


def _fits_app(app: str) -> bool:
    return len(app) <= limits.APPLICATION_ID_CHARACTERS


def _fits_queue(queue: str) -> bool:
    return text_bytes(queue) <= limits.QUEUE_BYTES


def _condition(raw: Raw) -> GroupCondition | None:
    """The scheduler's condition; that of the preferred version if an upgrade has left both."""
    found = {text(entry.get("type")): entry for entry in objects(mapping(raw.get("status")).get("conditions"))}
    entry = next((found[kind] for kind in CONDITION_OF.values() if kind in found), None)
    if entry is None:
        return None
    return GroupCondition(entry.get("status") == "True", text(entry.get("reason")), text(entry.get("message")))


def read(source: GangSource, _: Placement, least: Mapping[str, int]) -> GangDefinition | GangProblem | None:
    """The gang of a PodGroup, without placeholder pods and without an end before it is scheduled.

    A PodGroup does not describe its members, and is scheduled when ``minCount`` of them exist. ``least`` stands for one
    that is deleted meanwhile.
    """
    if not isinstance(source, PodGroupSource):
        return None
    resources = {name: amount for name, amount in least.items() if name != keys.PODS}
    gangs = source.gangs or ((source.name, source.min_count),)
    groups = tuple(TaskGroup(name, size, resources, {}) for name, size in gangs)
    try:
        ask = placeholder_ask(groups)
    except BadInputError:  # they do not fit 64 bits, so that the pods fit nowhere
        groups = tuple(TaskGroup(name, size, {}, {}) for name, size in gangs)
        ask = placeholder_ask(groups)
    return GangDefinition(
        groups=groups,
        placeholder_ask=ask,
        style=keys.STYLE_HARD,
        placeholder_timeout_ms=_NEVER_MS,
        wait_timeout_ms=_NEVER_MS,
        topology=Topology((source.topology,), required=True) if source.topology else NO_TOPOLOGY,
        placement=Placement.DIRECT,
    )
