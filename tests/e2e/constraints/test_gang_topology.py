"""The example 05-topology, and a gang that fits into no zone (docs/concepts/applications.md)."""

from collections import Counter
from pathlib import Path

import yaml

from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.gang_placement.test_placement_modes import every_victim, restart
from tests.e2e.manifests import PREFIX, Group, a_gang, a_member, with_annotations
from tests.e2e.scenario import Scenario

EXAMPLE = Path(__file__).parents[3] / "examples" / "05-topology"
ZONE = "topology.kubernetes.io/zone"
CPU = {"a": "2", "b": "1", "c": "1500m"}


async def zones(scenario: Scenario, app: str) -> Counter[str]:
    """Number of real pods of the application in each zone."""
    pods = [pod for pod in await scenario.bound() if pod["metadata"]["labels"]["applicationId"] == app]
    return Counter(pod["spec"]["nodeName"].split("-")[1] for pod in pods)


async def apply(scenario: Scenario, file: str, app: str, count: int) -> Counter[str]:
    """Create the objects of the file, wait until all pods run, and return their number per zone."""
    for manifest in yaml.safe_load_all((EXAMPLE / file).read_text()):
        await scenario.api.apply(manifest, scenario.namespace)

    async def all_run() -> Counter[str]:
        found = await zones(scenario, app)
        return found if found.total() == count else Counter()

    return await scenario.eventually(f"{count} pods of {app} run", all_run)


async def test_gangs_are_packed_into_zones_and_a_waiting_gang_reports_the_best_zone(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(
        [FakeNode(f"node-{zone}-{i}", cpu=cpu, labels={ZONE: zone}) for zone, cpu in CPU.items() for i in range(2)]
    )
    assert await apply(scenario, "1-required.yaml", "train", 6) == {"c": 6}
    assert set(await apply(scenario, "2-preferred.yaml", "render", 10)) == {"a", "b"}
    parameters = {
        f"{PREFIX}schedulingPolicyParameters": f"topologyKey={ZONE} topologyMode=required gangPlacement=Reserve"
    }
    late = a_gang("late", [Group("workers", 4, cpu="500m")])
    await scenario.create(with_annotations(pod, parameters) for pod in late)
    texts = (
        f" of 4 members of task group workers fit in {ZONE}=",
        "0/6 nodes are available: 2 Insufficient cpu, 4 ",
    )
    await wait_for_reason(scenario, "late-workers-0", "SchedulingSkipped", *texts)


@every_victim
async def test_late_members_stay_in_the_domains_of_two_levels_also_after_a_restart(
    victims: list[str], open_scenario: OpenScenario
) -> None:
    """Each of the racks r and s in zone a has room for four members, and rack t in zone b for seven."""
    racks = {"r": ("a", "2"), "s": ("a", "2"), "t": ("b", "3500m")}
    scenario = await open_scenario(
        [
            FakeNode(f"node-{rack}", cpu=cpu, labels={ZONE: zone, "example.com/rack": rack})
            for rack, (zone, cpu) in racks.items()
        ]
    )
    groups = [Group("workers", 3, cpu="500m")]
    parameters = f"topologyKeys={ZONE}>example.com/rack topologyMode=required"
    await scenario.create(a_member("train", "workers", f"train-{index}", groups, parameters) for index in range(3))

    async def nodes_of(count: int) -> set[str]:
        return {pod["spec"]["nodeName"] for pod in await scenario.all_bound(count)}

    assert await nodes_of(3) == {"node-t"}, "both zones have such a rack, and zone b has less room"
    await restart(scenario, victims)
    await scenario.create(a_member("train", "workers", f"late-{index}", groups, parameters) for index in range(5))
    assert await nodes_of(7) == {"node-t"}
    [waiting] = [pod for pod in await scenario.pods() if not pod["spec"].get("nodeName")]
    text = "1 Insufficient cpu, 2 node(s) were outside the gang's topology domain"
    await wait_for_reason(scenario, waiting["metadata"]["name"], "Unschedulable", text)
    await scenario.api.delete("pods", "train-0", scenario.namespace, grace_s=0)

    async def is_bound() -> bool:
        found = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await scenario.pods()}
        return bool(found[waiting["metadata"]["name"]] == "node-t")

    await scenario.eventually("the last member takes the place of another one", is_bound)
