"""Which objects are looked at, and where in them a pod is described: one table for deciding and for registering.

Differs: ReplicationController is looked at too. Its controller is trusted like the others', so a name that is forged in
its template would pass where only the kinds of contract 7 are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of the API. `template`: the way to the pod's description, `()` = the object is the pod itself."""

    group: str
    resource: str
    template: tuple[str, ...]


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
