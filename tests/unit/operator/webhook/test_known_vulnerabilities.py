"""The published vulnerabilities of YuniKorn, each shown not to be in Muster.

The panic in the parsing of LDAP groups (CVE-2026-78243) is the core's:
tests/unit/core/runtime/test_user_groups.py::test_attribute_names_in_lower_case_are_read_like_others.
The behavior without a webhook is shown on a real API server:
tests/e2e/admission/test_webhooks.py::test_bad_configurations_are_rejected_and_an_outage_blocks_only_muster_pods.
"""

from typing import Any

import pytest

from muster_operator.webhook.context import KINDS as KNOWN_KINDS
from muster_operator.webhook.context import MusterIdentity
from muster_operator.webhook.registration import WebhookClientConfig, mutating
from tests.unit.operator.webhook.reviews import (
    ANN,
    BOB,
    KNOWN,
    PLACEHOLDER,
    USER_INFO,
    WORKLOADS,
    a_description,
    a_pod,
    a_thing,
    creating,
    info,
    owner_of,
    updating,
)

KINDS = ("Pod", *WORKLOADS)
#: What users may write on their things: that of CVE-2026-97146, and others that look as if they meant something.
SWITCHES = [
    {"app": "yunikorn"},
    {"app": "muster"},
    {"app.kubernetes.io/name": "yunikorn"},
    {"app.kubernetes.io/name": "muster"},
    {"component": "yunikorn-scheduler"},
    {"admission.yunikorn.apache.org/ignore": "true"},
    {"disableStateAware": "true"},
]


def forged(kind: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    switches = labels or {}
    description = a_description(labels=switches, annotations={**switches, USER_INFO: info(ANN)})
    return a_thing(kind, description, labels={**description["metadata"]["labels"], **switches})


@pytest.mark.parametrize("kind", KINDS)
def test_cve_2026_92393_an_update_is_checked_like_a_create(kind: str) -> None:
    """A forged user was accepted when a workload without a user was changed."""
    innocent = a_thing(kind, a_description())
    assert creating(innocent, BOB).is_allowed
    assert not creating(forged(kind), BOB).is_allowed
    assert not updating(innocent, forged(kind), BOB).is_allowed
    mine = a_thing(kind, a_description(annotations={USER_INFO: info(BOB)}))
    assert not updating(mine, forged(kind), BOB).is_allowed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", SWITCHES, ids=lambda labels: next(iter(labels.items())).__str__())
def test_cve_2026_97146_no_label_switches_a_check_off(kind: str, labels: dict[str, str]) -> None:
    """Users can set labels and annotations; only the account and the namespace count."""
    assert not creating(forged(kind, labels), BOB).is_allowed
    assert not updating(a_thing(kind, a_description()), forged(kind, labels), BOB).is_allowed
    switched = a_thing(kind, a_description(labels=labels, annotations=labels))
    assert owner_of(kind, creating(switched, BOB).object) == info(BOB)
    marked = a_thing(kind, a_description(labels=labels, annotations={PLACEHOLDER: "true"}))
    assert not creating(marked, BOB).is_allowed


def test_the_webhook_fails_closed_for_managed_kinds() -> None:
    """Both of YuniKorn's do: while it is down its users' pods go to another scheduler, unchecked."""
    ours = MusterIdentity(KNOWN.scheduler_names, KNOWN.account, KNOWN.own_namespace)
    hooks = mutating(WebhookClientConfig(KNOWN.own_namespace, "muster"), ours, [])["webhooks"]
    closed = [rule for hook in hooks if hook["failurePolicy"] == "Fail" for rule in hook["rules"]]
    for operation in ("CREATE", "UPDATE"):
        named = {
            (group, name)
            for rule in closed
            if operation in rule["operations"]
            for group in rule["apiGroups"]
            for name in rule["resources"]
        }
        assert named >= {(kind.group, kind.resource) for kind in KNOWN_KINDS.values()}


def test_a_user_pod_with_a_mirror_annotation_is_not_treated_as_static() -> None:
    """The same idea with the annotation that kubelets write."""
    mirrored = a_pod(annotations={"kubernetes.io/config.mirror": "x", USER_INFO: info(ANN)}, nodeName="n1")
    assert not creating(mirrored, BOB).is_allowed


def test_a_replication_controller_cannot_forge_a_user_through_its_controller() -> None:
    """Its pods come from a trusted account, so without a check of its template every user could be forged."""
    assert not creating(forged("ReplicationController"), BOB).is_allowed


def test_a_muster_pod_in_a_bypassed_namespace_gets_a_user() -> None:
    """Else one left one's limits behind by moving there."""
    pod = a_pod(schedulerName="muster")
    assert owner_of("Pod", creating(pod, BOB, namespace="bypassed").object) == info(BOB)
