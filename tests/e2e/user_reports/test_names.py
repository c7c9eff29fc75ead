"""Misspelt names, and task groups from templates: an event, the doctor and the views say what has no effect."""

from devcluster.api import Json
from tests.e2e.scenario import Scenario
from tests.e2e.user_reports.reports import data, muster, noted, plain, runs

Y = "yunikorn.apache.org/"


def job(name: str, annotations: dict[str, str], labels: dict[str, str]) -> list[Json]:
    """Three pods of one application with these names in their metadata."""
    pods = [plain(f"{name}-{number}", "100m", app=name) for number in range(3)]
    for pod in pods:
        pod["metadata"]["annotations"] = annotations
        pod["metadata"]["labels"] |= labels
    return pods


async def test_a_name_without_effect_is_one_event_for_each_application_and_a_finding_of_the_doctor(
    demo: Scenario,
) -> None:
    namespace = {"metadata": {"annotations": {f"{Y}namespace.quota": '{"cpu": "4", "requests.nvidia.com/gpu": "1"}'}}}
    await demo.api.patch("namespaces", demo.namespace, namespace)
    await demo.create(job("note", {f"{Y}taskGroupName": "w", f"{Y}gangSchedulingStyle": "Hard"}, {}))
    await demo.create(job("mark", {}, {f"{Y}allow-preemption": "false"}))
    texts = [
        f"annotation {Y}taskGroupName has no effect; did you mean {Y}task-group-name?",
        (
            f"annotation {Y}gangSchedulingStyle has no effect; write gangSchedulingStyle=... into annotation "
            f"{Y}schedulingPolicyParameters"
        ),
        f"label {Y}allow-preemption has no effect; write it as an annotation",
    ]
    for text in texts:
        assert len(await noted(demo, text)) == 1
    await runs(demo, "note", 3)
    found = [finding["message"] for finding in await data(demo, "doctor") if finding["check"] == "names"]
    assert all(any(text in message for message in found) for text in texts)
    assert any(
        f"namespace {demo.namespace}: {Y}namespace.quota: requests.nvidia.com/gpu limits nothing" in message
        and message.endswith("did you mean nvidia.com/gpu?")
        for message in found
    )


async def test_a_gang_that_is_lost_by_its_task_groups_leaves_a_trace(demo: Scenario) -> None:
    comma = '[{"name": "w", "minMember": 2, "minResource": {"cpu": "100m"}},\n]'
    unknown = '[{"name": "w", "maxMember": 2, "minMember": 2, "maxResource": {"cpu": "100m"}}]'
    await demo.create(job("comma", {f"{Y}task-groups": comma}, {}))
    await demo.create(job("unknown", {f"{Y}task-groups": unknown}, {}))
    for app, problem in (
        ("comma", "task-groups: is not JSON ("),
        ("unknown", "task-groups[0].minResource: is missing; "),
    ):
        await runs(demo, app, 3)
        await noted(demo, problem)
        for command in ("app", "explain"):
            _, page = await muster(demo, command, f"{demo.namespace}/{app}")
            [line] = [line for line in page.splitlines() if line.startswith("gang ")]
            assert line.split(maxsplit=2)[1:][0] == "none:"
            assert problem in line
    await noted(demo, "task-groups[0].maxResource is ignored; did you mean minResource?")
    code, page = await muster(demo, "doctor")
    assert code == 1
    assert f"no gang for pod {demo.namespace}/comma-0" in page
