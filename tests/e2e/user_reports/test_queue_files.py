"""Reports about queues.yaml: `muster validate` names what was meant, and messages where values are set."""

from pathlib import Path

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
