"""Only the leader's pod has the leader label: others lose it immediately, and ours gets it after the recovery."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from muster_operator.kube import leadership
from muster_operator.kube.leadership import PERIOD_S, LeaderLabel, pause_s
from muster_operator.kube.session import MERGE_PATCH, KubeSession, Reply, Request
from muster_operator.model.errors import NotLeading, Unreachable
from muster_operator.model.names import LABEL_ROLE, ROLE_LEADER

Json = dict[str, Any]


@dataclass
class Pods(KubeSession):
    """The pods of one namespace behind an API server. `closed`: the guard is; `denies`: so are our rights."""

    roles: dict[str, str | None]
    uids: dict[str, str] = field(default_factory=dict)
    written: list[Request] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    is_down: bool = False
    closed: bool = False
    denies: bool = False

    async def send(self, request: Request) -> Reply:
        if self.is_down:
            raise Unreachable(request.name, "down")
        url = urlsplit(request.path)
        if request.method == "GET":
            assert parse_qs(url.query)["labelSelector"] == [f"{LABEL_ROLE}={ROLE_LEADER}"]
            found = [self._pod(name) for name, role in self.roles.items() if role == ROLE_LEADER]
            return Reply(200, orjson.dumps({"items": found}))
        if self.closed:
            raise NotLeading(request.name)
        self.written.append(request)
        self.heard.set()
        return Reply(
            self._patched(url.path.removesuffix("/status").rpartition("/")[2], orjson.loads(request.body)["metadata"]),
            b"{}",
        )

    def _pod(self, name: str) -> Json:
        return {"metadata": {"name": name, "uid": f"old-{name}", "labels": {LABEL_ROLE: self.roles[name]}}}

    def _patched(self, name: str, metadata: Json) -> int:
        if self.denies:
            return 403
        if name not in self.roles:
            return 404
        if metadata.get("uid", f"old-{name}") != self.uids.get(name, f"old-{name}"):
            return 409
        self.roles[name] = metadata["labels"][LABEL_ROLE]
        return 200


def ours(pods: Pods, *, recovered: bool = True) -> LeaderLabel:
    event = asyncio.Event()
    if recovered:
        event.set()
    return LeaderLabel(pods, "muster", "ours", event)


async def test_the_leader_label_is_set_on_our_pod_and_removed_from_all_others() -> None:
    pods = Pods({"ours": None, "before": ROLE_LEADER, "long-before": ROLE_LEADER})
    assert await ours(pods).check()
    assert pods.roles == {"ours": ROLE_LEADER, "before": None, "long-before": None}
    assert all(one.content_type == MERGE_PATCH and one.needs_leadership for one in pods.written)


async def test_the_leader_label_is_set_on_our_pod_only_after_the_core_has_recovered() -> None:
    pods = Pods({"ours": None, "before": ROLE_LEADER})
    mark = ours(pods, recovered=False)
    assert await mark.check()
    assert pods.roles == {"ours": None, "before": None}
    mark.recovered.set()
    assert await mark.check()
    assert pods.roles == {"ours": ROLE_LEADER, "before": None}


async def test_a_later_check_removes_the_leader_label_from_others_when_the_first_one_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leadership, "AGAIN_S", 0.01)
    pods = Pods({"ours": None, "before": ROLE_LEADER}, is_down=True)
    task = asyncio.create_task(ours(pods, recovered=False).run())
    await asyncio.sleep(0)
    pods.is_down = False
    async with asyncio.timeout(20):
        await pods.heard.wait()
    assert pods.roles == {"ours": None, "before": None}, "our core knows nothing yet"
    task.cancel()


async def test_a_correct_leader_label_is_not_written() -> None:
    pods = Pods({"ours": ROLE_LEADER, "other": None})
    assert await ours(pods).check()
    assert pods.written == []


async def test_a_restarted_leader_keeps_its_label_while_its_core_recovers() -> None:
    """A restarted container in the same pod; no other replica has led meanwhile."""
    pods = Pods({"ours": ROLE_LEADER})
    assert await ours(pods, recovered=False).check()
    assert pods.roles == {"ours": ROLE_LEADER}


async def test_a_deleted_or_recreated_pod_is_not_labelled() -> None:
    pods = Pods({"ours": None, "again": ROLE_LEADER}, uids={"again": "new"})
    assert await ours(pods).check()
    assert pods.roles == {"ours": ROLE_LEADER, "again": ROLE_LEADER}
    mark = LeaderLabel(pods, "muster", "gone", asyncio.Event())
    mark.recovered.set()
    assert await mark.check()


@pytest.mark.parametrize("trouble", ["is_down", "closed", "denies"])
async def test_a_failed_check_is_reported_and_the_next_one_repairs_the_labels(trouble: str) -> None:
    pods = Pods({"ours": None, "before": ROLE_LEADER})
    setattr(pods, trouble, True)
    assert not await ours(pods).check()
    assert pods.roles == {"ours": None, "before": ROLE_LEADER}
    setattr(pods, trouble, False)
    assert await ours(pods).check()
    assert pods.roles == {"ours": ROLE_LEADER, "before": None}


def test_failed_checks_are_repeated_with_a_growing_pause_up_to_the_period() -> None:
    assert [pause_s(failed) for failed in (1, 2, 3, 100_000)] == [1.0, 2.0, 4.0, PERIOD_S]
    assert pause_s(0) == PERIOD_S
