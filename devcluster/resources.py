"""Maps kinds to paths of the API server. A static table, which saves API discovery at startup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: its plural, the path of its API group, and whether it is namespaced."""

    kind: str
    plural: str
    prefix: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of the collection, an object or its subresource. No namespace means all namespaces."""
        parts = [self.prefix]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)


_CORE, _APPS, _BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_STORAGE = "/apis/storage.k8s.io/v1"
_DEVICES = "/apis/resource.k8s.io/v1"

RESOURCES = (
    Resource("Namespace", "namespaces", _CORE, namespaced=False),
    Resource("Node", "nodes", _CORE, namespaced=False),
    Resource("Pod", "pods", _CORE),
    Resource("PodTemplate", "podtemplates", _CORE),
    Resource("ControllerRevision", "controllerrevisions", _APPS),
    Resource("ReplicationController", "replicationcontrollers", _CORE),
    Resource("ConfigMap", "configmaps", _CORE),
    Resource("Secret", "secrets", _CORE),
    Resource("Service", "services", _CORE),
    Resource("ServiceAccount", "serviceaccounts", _CORE),
    Resource("ResourceQuota", "resourcequotas", _CORE),
    Resource("LimitRange", "limitranges", _CORE),
    Resource("Event", "events", _CORE),
    Resource("PersistentVolume", "persistentvolumes", _CORE, namespaced=False),
    Resource("PersistentVolumeClaim", "persistentvolumeclaims", _CORE),
    Resource("StorageClass", "storageclasses", _STORAGE, namespaced=False),
    Resource("CSINode", "csinodes", _STORAGE, namespaced=False),
    Resource("CSIDriver", "csidrivers", _STORAGE, namespaced=False),
    Resource("CSIStorageCapacity", "csistoragecapacities", _STORAGE),
    Resource("VolumeAttachment", "volumeattachments", _STORAGE, namespaced=False),
    Resource("ResourceSlice", "resourceslices", _DEVICES, namespaced=False),
    Resource("DeviceClass", "deviceclasses", _DEVICES, namespaced=False),
    Resource("DeviceTaintRule", "devicetaintrules", _DEVICES, namespaced=False),
    Resource("ResourceClaim", "resourceclaims", _DEVICES),
    Resource("ResourceClaimTemplate", "resourceclaimtemplates", _DEVICES),
    Resource("Job", "jobs", _BATCH),
    Resource("CronJob", "cronjobs", _BATCH),
    Resource("Deployment", "deployments", _APPS),
    Resource("StatefulSet", "statefulsets", _APPS),
    Resource("DaemonSet", "daemonsets", _APPS),
    Resource("ReplicaSet", "replicasets", _APPS),
    Resource("Role", "roles", _RBAC),
    Resource("RoleBinding", "rolebindings", _RBAC),
    Resource("ClusterRole", "clusterroles", _RBAC, namespaced=False),
    Resource("ClusterRoleBinding", "clusterrolebindings", _RBAC, namespaced=False),
    Resource("PriorityClass", "priorityclasses", "/apis/scheduling.k8s.io/v1", namespaced=False),
    Resource(
        "CustomResourceDefinition", "customresourcedefinitions", "/apis/apiextensions.k8s.io/v1", namespaced=False
    ),
    Resource("PodDisruptionBudget", "poddisruptionbudgets", "/apis/policy/v1"),
    Resource("NetworkPolicy", "networkpolicies", "/apis/networking.k8s.io/v1"),
    Resource("PodGroup", "podgroups", "/apis/scheduling.k8s.io/v1beta1"),
    Resource("Workload", "workloads", "/apis/scheduling.k8s.io/v1beta1"),
    Resource("Lease", "leases", "/apis/coordination.k8s.io/v1"),
    Resource(
        "ValidatingWebhookConfiguration", "validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1", namespaced=False,
    ),
    Resource(
        "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1", namespaced=False,
    ),
    Resource(
        "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1", namespaced=False,
    ),
    Resource(
        "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1", namespaced=False,
    ),
)  # fmt: skip

BY_PLURAL = {resource.plural: resource for resource in RESOURCES}
BY_KIND = {resource.kind: resource for resource in RESOURCES}

_CUSTOM: dict[tuple[str, str], Resource] = {}
"""Custom resources by API group and kind."""


def add_custom(definition: Json) -> None:
    """Make the served versions of a CustomResourceDefinition known, so that their objects can be applied.

    The newest stored version is used. `BY_PLURAL` has it by its full name, `rayjobs.ray.io`.
    """
    spec = definition["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    names, group = spec["names"], spec["group"]
    resource = Resource(
        names["kind"], names["plural"], f"/apis/{group}/{version}", namespaced=spec["scope"] == "Namespaced"
    )
    _CUSTOM[group, names["kind"]] = resource
    BY_PLURAL[f"{names['plural']}.{group}"] = resource


def of_manifest(manifest: Json) -> Resource:
    """Return the resource of an object to apply, with the version that the object names. Raises KeyError."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    custom = _CUSTOM.get((group, manifest["kind"]))
    return BY_KIND[manifest["kind"]] if custom is None else replace(custom, prefix=f"/apis/{group}/{version}")
