"""Which objects are looked at, and where in them a pod is described: one table for deciding and for registering.

Differs: ReplicationController is looked at too. Its controller is trusted like the others, so a name that is forged in
its template would pass where only the kinds of contract 7 are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_operator.translate.raw import Raw, mapping, objects


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of the API. `template`: the way to the pod's description, `()` = the object is the pod itself."""

    group: str
    resource: str
    template: tuple[str, ...]

    @property
    def is_pod(self) -> bool:
        """Whether the object is a pod and not something that pods are made of."""
        return not self.template

    @property
    def api_version(self) -> str:
        """As `apiVersion` of an object says it."""
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def place(self) -> str:
        """The description as people are told of it; empty for a pod."""
        return "".join(f"{step}." for step in self.template)

    def description(self, thing: Raw) -> Raw:
        """The pod or the template in it. Not to be written to."""
        for step in self.template:
            thing = mapping(thing.get(step))
        return thing

    def replaced(self, thing: Raw, description: Raw) -> Raw:
        """The object with another description; the old object stays as it is."""
        return _replaced(thing, self.template, description)


def _replaced(thing: Raw, way: tuple[str, ...], value: Raw) -> Raw:
    return {**thing, way[0]: _replaced(mapping(thing.get(way[0])), way[1:], value)} if way else value


_TEMPLATE: Final = ("spec", "template")

#: By kind; version v1 of each group, CREATE and UPDATE, without subresources (contract 7).
KINDS: Final = {
    "Pod": Kind("", "pods", ()),
    "ReplicationController": Kind("", "replicationcontrollers", _TEMPLATE),
    "Deployment": Kind("apps", "deployments", _TEMPLATE),
    "ReplicaSet": Kind("apps", "replicasets", _TEMPLATE),
    "StatefulSet": Kind("apps", "statefulsets", _TEMPLATE),
    "DaemonSet": Kind("apps", "daemonsets", _TEMPLATE),
    "Job": Kind("batch", "jobs", _TEMPLATE),
    "CronJob": Kind("batch", "cronjobs", ("spec", "jobTemplate", *_TEMPLATE)),
}


def is_made_of_a_template(thing: Raw) -> bool:
    """Whether the object says that a controller made it of a workload that is looked at itself."""
    for owner in objects(mapping(thing.get("metadata")).get("ownerReferences")):
        kind = KINDS.get(str(owner.get("kind")))
        if kind and not kind.is_pod and owner.get("controller") is True and owner.get("apiVersion") == kind.api_version:
            return True
    return False
