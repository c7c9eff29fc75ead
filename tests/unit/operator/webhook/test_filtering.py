"""Which namespaces are managed and labelled: the annotation decides, else the lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_operator.webhook.context import ClusterSnapshot
from tests.unit.operator.webhook.reviews import KNOWN, PLACEHOLDER, USER_INFO, a_pod, creating, settings

PREFIX = "yunikorn.apache.org/namespace."


def is_served(namespace: str, annotation: str = "", **entries: str) -> bool:
    known = replace(KNOWN, namespaces={namespace: {f"{PREFIX}enableYuniKorn": annotation} if annotation else {}})
    return creating(a_pod(), namespace=namespace, known=known, how=settings(**entries)).object is not None


@pytest.mark.parametrize(
    "namespace, entries, served",
    [
        ("dev", {}, True),
        ("dev", {"processNamespaces": "^prod"}, False),
        ("prod-1", {"processNamespaces": "^prod"}, True),
        ("my-prod", {"processNamespaces": "prod"}, True),
        ("dev", {"processNamespaces": "^prod, ^dev$"}, True),
        ("prod-x", {"processNamespaces": "^prod", "bypassNamespaces": "x$"}, False),
        ("dev", {"bypassNamespaces": ""}, True),
        ("dev", {"bypassNamespaces": "dev"}, False),
    ],
)
def test_the_namespace_lists_decide_whether_a_namespace_is_managed(
    namespace: str, entries: dict[str, str], *, served: bool
) -> None:
    assert is_served(namespace, **entries) == served


@pytest.mark.parametrize("setting, served", [("true", True), ("false", False), ("True", False), ("yes", False)])
def test_the_namespace_annotation_overrides_the_lists(setting: str, *, served: bool) -> None:
    assert is_served("dev", setting) == served
    assert is_served("dev", setting, bypassNamespaces="dev") == served


def test_the_documented_yunikorn_spelling_counts_if_the_other_is_absent() -> None:
    misspelt = f"{PREFIX}enableYunikorn"
    known = replace(KNOWN, namespaces={"dev": {misspelt: "false"}})
    assert creating(a_pod(), known=known).object is None
    both = replace(KNOWN, namespaces={"dev": {misspelt: "false", f"{PREFIX}enableYuniKorn": "true"}})
    assert creating(a_pod(), known=both).object is not None


@pytest.mark.parametrize(
    "setting, entries, labelled",
    [
        ("", {}, True),
        ("", {"labelNamespaces": "prod"}, False),
        ("", {"labelNamespaces": "dev", "noLabelNamespaces": "dev"}, False),
        ("true", {"noLabelNamespaces": "dev"}, True),
        ("false", {}, False),
    ],
)
def test_ids_are_generated_by_namespace_annotation_or_lists(
    setting: str, entries: dict[str, str], *, labelled: bool
) -> None:
    known = replace(KNOWN, namespaces={"dev": {f"{PREFIX}generateAppId": setting} if setting else {}})
    made = creating(a_pod(), known=known, how=settings(**entries)).object
    assert made is not None
    assert bool(made["metadata"]["labels"]) == labelled


@pytest.mark.parametrize("namespace", ["kube-system", "muster", "elsewhere"])
def test_kube_system_and_the_own_namespace_are_never_modified(namespace: str) -> None:
    """With any settings, because their pods must start before Muster."""
    known = ClusterSnapshot(own_namespace="elsewhere" if namespace == "elsewhere" else "muster")
    served = replace(known, namespaces={namespace: {f"{PREFIX}enableYuniKorn": "true"}})
    for pod in (a_pod(), a_pod(schedulerName="muster", annotations={USER_INFO: "forged", PLACEHOLDER: "true"})):
        answer = creating(pod, namespace=namespace, known=served, how=settings(bypassNamespaces=""))
        assert (answer.is_allowed, answer.object) == (True, None)
