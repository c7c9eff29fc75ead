"""Members of gangs for scenarios with operator and core."""

from tests.unit.contract.agent_and_core import Both
from tests.unit.operator.controller.objects import Raw, a_container, a_group, a_pod, gang_annotations


def a_member(
    both: Both, name: str, parameters: str, *, app: str = "app", count: int = 4, cpu: str = "", group: str = "g"
) -> Raw:
    """Return a member of a gang with one task group; `cpu` per member, or what pods and groups have by default."""
    request = {"minResource": {"cpu": cpu, "memory": "1Gi"}} if cpu else {}
    annotations = gang_annotations(a_group(group, count, **request), parameters=parameters, member_of=group)
    pod = a_pod(name, app=app, annotations=annotations)
    if cpu:
        pod["spec"]["containers"] = [a_container(cpu=cpu, memory="1Gi")]
    pod["metadata"]["creationTimestamp"] = both.created()
    return pod


def on_nodes(nodes: int) -> Both:
    """Return a live session with nodes of eight CPUs."""
    both = Both()
    both.kubernetes.add_nodes(nodes)
    both.start()
    return both


def add(both: Both, *members: Raw) -> Both:
    """Create the members and process everything."""
    both.kubernetes.add(*members)
    both.run()
    return both
