"""From what the ledger knows to what the core is told of it: asks, allocations, application specs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from muster_operator.agent import trust
from muster_operator.agent.ledger import Application, Ledger, Phase, Task
from muster_operator.model import limits
from muster_operator.model.allocations import AllocationSpec, AskSpec
from muster_operator.model.applications import ApplicationSpec
from muster_operator.model.groups import GangDefinition, Placement, TaskGroup
from muster_operator.model.ids import NodeName
from muster_operator.model.pods import ForeignPod, Pod
from muster_operator.translate.company import company_tag
from muster_operator.translate.placeholders import placeholder_labels
from muster_operator.translate.preferences import preferences_tag
from muster_operator.translate.raw import text_bytes
from muster_si import keys

#: What is of no use of a pod that has its node.
_OF_ASKS: Final = frozenset({keys.TAG_CONSTRAINTS, keys.TAG_PREFERENCES, keys.TAG_REQUIRED_NODE})


def _allow_preempt_self(ledger: Ledger, pod: Pod) -> bool:
    """The pod decides, else its priority class, else yes (contract 1.2)."""
    if pod.allow_preemption is not None:
        return pod.allow_preemption
    return ledger.priority_classes.get(pod.priority_class, True)


def ask_of(ledger: Ledger, task: Task) -> AskSpec:
    """The ask of a pod of ours."""
    pod = task.pod
    tags = {**pod.tags, keys.TAG_AVOID_NODES: ",".join(task.avoid)} if task.avoid else pod.tags
    app = ledger.applications.get(task.app)
    uid, member = pod.ref.uid, pod.membership
    return AskSpec(  # by position: a struct looks up each name among all
        uid,
        task.app,
        pod.resources,
        pod.priority,
        tags,
        member.task_group,
        member.placeholder,
        app is not None and app.originator.ref.uid == uid,
        _allow_preempt_self(ledger, pod),
        pod.preempts_others,
        pod.common,
    )


def allocation_of(ledger: Ledger, task: Task, node: NodeName) -> AllocationSpec:
    """The allocation of a pod of ours that has its node already."""
    ask = ask_of(ledger, task)
    if task.pod.scheduled_at_ms is not None:
        at_ms = task.pod.scheduled_at_ms + ledger.clock_ahead_ms
        ask = structs.replace(ask, tags={**ask.tags, keys.TAG_ALLOCATED_AT: str(at_ms)})
    return AllocationSpec(ask, node, task.allocation_id)


def foreign_allocation(pod: ForeignPod, node: NodeName) -> AllocationSpec:
    """What a pod takes from its node without belonging to an application (semantics 7)."""
    tags = {**pod.tags, keys.TAG_FOREIGN: pod.kind}
    ask = AskSpec(key=pod.ref.uid, app=None, resources=pod.resources, priority=pod.priority, tags=tags)
    return AllocationSpec(ask, node)


def as_occupant(pod: Pod) -> ForeignPod:
    """A pod of ours as one that only takes room."""
    tags = {tag: value for tag, value in pod.tags.items() if tag not in _OF_ASKS}
    return ForeignPod(pod.ref, pod.node, pod.phase, pod.resources, "default", pod.priority, tags)


def _member(app: Application, group: TaskGroup) -> dict[str, Any]:
    """A task group, with the same facts as its placeholders will have."""
    labels = placeholder_labels(group, app.name, app.queue)
    company = company_tag(json.loads(group.pod_fields), app.namespace, labels)
    facts = {"constraints": group.constraints, "podConstraints": company}
    return {
        "name": group.name,
        "minMember": group.min_member,
        "resource": {**group.min_resource, keys.PODS: 1},
        "labels": labels,
        **{name: json.loads(text) for name, text in facts.items() if text},
    }


def _podless(ledger: Ledger, app: Application, group: TaskGroup) -> dict[str, Any]:
    """What a placeholder of the group would say of itself, where none is made."""
    pod, preferences = app.originator, preferences_tag(json.loads(group.pod_fields))
    facts = {
        "priority": pod.priority,
        "allowPreemptSelf": ledger.priority_classes.get(pod.priority_class, True),
        "allowPreemptOther": pod.preempts_others,
    }
    return {**facts, "preferences": json.loads(preferences)} if preferences else facts


def _members_tag(ledger: Ledger, app: Application, gang: GangDefinition) -> str:
    groups = [group for group in gang.groups if group.min_member]
    members = [_member(app, group) for group in groups]
    if gang.is_direct:
        for member, group in zip(members, groups, strict=True):
            member.update(_podless(ledger, app, group))
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def can_announce(ledger: Ledger, app: Application, gang: GangDefinition) -> bool:
    """Whether the core can be told of the members before they ask."""
    return _fits(_members_tag(ledger, app, gang))


def _fits(members: str) -> bool:
    """The core ignores longer texts: it does not warn of a gang that can never fit, and does not reserve for it."""
    return text_bytes(members) <= limits.GANG_MEMBERS_TAG_BYTES


def _gang_tags(ledger: Ledger, app: Application, gang: GangDefinition) -> dict[str, str]:
    """Tags that describe a gang. Differs: the text of the annotation is not sent; these tags contain all of it."""
    tags: dict[str, str] = {}
    if _fits(members := _members_tag(ledger, app, gang)):
        tags[keys.APP_TAG_MEMBERS] = members
    if app.source.parameters:
        tags[keys.APP_TAG_POLICY_PARAMETERS] = app.source.parameters
    if gang.placement is not Placement.RESERVE:
        tags[keys.APP_TAG_GANG_PLACEMENT] = gang.placement.value
    if gang.wait_timeout_ms:
        tags[keys.APP_TAG_GANG_WAIT_TIMEOUT] = str(gang.wait_timeout_ms)
    if gang.topology.key:
        topology = {"key": gang.topology.key, "required": gang.topology.required}
        tags[keys.APP_TAG_TOPOLOGY] = json.dumps(topology, separators=(",", ":"))
    return tags


def application_spec(ledger: Ledger, app: Application) -> ApplicationSpec:
    """The application as it is submitted (contract 1.6, 1.9; semantics 2)."""
    pod = app.originator
    namespace = ledger.namespaces.get(pod.ref.namespace)
    tags = {keys.APP_TAG_NAMESPACE: pod.ref.namespace, **(namespace.tags if namespace else {})}
    tags[keys.APP_TAG_APPLICATION_ID] = app.name
    tags[keys.APP_TAG_CREATION_TIME] = str(app.created_s + ledger.clock_ahead_ms // 1000)
    if ledger.phase is Phase.RECOVERING and any(
        trust.is_bound_by_muster(ledger, task.pod) for task in app.members.values()
    ):
        tags[keys.APP_TAG_CREATE_FORCE] = "true"
    if app.gang is None or not app.gang.size:
        return ApplicationSpec(app.id, app.queue, pod.membership.user, tags)
    return ApplicationSpec(
        app=app.id,
        queue=app.queue,
        user=pod.membership.user,
        tags=tags | _gang_tags(ledger, app, app.gang),
        placeholder_ask=app.gang.placeholder_ask,
        style=app.gang.style,
        execution_timeout_ms=app.gang.placeholder_timeout_ms,
    )


def renewal_spec(ledger: Ledger, app: Application) -> ApplicationSpec:
    """The same for an application that is there, of which only the quota of its namespace counts (contract 1.6)."""
    spec = application_spec(ledger, app)
    return replace(spec, tags={**spec.tags, keys.APP_TAG_RENEWAL: "true"})
