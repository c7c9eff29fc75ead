"""The chart values under test, and the resulting pods."""

from typing import Any

Json = dict[str, Any]

TLS = {"certManager": True}
CHOICES: dict[str, Json] = {
    "defaults": {},
    "two": {"replicas": 2},
    "webhook": {"webhook": {"enabled": True}},
    "YuniKorn's word": {"embedAdmissionController": True},
    "policy": {"admissionPolicy": {"enabled": True}},
    "webhook by cert-manager": {"webhook": {"enabled": True, "certificates": "certManager"}},
    "webhook by an issuer": {
        "webhook": {"enabled": True, "certificates": "certManager", "issuerRef": {"name": "ours"}}
    },
    "webhook by secret": {"webhook": {"enabled": True, "certificates": "secret", "secret": "ours"}},
    "split": {"replicas": 2, "split": {"enabled": True, "tls": TLS}},
    "split webhook": {"webhook": {"enabled": True}, "split": {"enabled": True, "tls": TLS}},
    "split by secrets": {"split": {"enabled": True, "tls": {"coreSecret": "a", "operatorSecret": "b"}}},
    "rest": {"rest": {"kubernetesAuth": True, "closed": True, "tlsSecret": "rest"}},
    "open rest": {"rest": {"compatibilityMode": "open"}},
    "split rest": {"split": {"enabled": True, "tls": TLS}, "rest": {"kubernetesAuth": True, "tlsSecret": "rest"}},
    "ldap": {"core": {"ldapSecret": "directory"}},
    "queues": {"queues": {"partitions": [{"name": "default"}]}, "settings": {"service.clusterId": "a", "log.level": 0}},
    "YuniKorn's defaults": {"yunikornDefaults": {"queues.yaml": "partitions: []"}},
    "monitoring": {"monitoring": {part: {"enabled": True} for part in ("serviceMonitor", "alerts", "dashboard")}},
    "runbooks": {"monitoring": {"alerts": {"enabled": True, "runbookUrl": "https://docs.example.com/events.html"}}},
    "monitoring of closed REST": {
        "monitoring": {"serviceMonitor": {"enabled": True, "tokenSecret": {"name": "prometheus", "key": "token"}}},
        "rest": {"kubernetesAuth": True, "closed": True, "tlsSecret": "rest"},
    },
    "tracing": {
        "tracing": {
            "enabled": True,
            "endpoint": "http://collector.monitoring:4317",
            "headersSecret": {"name": "collector", "key": "headers"},
        }
    },
    "volumes": {
        "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
        "operator": {"extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority"}]},
        "core": {"extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority"}]},
        "split": {"enabled": True, "tls": TLS},
    },
    "ingress": {
        "rest": {
            "kubernetesAuth": True,
            "closed": True,
            "ingress": {"enabled": True, "host": "muster.example.com", "className": "nginx", "tlsSecret": "tls"},
        }
    },
    "nested settings": {
        "settings": {
            "service": {"schedulerNames": ["batch", "muster"], "clusterId": "a"},
            "log.level": 0,
            "gang.memberWait": "5s",
        }
    },
    "digest": {"image": {"repository": "registry.example.com/muster", "digest": f"sha256:{'0' * 64}"}},
    "bare": {
        "networkPolicy": {"enabled": False},
        "rbac": {"create": False},
        "priorityClass": {"create": False},
        "cleanup": {"enabled": False},
    },
    "places": {
        "hostNetwork": True,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podLabels": {"team": "batch"},
        "podAnnotations": {"a": "b"},
        "imagePullSecrets": ["key", {"name": "other"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
    },
}


def pods(documents: list[Json]) -> list[Json]:
    """The specifications of all pods of the documents, including hooks."""
    rendered = [document for document in documents if document["kind"] in {"Deployment", "Job", "Pod"}]
    return [document["spec"].get("template", document)["spec"] for document in rendered]
