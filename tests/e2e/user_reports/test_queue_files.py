"""Reports about queues.yaml: `muster validate` names what was meant, and messages where values are set."""

from pathlib import Path

import pytest

from devcluster.api import Json
from tests.e2e.manifests import with_annotations
from tests.e2e.scenario import Scenario
from tests.e2e.user_reports.reports import members, muster, noted, plain, queues_file

OLD_PAGES = """
partitions:
  - name: default
    placementrules: [{name: User, parent: {name: Group}}]
    users: [{name: mira, maxapplications: 1}]
    queues:
      - {name: data, properties: {maxResource: {memory: 48Gi}}}
"""
OTHER_NAMES = """
partitions:
  - name: default
    queues:
      - name: team
        resources: {guaranteed: {cpu: 1}, max: {vcore: 4}}
        limits: [{users: [mira], maxresources: {cpu: 2, gpu: 1}}]
      - name: pool
        parent: true
        childtemplate: {resources: {max: {CPU: 3, requests.cpu: 2}}}
"""
RULES = """
partitions:
  - name: default
    placementrules:
      - {name: tag, value: queue}
      - {name: tag, value: namespace, create: true, parent: {name: tag, value: namespace.parentqueue}}
    queues:
      - {name: root, submitacl: "*", queues: [{name: prod}]}
"""
FAIR = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: batch
            properties: {application.sort.policy: fair, preemption.policy: disabled}
            queues: [{name: team-a, resources: {max: {vcore: 4, cpu: 2}}}]
          - name: adhoc
            parent: true
            childtemplate: {maxapplications: 1, properties: {application.sort.policy: fair}}
"""


async def test_a_file_from_old_pages_gets_all_its_mistakes_in_one_run(demo: Scenario, tmp_path: Path) -> None:
    (path := tmp_path / "queues.yaml").write_text(OLD_PAGES)
    code, page = await muster(demo, "validate", str(path))
    assert code == 1
    for text in (
        "partitions[0].users: 'users' is not a known key; did you mean limits? Known here: ",
        "properties.maxResource is not text; remove it, and write resources.max of the queue",
        "placementrules[0].parent.name: 'Group' is not a placement rule",
    ):
        assert text in page.replace("\n", " ")
    assert len(page.splitlines()) == 3


async def test_names_of_other_systems_are_warnings_at_every_place(demo: Scenario, tmp_path: Path) -> None:
    (path := tmp_path / "queues.yaml").write_text(OTHER_NAMES)
    code, page = await muster(demo, "validate", str(path))
    assert code == 0
    for place in (
        "queues[0].resources.guaranteed.cpu: has no effect; use vcore",
        "queues[0].limits[0].maxresources.cpu: has no effect; use vcore",
        "queues[0].limits[0].maxresources.gpu: has no effect; did you mean nvidia.com/gpu?",
        "queues[1].childtemplate.resources.max.CPU: has no effect; use vcore",
        "queues[1].childtemplate.resources.max.requests.cpu: has no effect; use vcore",
    ):
        assert place in page


async def test_the_advice_of_a_rejection_fits_its_reasons(demo: Scenario) -> None:
    parent = {"metadata": {"annotations": {"yunikorn.apache.org/parentqueue": "root.prod"}}}
    await demo.api.patch("namespaces", demo.namespace, parent)
    async with queues_file(demo, RULES, "root.prod"):
        await demo.create([with_annotations(plain("rejected", "100m"), {"yunikorn.apache.org/queue": "root.prod"})])
        [event, *_] = await noted(demo, "no placement rule matched")
    assert event["message"].endswith(
        "(tag: the application has no such tag; tag: its parent root.prod is a leaf); use the placement rule provided, "
        "which reads the queue that a pod names; or write parent: true at queue root.prod in queues.yaml"
    )


async def test_a_message_names_where_an_inherited_order_is_set(demo: Scenario) -> None:
    async with queues_file(demo, FAIR, "root.batch.team-a"):
        for app, queue, origin in (
            ("team", "root.batch.team-a", "root.batch"),
            ("adhoc", "root.adhoc.new", "childtemplate of root.adhoc"),
        ):
            await demo.create(in_queue(queue, members(app, 2, cpu="100m")))
            await noted(demo, f"queue {queue} sorts its applications by fair share (set by {origin}): a gang needs")


async def test_the_queues_show_where_inherited_and_templated_values_are_set(demo: Scenario) -> None:
    async with queues_file(demo, FAIR, "root.batch.team-a"):
        for name in ("first", "second"):
            await demo.create(in_queue("root.adhoc.new", [plain(name, "100m")]))
        await noted(demo, "queue root.adhoc.new (set by childtemplate of root.adhoc) is running 1 of at most 1 app")
        _, page = await muster(demo, "queues", "-o", "wide")
    rows = {line.split()[0]: line for line in page.splitlines() if line.startswith("root")}
    assert "fair (root.batch)" in rows["root.batch.team-a"]
    assert "off (root.batch)" in rows["root.batch.team-a"]
    assert "1/1 (childtemplate of root.adhoc)" in rows["root.adhoc.new"]
    assert "cpu (not vcore) 2" in rows["root.batch.team-a"].replace('"', "")


def in_queue(queue: str, pods: list[Json]) -> list[Json]:
    """The same pods with the label of a queue."""
    for pod in pods:
        pod["metadata"]["labels"]["queue"] = queue
    return pods


@pytest.mark.parametrize("entry, warns", [("name*", True), ("dev", False)])
async def test_entries_of_a_filter_without_effect_are_named(
    demo: Scenario, tmp_path: Path, entry: str, *, warns: bool
) -> None:
    rule = f"[{{name: provided, filter: {{groups: [4711, ops, {entry}]}}}}]"
    (path := tmp_path / "queues.yaml").write_text(
        f"partitions: [{{name: default, placementrules: {rule}, queues: [{{name: a}}]}}]"
    )
    code, page = await muster(demo, "validate", str(path))
    assert code == 0
    assert ("filter.groups[2]: 'name*' is not a group name and is ignored" in page) is warns
    assert "filter.groups[0]: '4711' is not a group name and is ignored" in page
