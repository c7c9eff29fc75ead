"""The order in which a gang of a framework got its nodes."""

from collections import Counter
from collections.abc import Mapping

from devcluster.api import Json
from tests.e2e.manifests import PREFIX, is_placeholder
from tests.frameworks.gangs import app_of, group_of, has_reservation_event, placement_of
from tests.kind.namespace import Namespace


async def reserved_first(
    namespace: Namespace, app: str, groups: Mapping[str, int], scheduler: str = "muster"
) -> list[Json]:
    """Return the real pods of an application, in the order in which they got a node.

    Fails unless all pods have this scheduler and a user, and each task group of ``groups`` has its members. In a
    Reserve gang, all placeholders must have got a node before the first real pod. In an Auto gang, where only absent
    members have placeholders, an event must report the reservation of all members.
    """
    pods = [pod for pod in namespace.history.values() if app_of(pod) == app]
    real = [pod for pod in pods if not is_placeholder(pod)]
    assert real, f"no pod of {app} got a node: {sorted(namespace.history)}"
    if placement_of(real, "Auto" if scheduler == "muster" else "Reserve") == "Reserve":
        assert Counter(group_of(pod) for pod in pods[: pods.index(real[0])]) == Counter(groups)
    else:
        assert has_reservation_event(await namespace.events(), real, sum(groups.values()))
    assert Counter(group_of(pod) for pod in real) >= Counter(groups)
    for pod in real:
        assert pod["spec"]["schedulerName"] == scheduler, pod["metadata"]["name"]
        assert f"{PREFIX}user.info" in pod["metadata"]["annotations"], pod["metadata"]["name"]
    return real
