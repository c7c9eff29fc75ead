"""A pod of the load generator as a real API server returns it: 3 KB, with defaults, token and `managedFields`.

Values that differ between pods have placeholders for `stub_server.pod_event`.
"""

from __future__ import annotations

from typing import Any, Final

NAMESPACE: Final = "load"
#: Each pod has its own name for the volume of the service account token.
_TOKEN: Final = "kube-api-access-@TOKEN@"  # noqa: S105 - the name of a volume
_CREATED: Final = "2026-01-01T00:00:00Z"

Raw = dict[str, Any]


def shown_pod(app: int) -> Raw:
    """Return a new pod of an application."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "namespace": NAMESPACE,
            "uid": "00000000-0000-4000-8000-@UID@",
            "resourceVersion": "@VERSION@",
            "generation": 1,
            "creationTimestamp": _CREATED,
            "labels": {"app": "load", "applicationId": f"load-g{app}", "queue": "root.default"},
            "managedFields": [_managed()],
        },
        "spec": _spec(),
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _spec() -> Raw:
    return {
        "volumes": [{"name": _TOKEN, "projected": _token_sources()}],
        "containers": [_container()],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "muster",
        "tolerations": [{"operator": "Exists"}],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _container() -> Raw:
    mount = {"name": _TOKEN, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    return {
        "name": "c",
        "image": "pause",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }


def _token_sources() -> Raw:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


def _managed() -> Raw:
    fields = ("image", "imagePullPolicy", "name", "terminationMessagePath", "terminationMessagePolicy")
    requests: Raw = {".": {}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}}
    container = {".": {}, **{f"f:{field}": {} for field in fields}, "f:resources": requests}
    plain = ("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext", "tolerations")
    return {
        "manager": "python-load-generator",
        "operation": "Update",
        "apiVersion": "v1",
        "time": _CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:applicationId": {}, "f:queue": {}}},
            "f:spec": {
                "f:containers": {'k:{"name":"c"}': container},
                "f:terminationGracePeriodSeconds": {},
                **{f"f:{field}": {} for field in plain},
            },
        },
    }
