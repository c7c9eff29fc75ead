"""A changed ConfigMap is applied or rejected, with warnings for its author."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from muster_operator.config.settings import parse
from muster_operator.kube.session import KubeSession
from muster_operator.model.cluster_events import ClusterEvent, PlacementChosen
from muster_operator.model.commands import Command, PostEvent, Subject
from muster_operator.model.errors import BadSetting
from muster_operator.model.pods import Placement
from muster_operator.runtime import reconfigure
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.reconfigure import ChangeReceivers, Reconfigurer, report_end
from muster_operator.si.codec import Encoder
from muster_operator.si.session import CoreLink
from muster_si import keys, muster_pb2
from muster_si.api import AdministrationAPI
from muster_si.errors import RefusalCode, Refused, SessionLost
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, reply, serving, status
from tests.unit.operator.si.scheduler import Peer

CONFIGS = "GET /api/v1/namespaces/muster/configmaps/"
EVENTS = "POST /apis/events.k8s.io/v1/namespaces/muster/events"
#: Changes that the test server can report.
MOST_CHANGES = 6


@dataclass
class Validator:
    """Returns fixed validation results for configurations. It is not a core."""

    findings: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    absences: int = 0
    """How many times it does not answer."""
    failure: Exception = field(default_factory=lambda: SessionLost("away"))

    async def validate_configuration(
        self, request: muster_pb2.ValidateConfigurationRequest
    ) -> muster_pb2.ValidateConfigurationResponse:
        if self.absences:
            self.absences -= 1
            raise self.failure
        return muster_pb2.ValidateConfigurationResponse(findings=self.findings, warnings=self.warnings)


class Author:
    """A user who edits `muster-configs`, and the resulting events."""

    def __init__(self, peer: Peer, validator: Validator, session: KubeSession, started: Mapping[str, str]) -> None:
        self.data: dict[str, str] = {}
        self.packed: dict[str, str] = {}
        #: Replies to the next reads of the ConfigMap.
        self.failures: list[Any] = []
        self.commands: list[Command] = []
        self.facts: list[ClusterEvent] = []
        self.inbox = Inbox(Metrics())
        self.link = CoreLink(peer, Encoder("rm", "default"), parse(started), self.inbox, lambda: None)
        self.reconfigurer = Reconfigurer(
            session,
            "muster",
            self.link,
            cast("AdministrationAPI", validator),
            ChangeReceivers(self.commands.append, self.facts.append),
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition is true."""
        async with asyncio.timeout(10):
            while not is_so():  # noqa: ASYNC110 - a level that nobody signals
                await asyncio.sleep(0.001)

    async def writes(self, data: dict[str, str]) -> list[PostEvent]:
        """The events after the ConfigMap has this data."""
        self.data = data
        self.commands.clear()
        await self.reconfigurer.changed("muster-configs")
        return [command for command in self.commands if isinstance(command, PostEvent)]


@asynccontextmanager
async def an_author(
    peer: Peer, started: Mapping[str, str] | None = None, *, validator: Validator | None = None, leads: bool = True
) -> AsyncIterator[Author]:
    server = ApiServer()

    def configs() -> Any:
        if author.failures:
            return author.failures.pop(0)
        metadata = {"name": "muster-configs", "uid": "u-1"}
        return reply(200, {"metadata": metadata, "data": author.data, "binaryData": author.packed})

    for _ in range(MOST_CHANGES):
        server.plan(f"{CONFIGS}muster-defaults", lambda: status(404, "NotFound"))
        server.plan(f"{CONFIGS}muster-configs", configs)
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        author = Author(peer, validator or Validator(), session, started or {})
        running = asyncio.create_task(author.link.run() if leads else asyncio.sleep(0))
        await author.inbox.something(5.0 if leads else 0.0)
        try:
            yield author
        finally:
            running.cancel()
            await session.close()


async def test_a_changed_queue_configuration_is_sent_to_the_core() -> None:
    peer = Peer()
    async with an_author(peer) as author:
        assert await author.writes({"queues.yaml": "new"}) == []
    assert [request.config for request in peer.configurations] == ["new"]


async def test_an_unchanged_queue_configuration_is_not_sent_to_the_core() -> None:
    peer = Peer()
    async with an_author(peer, {"queues.yaml": "same"}) as author:
        assert await author.writes({"queues.yaml": "same"}) == []
    assert peer.configurations == []


async def test_without_hot_refresh_a_changed_configuration_is_not_sent() -> None:
    peer = Peer()
    async with an_author(peer, {"service.enableConfigHotRefresh": "false"}) as author:
        assert await author.writes({"queues.yaml": "new"}) == []
    assert peer.configurations == []


async def test_disabled_hot_refresh_stays_disabled() -> None:
    peer = Peer()
    async with an_author(peer) as author:
        await author.writes({"service.enableConfigHotRefresh": "false"})
        await author.writes({"service.enableConfigHotRefresh": "true", "queues.yaml": "new"})
    assert [request.config for request in peer.configurations] == [""]


@pytest.mark.parametrize(
    "data,warnings",
    [({"log.level": "loud"}, "setting log.level: invalid value 'loud'"), ({"queues.yaml": "bad"}, "the core says no")],
)
async def test_a_rejected_configuration_is_a_warning_on_the_config_map(data: dict[str, str], warnings: str) -> None:
    async with an_author(
        Peer(configuration_refusal=Refused(RefusalCode.INVALID_ARGUMENT, "the core says no"))
    ) as author:
        [event] = await author.writes(data)
    assert (event.subject, event.namespace, event.name, event.uid) == (
        Subject.CONFIG_MAP,
        "muster",
        "muster-configs",
        "u-1",
    )
    assert event.reason == "ConfigurationRejected"
    assert warnings in event.note


@pytest.mark.parametrize(
    "queues, is_what",
    [({}, "missing"), ({"queues.yaml": ""}, "empty"), ({"queues.yaml": " \n# none\n---\n"}, "empty")],
)
async def test_settings_next_to_empty_or_missing_queues_apply_and_the_queues_stay(
    queues: dict[str, str], is_what: str
) -> None:
    peer = Peer()
    async with an_author(peer, {"queues.yaml": "old"}) as author:
        [event] = await author.writes(queues | {"gang.waitTimeout": "9s"})
    assert event.reason == "ConfigurationWarning"
    assert event.note.startswith(f"queues.yaml is {is_what}: the active queues stay until a restart")
    [request] = peer.configurations
    assert (request.config, request.extraConfig["gang.waitTimeout"]) == ("old", "9s")


@pytest.mark.parametrize(
    "entry,finding",
    [
        ({"data": {"queues.yaml": "bad"}}, "queues.yaml:3: no"),
        ({"binaryData": {"queues.yaml.gz": "AAAA"}}, ""),
    ],
)
async def test_settings_next_to_rejected_queues_apply(entry: dict[str, dict[str, str]], finding: str) -> None:
    peer = Peer()
    validator = Validator(findings=[finding] if finding else [])
    async with an_author(peer, {"queues.yaml": "old"}, validator=validator) as author:
        author.packed = entry.get("binaryData", {})
        [event] = await author.writes(entry.get("data", {"queues.yaml": "other"}) | {"gang.placement": "Direct"})
        assert author.facts == [PlacementChosen(Placement.DIRECT)]
    assert event.reason == "ConfigurationRejected"
    assert event.note.startswith("queues rejected; the previous queues remain active: ")
    assert (finding or "setting queues.yaml.gz: invalid value") in event.note
    request, reported = peer.configurations
    assert (request.config, request.extraConfig["gang.placement"]) == ("old", "Direct")
    assert (finding or "setting queues.yaml.gz: invalid value") in reported.extraConfig[keys.EXTRA_REJECTED]


@pytest.mark.parametrize(
    "data,findings",
    [
        ({"log.level": "loud"}, []),
        ({"gang.waitTimeout": "9s"}, ["gang.waitTimeout: '9s' is too short"]),
    ],
)
async def test_queues_next_to_a_rejected_setting_apply(data: dict[str, str], findings: list[str]) -> None:
    peer = Peer()
    async with an_author(peer, {"queues.yaml": "old"}, validator=Validator(findings=findings)) as author:
        [event] = await author.writes(data | {"queues.yaml": "new"})
    [key] = data
    assert event.note.startswith("settings rejected; the previous settings remain active: ")
    assert key in event.note
    request, reported = peer.configurations
    assert request.config == reported.config == "new"
    assert key not in request.extraConfig
    assert key in reported.extraConfig[keys.EXTRA_REJECTED]


async def test_the_core_of_each_session_has_what_is_rejected_until_it_is_corrected() -> None:
    errors = [f"queues.yaml:{line}: {'no ' * 100}" for line in range(100)]
    peer, validator = Peer(), Validator(findings=errors)
    async with an_author(peer, {"queues.yaml": "old"}, validator=validator) as author:
        await author.writes({"queues.yaml": "bad"})
        await author.writes({"queues.yaml": "bad"})
        [reported] = peer.configurations
        assert reported.config == "old"
        assert reported.extraConfig[keys.EXTRA_REJECTED] == "\n".join(errors)
        peer.callback.session_lost("away")
        await author.until(lambda: len(peer.registrations) > 1)
        assert peer.registrations[-1].extraConfig[keys.EXTRA_REJECTED] == reported.extraConfig[keys.EXTRA_REJECTED]
        validator.findings = []
        await author.writes({"queues.yaml": "old"})
        assert keys.EXTRA_REJECTED not in peer.configurations[-1].extraConfig


async def test_a_change_whose_read_fails_is_read_again() -> None:
    peer = Peer()
    async with an_author(peer) as author:
        author.failures = [status(429, "TooManyRequests"), status(500, "InternalError")]
        assert await author.writes({"queues.yaml": "new"}) == []
    assert [request.config for request in peer.configurations] == ["new"]


async def test_a_standby_does_not_keep_a_configuration_that_validation_rejects() -> None:
    peer = Peer()
    async with an_author(peer, validator=Validator(findings=["queues.yaml:3: no"]), leads=False) as author:
        [event] = await author.writes({"queues.yaml": "bad"})
        assert event.reason == "ConfigurationRejected"
        assert "queues.yaml:3: no" in event.note
        assert author.link.configuration.queues == ""
    assert peer.configurations == []


async def test_a_configuration_warning_is_reported_on_the_config_map() -> None:
    async with an_author(Peer(), validator=Validator(warnings=["partitions[0].x: 0 means unlimited"])) as author:
        [event] = await author.writes({"queues.yaml": "odd"})
        assert (event.reason, event.note) == ("ConfigurationWarning", "partitions[0].x: 0 means unlimited")
        assert author.link.configuration.queues == "odd"


async def test_a_configuration_waits_for_a_core_that_does_not_answer() -> None:
    peer = Peer()
    async with an_author(peer, validator=Validator(absences=2)) as author:
        assert await author.writes({"queues.yaml": "new"}) == []
    assert [request.config for request in peer.configurations] == ["new"]


async def test_an_internal_error_while_a_change_is_applied_does_not_end_the_operator() -> None:
    peer = Peer()
    async with an_author(peer, validator=Validator(absences=2, failure=ZeroDivisionError())) as author:
        assert await author.writes({"queues.yaml": "new"}) == []
    assert [request.config for request in peer.configurations] == ["new"]


async def test_a_rejected_config_map_is_reported_once_per_content() -> None:
    bad = {"log.level": "loud"}
    async with an_author(Peer()) as author:
        [event] = await author.writes(bad)
        assert await author.writes(bad) == [], "the comparison of each hour"
        assert await author.writes(bad | {"queues.yaml": "new"}) == [event]
        assert await author.writes({}) != [event]
        assert event in await author.writes(bad)


async def test_an_unknown_key_is_reported_once_with_a_suggestion() -> None:
    misspelt = {"service.placeholderImag": "pause"}
    async with an_author(Peer()) as author:
        [event] = await author.writes(misspelt)
        assert event.reason == "ConfigurationWarning"
        expected = "service.placeholderImag is not a setting of Muster; did you mean service.placeholderImage?"
        assert event.note == expected
        assert await author.writes(misspelt | {"gang.waitTimeout": "1h"}) == []
        assert await author.writes({}) == []
        assert len(await author.writes(misspelt)) == 1


async def test_a_setting_that_requires_a_restart_is_reported_until_it_is_reverted() -> None:
    async with an_author(Peer(), {"service.placeholderImage": "pause:1"}) as author:
        [event] = await author.writes({"service.placeholderImage": "pause:2"})
        assert (
            event.note
            == "service.placeholderImage = pause:2 takes effect after a restart; the present value is pause:1"
        )
        assert await author.writes({"service.placeholderImage": "pause:1"}) == []
        assert author.link.configuration.settings.placeholder_image == "pause:1"


async def test_a_valid_gang_placement_applies_immediately_and_an_invalid_one_does_not() -> None:
    async with an_author(Peer(), {"service.placeholderImage": "pause:1"}) as author:
        assert await author.writes({"gang.placement": "Direct", "service.placeholderImage": "pause:1"}) == []
        settings = author.link.configuration.settings
        assert (settings.gang_placement, settings.placeholder_image) == (Placement.DIRECT, "pause:1")
        [event] = await author.writes({"gang.placement": "direct", "service.placeholderImage": "pause:1"})
        assert "setting gang.placement: invalid value 'direct': write Reserve, Direct or Auto" in event.note
        assert author.link.configuration.settings.gang_placement is Placement.DIRECT
        assert author.facts == [PlacementChosen(Placement.DIRECT)]


async def test_the_removed_gang_placement_counts_as_auto_with_a_warning() -> None:
    async with an_author(Peer(), {"service.placeholderImage": "pause:1"}) as author:
        [event] = await author.writes({"gang.placement": "Atomic", "service.placeholderImage": "pause:1"})
        assert "gang.placement = Atomic was removed; Auto is used" in event.note
        assert author.link.configuration.settings.gang_placement is Placement.AUTO


async def test_a_startup_failure_is_reported_on_the_invalid_config_map() -> None:
    server = ApiServer()
    server.plan(f"{CONFIGS}muster-defaults", lambda: reply(200, {"metadata": {"name": "muster-defaults"}}))
    server.plan(
        f"{CONFIGS}muster-configs",
        lambda: reply(200, {"metadata": {"name": "muster-configs", "uid": "u-1"}, "data": {"a": ""}}),
    )
    server.plan(EVENTS, lambda: reply(201, {}))
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        await report_end(session, "muster", BadSetting("a", "x", "write b"))
        await session.close()
    [body] = [seen.body for seen in server.seen if seen.method == "POST"]
    assert body["regarding"]["name"] == "muster-configs"
    assert body["note"] == "Muster cannot start: setting a: invalid value 'x': write b"


async def test_a_startup_failure_that_cannot_be_reported_raises_no_other_error() -> None:
    server = ApiServer()
    server.plan(f"{CONFIGS}muster-defaults", lambda: status(403, "Forbidden"))
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        await report_end(session, "muster", BadSetting("a", "x", "write b"))
        await session.close()
    assert len(server.seen) == 1


async def test_a_change_whose_event_was_lost_is_applied_at_the_next_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconfigure, "COMPARE_S", 0.01)
    peer = Peer()
    async with an_author(peer) as author:
        author.data = {"queues.yaml": "new"}
        comparing = asyncio.create_task(author.reconfigurer.run(asyncio.Event()))
        await author.until(lambda: [one.config for one in peer.configurations] == ["new"])
        comparing.cancel()


async def test_a_new_leader_reports_the_findings_that_it_made_as_a_standby() -> None:
    peer, leads = Peer(), asyncio.Event()
    async with an_author(peer) as author:
        found = await author.writes({"service.unknownKey": "1", "log.level": "loud"})
        assert [event.reason for event in found] == ["ConfigurationRejected", "ConfigurationWarning"]
        assert await author.writes(author.data) == []
        running = asyncio.create_task(author.reconfigurer.run(leads))
        leads.set()
        await author.until(lambda: author.commands == found)
        running.cancel()
