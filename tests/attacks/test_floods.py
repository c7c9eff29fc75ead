"""Attacks by size and number: objects of one namespace user must not stop, delay or starve other users."""

import asyncio
import json

from devcluster.api import Json
from devcluster.errors import ApiError
from tests.attacks.attack import Attack, annotated, resident_bytes, sized, task_groups
from tests.attacks.conftest import OpenAttack
from tests.e2e.manifests import a_pod

OWN_QUEUE = {"queue": "root.attacker"}


def big_affinity(size_bytes: int) -> Json:
    """Pod anti-affinity terms with a total size of about ``size_bytes``."""
    values = [f"{number:060d}" for number in range(max(1, size_bytes // 64))]
    expression = {"key": "app", "operator": "In", "values": values}
    term = {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def with_affinity(pod: Json, size_bytes: int) -> Json:
    """The pod with constraints of about ``size_bytes``."""
    pod["spec"]["affinity"] = big_affinity(size_bytes)
    return pod


async def test_large_pods_do_not_interrupt_the_core_session(open_attack: OpenAttack) -> None:
    """A hundred members of 200 kB each would be one message of more than 16 MiB, sent again by every recovery."""
    attack = await open_attack()
    count = sized(40, 100)
    pods = [
        with_affinity(a_pod(f"large-{n}", cpu="1m", labels={"applicationId": "large", **OWN_QUEUE}), 440_000)
        for n in range(count)
    ]
    await attack.user.create(pods, concurrently=5)
    await attack.victim_gets_its_gang(writes=4 * count)
    await attack.restart_operator()
    await attack.victim_gets_its_gang(writes=4 * count, name="after-recovery")


async def test_padded_task_groups_do_not_block_recovery(open_attack: OpenAttack) -> None:
    """A hundred applications whose annotations are padded to 200 kB: together larger than the message limit."""
    attack = await open_attack()
    count = sized(90, 200)
    text = task_groups(("g", 1)) + " " * 200_000
    pods = [
        annotated(
            a_pod(f"padded-{n}", cpu="1m", labels={"applicationId": f"padded-{n}", **OWN_QUEUE}), task_groups=text
        )
        for n in range(count)
    ]
    await attack.user.create(pods, concurrently=5)
    await attack.restart_operator()
    await attack.victim_gets_its_gang(writes=3 * count)


async def test_pods_of_other_schedulers_leak_no_memory(open_attack: OpenAttack) -> None:
    """Pods of another scheduler with constraints of 1 MB each, created and deleted one after the other."""
    attack = await open_attack()
    operator = attack.scenario.muster.operator
    warm = [with_affinity(a_pod(f"warm-{n}", cpu="1m", scheduler="other"), 1_000_000) for n in range(5)]
    await attack.user.create(warm, concurrently=2)
    await attack.user.delete(pod["metadata"]["name"] for pod in warm)
    await attack.victim_gets_its_gang(writes=0, name="warm-up")
    before = resident_bytes(operator)
    for batch in range(sized(3, 30)):
        pods = [with_affinity(a_pod(f"foreign-{batch}-{n}", scheduler="other"), 1_000_000 + batch) for n in range(10)]
        for number, pod in enumerate(pods):
            pod["spec"]["affinity"] = big_affinity(1_000_000 + 64 * (10 * batch + number))
        await attack.user.create(pods, concurrently=2)
        await attack.user.delete(pod["metadata"]["name"] for pod in pods)
    await attack.victim_gets_its_gang(writes=0)
    grown = resident_bytes(operator) - before
    assert grown < 64 * 2**20, f"the operator grew by {grown} bytes"


async def test_a_flood_of_placeholders_delays_no_other_tenant_and_ends_with_its_pod(open_attack: OpenAttack) -> None:
    """The largest accepted gang. Its pod is deleted after the first placeholder, so most others are never created."""
    attack = await open_attack()
    groups = [(f"g{n}", sized(15, 100)) for n in range(100)]
    pod = annotated(
        a_pod("flood", cpu="1m", labels={"applicationId": "flood"}),
        task_groups=task_groups(*groups, cpu="0"),
        schedulingPolicyParameters="gangPlacement=Reserve",
    )
    pod["metadata"]["labels"]["queue"] = "root.tenant"
    await attack.user.create([pod])

    async def has_begun() -> bool:
        return len(await attack.attackers_pods()) > 1

    async def give_up() -> None:
        await attack.scenario.eventually("the first placeholder exists", has_begun)
        await attack.user.delete(["flood"])

    async def all_deleted() -> bool:
        return not await attack.attackers_pods()

    await asyncio.gather(attack.victim_gets_its_gang(writes=1_200), give_up())
    await attack.scenario.eventually("the placeholders are deleted", all_deleted, 120)
    created = [write for write in attack.writes_for_attacker() if write.what == "create pods"]
    assert len(created) < sum(count for _, count in groups), "creations go on after the gang was given up"


async def test_a_huge_min_member_costs_nothing(open_attack: OpenAttack) -> None:
    """Two billion members in each placement: rejected, or waiting without any work per member."""
    attack = await open_attack()
    for placement in ("Reserve", "Direct", "Auto"):
        pod = annotated(
            a_pod(f"huge-{placement.lower()}", cpu="1m", labels={"applicationId": f"huge-{placement}", **OWN_QUEUE}),
            task_groups=task_groups(("g", 2**31 - 1)),
            schedulingPolicyParameters=f"gangPlacement={placement}",
        )
        await attack.user.create([pod])
    await attack.victim_gets_its_gang(writes=50)


async def test_thousands_of_task_groups_are_rejected_early(open_attack: OpenAttack) -> None:
    """As many groups as an annotation can hold, in many pods."""
    attack = await open_attack()
    text = json.dumps([{"name": f"{n}", "minMember": 1} for n in range(7000)])
    assert len(text) < 256 * 1024
    pods = [
        annotated(
            a_pod(f"groups-{n}", cpu="1m", labels={"applicationId": f"groups-{n}", **OWN_QUEUE}), task_groups=text
        )
        for n in range(sized(30, 150))
    ]
    await attack.user.create(pods, concurrently=5)
    await attack.victim_gets_its_gang(writes=4 * len(pods))


async def test_a_thousand_distinct_selectors_reject_no_pod_of_another_tenant(open_attack: OpenAttack) -> None:
    """Each pod selects another label. Afterwards another tenant's pod with a selector is still scheduled."""
    attack = await open_attack()
    count = sized(150, 1500)
    pods = []
    for number in range(count):
        pod = a_pod(f"selector-{number}", cpu="1m", labels={"applicationId": f"s{number % 50}", **OWN_QUEUE})
        term = {"labelSelector": {"matchLabels": {f"key-{number}": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        pods.append(pod)
    await attack.user.create(pods)
    await attack.victim_gets_its_gang(writes=2 * count)
    other = a_pod("own-selector", cpu="100m", labels={"queue": "root.tenant", "tenant-key": "y"})
    term = {"labelSelector": {"matchLabels": {"tenant-key": "y"}}, "topologyKey": "kubernetes.io/hostname"}
    other["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await attack.scenario.create([other])
    await attack.scenario.eventually("the other tenant's pod runs", lambda: _runs(attack, "own-selector"))
    await attack.scenario.api.delete("pods", "own-selector", attack.scenario.namespace, grace_s=0)


async def test_selectors_of_all_namespaces_cost_no_memory_for_each_namespace(open_attack: OpenAttack) -> None:
    """Each pod selects hundreds of labels in all namespaces, or more than allowed; there are many namespaces."""
    attack = await open_attack()
    admin, count = attack.scenario.api, sized(20, 150)
    spaces = [f"{attack.user.namespace}-{number}" for number in range(sized(10, 100))]
    for name in spaces:
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    pods = []
    for number in range(count):
        pod = a_pod(f"everywhere-{number}", cpu="1m", labels={"applicationId": f"e{number % 10}", **OWN_QUEUE})
        labels = [{"key": f"k{number}-{key}", "operator": "Exists"} for key in range(1200 if number % 5 == 0 else 250)]
        term = {
            "labelSelector": {"matchExpressions": labels},
            "namespaceSelector": {},
            "topologyKey": "kubernetes.io/hostname",
        }
        pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        pods.append(pod)
    await attack.user.create(pods, concurrently=5)
    before = resident_bytes(attack.scenario.muster.core)
    for name in spaces:
        await admin.create(a_pod("there", cpu="1m", labels={"queue": "root.tenant"}), name)
    await attack.victim_gets_its_gang(writes=4 * count)
    grown = resident_bytes(attack.scenario.muster.core) - before
    print(f"the core grew by {grown >> 20} MiB for {len(spaces)} namespaces")  # noqa: T201 - pytest -rP shows it
    assert grown < 32 * 2**20
    for name in spaces:
        await admin.delete("pods", "there", name, grace_s=0)
        await admin.delete("namespaces", name)


async def _runs(attack: Attack, name: str) -> bool:
    return name in {pod["metadata"]["name"] for pod in await attack.scenario.bound()}


async def test_a_namespace_deleted_during_placeholder_creation_leaves_nothing(
    open_attack: OpenAttack,
) -> None:
    """The API server rejects creations after the deletion, and the remaining creations are not attempted."""
    attack = await open_attack(pods="5000")
    members = sized(300, 5000)
    pod = annotated(
        a_pod("doomed", cpu="1m", labels={"applicationId": "doomed", **OWN_QUEUE}),
        task_groups=task_groups(*((f"g{n}", members // 10) for n in range(10)), cpu="0"),
        schedulingPolicyParameters="gangPlacement=Reserve",
    )
    await attack.user.create([pod])
    await attack.scenario.eventually("placeholders are being created", lambda: _has_placeholders(attack))
    await attack.scenario.api.delete("namespaces", attack.user.namespace)
    # At most one creation, binding, condition and deletion of each member, if the namespace is deleted slowly.
    await attack.victim_gets_its_gang(writes=4 * members)

    async def is_deleted() -> bool:
        try:
            await attack.scenario.api.get("namespaces", attack.user.namespace)
        except ApiError as error:
            return error.status == 404
        return False

    await attack.scenario.eventually("the namespace is deleted", is_deleted, 180)


async def _has_placeholders(attack: Attack) -> bool:
    return len(await attack.attackers_pods()) > 20


async def test_pods_that_change_continuously_delay_no_other_tenant(open_attack: OpenAttack) -> None:
    """Labels and annotations of waiting pods change as fast as the attacker can write them."""
    attack = await open_attack()
    names = [f"noise-{n}" for n in range(20)]
    await attack.user.create(a_pod(name, cpu="100", labels={"applicationId": name, **OWN_QUEUE}) for name in names)

    async def change(name: str) -> None:
        for number in range(sized(20, 500)):
            labels = {"metadata": {"labels": {f"k{number % 7}": f"v{number}"}}}
            await attack.user.api.patch("pods", name, labels, attack.user.namespace)

    noise = asyncio.gather(*(change(name) for name in names))
    await attack.victim_gets_its_gang(writes=200)
    await noise
