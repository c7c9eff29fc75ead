"""Signatures of pods with the keys of the ledgers in tests."""

import json
from typing import Any, Final

from muster_operator.model import names
from muster_operator.model.commands import BindPod
from muster_operator.model.ids import NodeName
from muster_operator.model.pods import PodRef
from muster_operator.model.signing import SigningKeys
from tests.unit.operator.controller.objects import APP_ID, TASK_GROUP_NAME

KEYS: Final = SigningKeys("muster", [b"a key that signs in all the tests"])
OTHER_KEYS: Final = SigningKeys("muster", [b"a key that no Muster of a test has"])

Raw = dict[str, Any]


def a_bind(pod: PodRef, node: str) -> BindPod:
    """Return the signed command to bind a real pod."""
    signature = KEYS.sign(("binding", pod.namespace, pod.name, pod.uid, node))
    return BindPod(pod, NodeName(node), signature=signature)


def placeholder_parts(raw: Raw) -> tuple[str, ...]:
    """Return the signed parts of a placeholder, from the pod."""
    metadata, annotations = raw["metadata"], raw["metadata"]["annotations"]
    return (
        *("placeholder", metadata["namespace"], metadata["name"], metadata["ownerReferences"][0]["uid"]),
        *(metadata["labels"][APP_ID], annotations.get(TASK_GROUP_NAME, "")),
        annotations[names.ANNOTATION_PLACEHOLDER_ORDINAL],
        annotations[names.ANNOTATION_PLACEHOLDER_REQUESTS],
    )


def sign_placeholder(raw: Raw, keys: SigningKeys = KEYS, ordinal: int = 0) -> Raw:
    """Return the pod as Muster would have created it: with its requests, its ordinal and the signature of both."""
    container, annotations = raw["spec"]["containers"][0], raw["metadata"]["annotations"]
    container["name"] = "pause"
    annotations[names.ANNOTATION_PLACEHOLDER] = "true"
    annotations[names.ANNOTATION_PLACEHOLDER_ORDINAL] = str(ordinal)
    annotations[names.ANNOTATION_PLACEHOLDER_REQUESTS] = json.dumps(container["resources"]["requests"])
    annotations[names.ANNOTATION_PLACEHOLDER_SIGNATURE] = keys.sign(placeholder_parts(raw))
    return raw


def sign_binding(raw: Raw, keys: SigningKeys = KEYS) -> Raw:
    """Return the pod as if Muster had bound it to its node."""
    metadata = raw["metadata"]
    parts = ("binding", metadata["namespace"], metadata["name"], metadata["uid"], raw["spec"]["nodeName"])
    metadata["annotations"][names.ANNOTATION_BINDING_SIGNATURE] = keys.sign(parts)
    return raw


def sign_outcome(raw: Raw, keys: SigningKeys = KEYS) -> Raw:
    """Return the pod as the originator of a gang whose reservation Muster has ended."""
    metadata = raw["metadata"]
    parts = ("gang-outcome", metadata["namespace"], metadata["name"], metadata["uid"], names.GANG_RESUMED)
    metadata["annotations"][names.ANNOTATION_GANG_OUTCOME] = names.GANG_RESUMED
    metadata["annotations"][names.ANNOTATION_OUTCOME_SIGNATURE] = keys.sign(parts)
    return raw
