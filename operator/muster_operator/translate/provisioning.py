"""ProvisioningRequests of Cluster Autoscaler: the objects of a gang's request, and its conditions.

Differs: YuniKorn creates no ProvisioningRequests.
"""

from __future__ import annotations

from typing import Any, Final

from muster_operator.model.commands import NodesRequest
from muster_operator.model.ids import application_name
from muster_operator.model.pods import PlaceholderSpec
from muster_operator.translate.gangs import owner_reference, placeholder_labels
from muster_operator.translate.values import Raw, mapping, text

API_GROUP: Final = "autoscaling.x-k8s.io"
API_PATH: Final = f"/apis/{API_GROUP}/v1"
PLURAL: Final = "provisioningrequests"


def template_name(request: str, group: int) -> str:
    """Name of the PodTemplate of a task group, by the index of the group in its gang."""
    return f"{request}-{group}"


def template_body(name: str, spec: PlaceholderSpec, placeholder: Raw) -> Raw:
    """The PodTemplate of a task group: its placeholder without annotations."""
    metadata = {"labels": placeholder_labels(spec.group, application_name(spec.app), spec.queue)}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _metadata(name, spec),
        "template": {"metadata": metadata, "spec": placeholder["spec"]},
    }


def request_body(request: NodesRequest) -> Raw:
    """The ProvisioningRequest of a gang."""
    pod_sets = [
        {"podTemplateRef": {"name": template_name(request.name, pod_set.group)}, "count": pod_set.count}
        for pod_set in request.pod_sets
    ]
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ProvisioningRequest",
        "metadata": _metadata(request.name, request.pod_sets[0].placeholder),
        "spec": {"provisioningClassName": request.provisioning_class, "podSets": pod_sets},
    }


def _metadata(name: str, spec: PlaceholderSpec) -> dict[str, Any]:
    return {"name": name, "namespace": spec.namespace, "ownerReferences": [owner_reference(spec.owner)]}


def is_owned(raw: Raw, uid: str) -> bool:
    """Whether the object has this owner."""
    owners = mapping(raw.get("metadata")).get("ownerReferences") or ()
    return any(mapping(owner).get("uid") == uid for owner in owners)


def request_problem(raw: Raw) -> str:
    """Why nodes are not provided: the message of Failed=True, otherwise of Provisioned=False; empty = no problem."""
    listed = mapping(raw.get("status")).get("conditions") or ()
    conditions = {text(mapping(one).get("type")): mapping(one) for one in listed}
    for kind, status in (("Failed", "True"), ("Provisioned", "False")):
        found = conditions.get(kind, {})
        if found.get("status") == status and found.get("message"):
            return text(found.get("message"))
    return ""
