"""Why a member of a gang cannot use its reservation: how its pod differs from the placeholder, and what to write."""

from __future__ import annotations

from collections.abc import Iterator

from muster_core.model import messages
from muster_core.model.quantities import quantity, resource_name
from muster_core.model.resources import Resources
from muster_core.model.specs import NO_VOLUMES, AskSpec, Member
from muster_core.state.applications import Allocation, Application


def too_large(pod: AskSpec, placeholder: Resources) -> str:
    """Returns the message of a pod that requests more than its placeholder reserves."""
    return messages.larger_than_placeholder(_of_resources(pod, placeholder))


def other_constraints(app: Application, pod: AskSpec, placeholder: Allocation) -> str:
    """Returns why the pod cannot run on the node of its placeholder; empty if it has no other constraints."""
    found = _of_constraints(app, pod, placeholder)
    return messages.cannot_use_placeholder(placeholder.node, found) if found else ""


def between(app: Application, pod: AskSpec, placeholder: Allocation) -> str:
    """Names what the pod has beyond the placeholder, with both values, and what to write; empty = nothing."""
    return _of_resources(pod, placeholder.spec.resources) or _of_constraints(app, pod, placeholder)


def _of_resources(pod: AskSpec, placeholder: Resources) -> str:
    more = {name: amount for name, amount in pod.resources.items() if amount > placeholder[name]}
    asked = ", ".join(
        f"{resource_name(name)} {quantity(name, amount)}, reserved {quantity(name, placeholder[name])}"
        for name, amount in more.items()
    )
    fields = ", ".join(f"{resource_name(name)}: {quantity(name, more[name])}" for name in more)
    return f"requested {asked}; raise minResource of task group {pod.group} to {fields}" if more else ""


def _of_constraints(app: Application, pod: AskSpec, placeholder: Allocation) -> str:
    reserved: AskSpec | Member | None = placeholder.spec
    if placeholder.id in app.gang.recovered:  # its constraints are not known
        reserved = next((member for member in app.spec.members if member.group == pod.group), None)
    found = ", ".join(_constraints(pod, reserved)) if reserved is not None else ""
    return f"the pod has {found}; write it in task group {pod.group}" if found else ""


def _constraints(pod: AskSpec, placeholder: AskSpec | Member) -> Iterator[str]:
    own, others = pod.constraints, placeholder.constraints
    selector = dict(others.node_selector)
    for key, value in own.node_selector:
        if selector.get(key) != value:
            yield f"nodeSelector {key}={value} where the task group has {selector.get(key, 'none')}"
    if own.affinity is not None and own.affinity != others.affinity:
        yield "required node affinity"
    for one in others.tolerations:
        if one not in own.tolerations:
            yield f"no toleration of {one.key or 'all taints'}"
    terms, other_terms = pod.facts.inter_pod, placeholder.facts.inter_pod
    for name, mine, theirs in (
        ("podAffinity", terms.affinity, other_terms.affinity),
        ("podAntiAffinity", terms.anti_affinity, other_terms.anti_affinity),
        ("topologySpreadConstraints", terms.spread, other_terms.spread),
    ):
        if mine and mine != theirs:
            yield name
    if pod.facts.ports and pod.facts.ports != placeholder.facts.ports:
        yield "host ports"
    if pod.facts.volumes not in {NO_VOLUMES, placeholder.facts.volumes}:
        yield "volumes"
    if pod.facts.devices and pod.facts.devices != placeholder.facts.devices:
        yield "claims of devices"
