"""The webhook manifest equals the operator's registration, and the role permits no more than needed."""

from pathlib import Path

import yaml

from muster_operator.main import WEBHOOK_PORT
from muster_operator.model import signing
from muster_operator.webhook.certificates import SECRET
from muster_operator.webhook.registration import NAME
from tools import webhooks

RBAC = Path(__file__).parents[3] / "deploy" / "rbac.yaml"


def test_the_manifest_is_what_the_operator_would_register() -> None:
    assert webhooks.FILE.read_text(encoding="utf-8") == webhooks.default(), "make diagrams"
    assert webhooks.PORT == WEBHOOK_PORT


def test_foreign_secrets_and_webhook_registrations_cannot_be_read_or_changed() -> None:
    guarded = {
        "secrets": {SECRET, signing.SECRET},
        "mutatingwebhookconfigurations": {NAME},
        "validatingwebhookconfigurations": {NAME},
    }
    rules = [rule for role in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) for rule in role.get("rules", [])]
    seen = 0
    for rule in rules:
        for resource in set(rule["resources"]) & set(guarded):
            seen += 1
            assert rule["verbs"] == ["create"] or set(rule["resourceNames"]) <= guarded[resource], rule
    assert seen == 7
