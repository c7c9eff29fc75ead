"""The webhook options of the command line, and contradictions between them."""

from pathlib import Path

import pytest

from muster_operator.model.errors import StartupRefused
from muster_operator.webhook.registration import OTHERS_TIMEOUT_S, TIMEOUT_S
from muster_operator.webhook.service import MARGIN_S, WebhookOptions

FILE = Path("tls.pem")


def test_the_webhook_is_disabled_without_a_service_or_url() -> None:
    assert not WebhookOptions().is_on
    assert WebhookOptions(service="muster-webhook").is_on
    assert WebhookOptions(url="https://10.0.0.1:9089").is_on
    WebhookOptions().check()
    WebhookOptions(service="muster-webhook", certificate=FILE, key=FILE, authority=FILE).check()


@pytest.mark.parametrize(
    "options, message",
    [
        (WebhookOptions(service="s", url="https://h:1"), "--webhook-service and --webhook-url"),
        (WebhookOptions(url="http://h:1"), "https://host:port"),
        (WebhookOptions(url="h:1"), "https://host:port"),
        (WebhookOptions(service="s", certificate=FILE), "--webhook-cert and --webhook-key must be set together"),
        (WebhookOptions(service="s", key=FILE), "--webhook-cert and --webhook-key must be set together"),
        (WebhookOptions(service="s", authority=FILE), "--webhook-ca"),
        (WebhookOptions(certificate=FILE, key=FILE), "--webhook-service or --webhook-url"),
        (WebhookOptions(by_manifest=True), "--webhook-service or --webhook-url"),
    ],
)
def test_contradicting_options_are_rejected_with_their_names(options: WebhookOptions, message: str) -> None:
    with pytest.raises(StartupRefused, match=message):
        options.check()


def test_answers_are_due_before_the_timeout_of_the_api_server() -> None:
    assert 0 < MARGIN_S < OTHERS_TIMEOUT_S < TIMEOUT_S <= 10
