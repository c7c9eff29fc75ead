"""The questions that REST answers in a process of its own: what it predicts is what then happens, and its limits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from muster_core.foresight.present import PresentState, written
from muster_core.rest import answers
from muster_core.rest.answers import AnswerProcess, NoAnswer
from muster_core.state.applications import Application
from muster_si import si_pb2
from tests.browser import live_core
from tests.browser.live_core import QUEUES, LiveCore
from tests.unit.core.messages import RM

P = "/ws/v1/partition/default"
JOB = """
kind: Job
metadata: {{name: new}}
spec:
  parallelism: {pods}
  template:
    metadata: {{labels: {{applicationId: new, queue: {queue}}}}}
    spec: {{containers: [{{name: main, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"""
RAISED = QUEUES.replace("max: {vcore: 8, memory: 64Gi}", "max: {vcore: 10, memory: 64Gi}").replace(
    "{vcore: 8}}", "{vcore: 10}}"
)


@pytest.fixture
async def live() -> AsyncIterator[LiveCore]:
    async with live_core.running() as made:
        await live_core.fill(made)
        yield made


@pytest.fixture
async def http(live: LiveCore) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{live.port}") as session:
        yield session


async def asked(http: aiohttp.ClientSession, path: str, body: str | bytes | None = None, status: int = 200) -> Any:
    """The JSON of an answer."""
    async with http.request("GET" if body is None else "POST", f"{P}/{path}", data=body) as answer:
        found = await answer.json()
        assert answer.status == status, found
        return found


def application(live: LiveCore, name: str) -> Application:
    [partition] = live.core.loop.scheduler_state.partitions.values()
    return next(app for app in partition.applications.values() if app.name == name)


async def until(happens: Callable[[], bool]) -> None:
    """Wait for something that nothing signals."""
    while not happens():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0)


async def test_a_change_that_would_start_an_application_starts_it(live: LiveCore, http: aiohttp.ClientSession) -> None:
    found = await asked(http, "application/llm-finetune/changes?namespace=team-a")
    [[change]] = found["sets"]
    assert (change["change"], change["application"], found["startsAnyway"]) == ("endApplication", "llm-pretrain", False)
    assert found["lines"][1].startswith("  end team-a/llm-pretrain (4 pods")
    assert not application(live, "llm-finetune").gang.was_complete
    await live.end("llm-pretrain")
    await live.idle()
    assert application(live, "llm-finetune").gang.was_complete


async def test_an_estimate_has_the_run_times_of_ended_applications(live: LiveCore, http: aiohttp.ClientSession) -> None:
    assert (await asked(http, "application/llm-finetune/estimate"))["usualSeconds"] is None
    assert (await asked(http, "application/llm-pretrain/estimate"))["usualSeconds"] == 0


async def test_a_dry_run_says_what_happens_to_the_same_pods(live: LiveCore, http: aiohttp.ClientSession) -> None:
    for queue, pods, cpu, result in (("root.default", 1, 4, "starts"), ("root.batch.reports", 3, 14, "waits")):
        manifest = JOB.format(queue=queue, pods=pods, cpu=cpu)
        found = await asked(http, "dry-run?namespace=team-c&user=kim&group=staff", manifest)
        [app] = found["applications"]
        assert (app["namespace"], app["user"], app["queue"], app["result"]) == ("team-c", "kim", queue, result)
        name = f"new-{result}"
        await live.application(name, queue, pods, {"vcore": cpu * 1_000}, namespace="team-c", user="kim")
        await live.idle()
        started = application(live, name).allocations
        if result == "starts":
            await until(lambda: len(started) == pods)  # noqa: B023 - called at once
        assert sum(app["nodes"].values()) == len(started)  # nodes can differ: others are reserved in the copy


async def test_a_plan_says_what_the_configuration_then_does(live: LiveCore, http: aiohttp.ClientSession) -> None:
    found = await asked(http, "plan?within=30", RAISED)
    started = [one["application"] for one in found["differences"] if one["change"] == "starts"]
    assert found["lines"] == [f"Within 30s, against the active configuration: {len(started)} started"]
    assert started
    assert not any(application(live, name).allocations for name in started)
    extra = {"queues.yaml": RAISED}
    await live.core.update_configuration(si_pb2.UpdateConfigurationRequest(rmID=RM, config=RAISED, extraConfig=extra))
    await until(lambda: all(application(live, name).allocations for name in started))


async def test_a_plan_names_the_applications_that_would_be_placed_otherwise(http: aiohttp.ClientSession) -> None:
    found = await asked(http, "plan", QUEUES.replace("- name: nightly", "- name: other"))
    assert {"moves", "rejected"} & {one["change"] for one in found["differences"]}


async def test_unusable_questions_are_refused_with_the_words_of_the_command(http: aiohttp.ClientSession) -> None:
    for path, body, message in (
        ("plan", "a: [", "queues.yaml: the file is not YAML"),
        ("plan", b"\xff", "the text is not UTF-8"),
        ("plan?within=0", QUEUES, "within must be from 1 to 86400"),
        ("plan?within=86401", QUEUES, "within must be from 1 to 86400"),
        ("plan", QUEUES.replace("name: default", "name: other", 1), "has no partition 'default'"),
        ("dry-run", "kind: Foo", "kind 'Foo' is not simulated"),
        ("dry-run", "", "has no pods that Muster would schedule"),
        ("dry-run?" + "group=a&" * 101, "", "at most 100 groups"),
    ):
        assert message in (await asked(http, path, body, 400))["message"]
    await asked(http, "application/nothing/changes", status=404)


async def test_each_address_has_a_bounded_number_of_waiting_questions(http: aiohttp.ClientSession) -> None:
    async def status() -> int:
        async with http.get(f"{P}/application/llm-pretrain/estimate") as answer:
            return answer.status

    found = await asyncio.gather(*(status() for _ in range(24)))
    assert {*found} == {200, 429}


async def test_a_view_of_an_earlier_time_is_what_it_was(tmp_path: Path) -> None:
    """Each view, while the journal is written. The later time first, so that it is read again from its beginning."""
    with (tmp_path / "journal").open("wb") as journal:
        async with live_core.running(journal=journal) as live:
            await live_core.fill(live)
            views = ("queues", "applications/active/summary", "nodes", "usage/users", "waiting")
            async with aiohttp.ClientSession(f"http://127.0.0.1:{live.port}") as http:
                seen: dict[int, list[Any]] = {}
                for name in ("one", "two"):
                    shown = [await asked(http, view) for view in views]
                    at_ms = live.core.loop._now_ns() // 10**6
                    seen[at_ms] = shown
                    await until(lambda: live.core.loop._now_ns() // 10**6 > at_ms)  # noqa: B023 - called at once
                    await live.application(name, "root.default", 1)
                    await live.idle()
                for at_ms, shown in reversed(seen.items()):
                    assert [await asked(http, f"{view}?at={at_ms}") for view in views] == shown
                assert await asked(http, f"applications/active/summary?at={at_ms}&limit=1") == shown[1][:1]
                absent = await asked(http, f"application/one?at={at_ms}", status=404)
                assert absent["message"] == "Application not found"
                await asked(http, "queues?at=tomorrow", status=400)


async def test_without_a_journal_there_is_no_earlier_time(http: aiohttp.ClientSession) -> None:
    assert "--journal FILE" in (await asked(http, "queues?at=1", status=404))["message"]


async def no_state() -> AsyncIterator[bytes]:
    """A state that never ends."""
    while True:
        yield b""


async def test_a_process_that_takes_too_long_is_ended() -> None:
    process = AnswerProcess(longest_s=0.5)
    question = asyncio.create_task(process.ask(no_state, {"question": "plan"}))
    await until(lambda: process.pid is not None)
    pid = process.pid or 0
    with pytest.raises(NoAnswer, match=r"more than 0\.5 s"):
        await question
    assert process.pid is None
    await until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize(
    "limit, used, cached, most",
    [
        ("max", 900, 0, 384),
        ("1024", 100, 0, 382),
        ("1024", 400, 0, 232),
        ("1024", 700, 300, 232),
        ("512", 200, 0, None),
    ],
)
async def test_the_process_gets_half_of_what_the_core_leaves_of_the_memory(
    limit: str, used: int, cached: int, most: int | None, tmp_path: Path
) -> None:
    """In MiB. A container that exceeds its limit ends with all its processes."""
    (tmp_path / "memory.max").write_text(f"{limit if limit == 'max' else int(limit) << 20}\n")
    (tmp_path / "memory.current").write_text(f"{used << 20}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {cached << 20}\n")
    process = AnswerProcess(control_group=tmp_path)
    question = asyncio.create_task(process.ask(no_state, {"question": "plan"}))
    if most is None:
        with pytest.raises(NoAnswer, match="too little memory left"):
            await question
        return
    await until(lambda: process.pid is not None)
    child = psutil.Process(process.pid)
    await until(lambda: "muster.what_if" in child.cmdline())  # before, it is a copy of this process
    arguments = child.cmdline()
    process.close()
    await asyncio.gather(question, return_exceptions=True)
    assert int(arguments[arguments.index("muster.what_if") + 1]) == most << 20


async def test_a_question_that_nobody_waits_for_is_answered_before_the_next_one() -> None:
    """Otherwise a client that leaves would end the process, and what it knows, for the others."""
    process, ask = AnswerProcess(), {"question": "earlier", "journal": "/nowhere", "at_ns": 0, "real_s": 1}
    asked = {**ask, "route": "/", "path": {}, "query": {}}
    left = asyncio.create_task(process.ask(None, asked))
    await until(lambda: process.pid is not None)
    pid = process.pid
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    assert (await process.ask(None, asked))[0] == 503
    assert process.pid == pid
    process.close()


async def test_a_state_is_used_again_while_the_core_has_not_changed(
    live: LiveCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_FRESH_S", 0.0)
    [partition] = live.core.loop.scheduler_state.partitions.values()
    configuration = live.core.loop.scheduler_state.managers[partition.rm].configuration
    process, read = AnswerProcess(), 0

    async def state() -> AsyncIterator[bytes]:
        nonlocal read
        read += 1
        for part in written(PresentState(partition.id, configuration, {}, 1), partition):
            yield part

    asked = {"question": "estimate", "app": {"applicationID": "llm-pretrain", "namespace": "team-a"}, "real_s": 15}
    for version, expected in ((7, 1), (7, 1), (8, 2), (8, 2)):
        assert (await process.ask(state, asked, partition.id, version))[0] == 200
        assert read == expected
    monkeypatch.setattr(answers, "_FRESH_S", 60.0)
    await process.ask(state, asked, partition.id, 9)
    assert read == 2, "the first answer about it was a moment ago"
    process.close()


async def test_no_process_is_started_after_the_end_or_when_turned_off() -> None:
    with pytest.raises(NoAnswer, match="--rest-simulation-mib 0") as refused:
        await AnswerProcess(0).ask(no_state, {"question": "plan"})
    assert refused.value.is_off
    process = AnswerProcess()
    first, second = (asyncio.create_task(process.ask(no_state, {"question": "plan"})) for _ in range(2))
    await until(lambda: process.pid is not None)
    process.close()
    _, later = await asyncio.gather(first, second, return_exceptions=True)
    assert str(later) == "the core is stopping"
    assert process.pid is None
