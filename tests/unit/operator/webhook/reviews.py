"""Builders of admission requests with defaults. A test specifies only the values that matter to it."""

import json
from collections.abc import Mapping
from typing import Any

from muster_operator.config.catalog import parse
from muster_operator.model.settings import AdmissionSettings
from muster_operator.webhook.context import KINDS, AdmissionAnswer, ClusterSnapshot, Operation, Review, Submitter
from muster_operator.webhook.decisions import decide

Raw = dict[str, Any]

USER_INFO = "yunikorn.apache.org/user.info"
PLACEHOLDER = "internal.yunikorn.apache.org/placeholder"
APP_ID = "yunikorn.apache.org/app-id"
QUEUE = "yunikorn.apache.org/queue"
ALLOW_PREEMPTION = "yunikorn.apache.org/allow-preemption"

ANN = Submitter("ann", ("dev", "system:authenticated"))
BOB = Submitter("bob", ("ops", "system:authenticated"))
CONTROLLER = Submitter(
    "system:serviceaccount:kube-system:replicaset-controller", ("system:serviceaccounts", "system:authenticated")
)
KUBELET = Submitter("system:node:n1", ("system:nodes", "system:authenticated"))
WORKLOADS = tuple(kind for kind in KINDS if kind != "Pod")
KNOWN = ClusterSnapshot()


def settings(**entries: str) -> AdmissionSettings:
    """Return the settings of ConfigMap entries such as `externalUsers="..."`, with keys without their prefix."""
    written = {
        f"admissionController.{group}.{key}": value
        for key, value in entries.items()
        for group in ("filtering", "accessControl")
    }
    parsed, warnings = parse(written, "muster")
    assert warnings == ()
    return parsed


SETTINGS = settings()


def info(submitter: Submitter) -> str:
    """Return the user annotation of a submitter."""
    return json.dumps({"user": submitter.name, "groups": list(submitter.groups)}, separators=(",", ":"))


def a_description(
    *, annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None, **spec: object
) -> Raw:
    """Return a pod without a name, or a pod template."""
    metadata = {"annotations": dict(annotations or {}), "labels": dict(labels or {})}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def a_thing(kind: str, description: Raw, *, owner: str = "", **metadata: object) -> Raw:
    """Return the object of a kind with a pod or template. `owner`: the kind of the workload that created it."""
    wrapped = description
    for step in reversed(KINDS[kind].template):
        wrapped = {step: wrapped}
    made = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": "thing"}, **wrapped}
    references = [{"apiVersion": KINDS[owner].api_version, "kind": owner, "controller": True}] if owner else []
    inner = {"ownerReferences": references} if owner else {}
    return {**made, "metadata": {"name": "thing", **made["metadata"], **inner, **metadata}}


def creating(
    thing: Raw,
    submitter: Submitter = ANN,
    namespace: str = "dev",
    known: ClusterSnapshot = KNOWN,
    how: AdmissionSettings = SETTINGS,
) -> AdmissionAnswer:
    """Return the answer to a CREATE."""
    return decide(Review(Operation.CREATE, thing["kind"], namespace, "thing", submitter, thing), known, how)


def updating(
    old: Raw, new: Raw, submitter: Submitter = ANN, namespace: str = "dev", how: AdmissionSettings = SETTINGS
) -> AdmissionAnswer:
    """Return the answer to an UPDATE."""
    return decide(Review(Operation.UPDATE, new["kind"], namespace, "thing", submitter, new, old), KNOWN, how)


def a_pod(owner: str = "", **parts: Any) -> Raw:
    """Return a pod. `parts` as for `a_description`."""
    return a_thing("Pod", a_description(**parts), owner=owner)


def described(kind: str, thing: Raw | None) -> Raw:
    """Return the pod or the template of an answer's object."""
    assert thing is not None
    return KINDS[kind].description(thing)


def owner_of(kind: str, thing: Raw | None) -> str | None:
    """Return its annotation user.info."""
    found: str | None = described(kind, thing)["metadata"]["annotations"].get(USER_INFO)
    return found
