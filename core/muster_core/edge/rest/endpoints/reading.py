"""Views of the world: what is asked for, found and shown (contract 4, rows 1 and 5 to 23)."""

from __future__ import annotations

from typing import Final

from muster_core.edge.rest import failures
from muster_core.edge.rest.answers import Pieces, array, one
from muster_core.edge.rest.asked import Asked
from muster_core.edge.rest.failures import bad_request, not_found
from muster_core.edge.rest.views import applications, clusters, nodes, queues, usage
from muster_core.world.applications import Application

_STATES: Final = ("active", "rejected", "completed")


def all_clusters(asked: Asked) -> Pieces:
    """Row 1."""
    sessions = list(asked.desk.core.outlet.sessions.values())
    partitions = list(asked.world.partitions.values())
    return array(clusters.cluster(item, sessions, asked.desk.started_ns) for item in partitions)


def all_partitions(asked: Asked) -> Pieces:
    """Row 5."""
    return array(clusters.partition(item) for item in list(asked.world.partitions.values()))


def placement_rules(asked: Asked) -> Pieces:
    """Row 6."""
    return array(clusters.rules(asked.partition()))


def queue_tree(asked: Asked) -> Pieces:
    """Row 7."""
    partition = asked.partition()
    return queues.tree(partition.queues.root, partition)


def one_queue(asked: Asked) -> Pieces:
    """Row 8: with what is below it where `subtree` is in the query, whatever its value."""
    queue, partition = asked.queue(), asked.partition()
    return queues.tree(queue, partition) if "subtree" in asked.query else one(queues.queue(queue, partition))


def applications_of_partition(asked: Asked) -> Pieces:
    """Row 9."""
    partition, state = asked.partition(), asked.path["state"].lower()
    if state not in _STATES:
        raise bad_request(f"Only following application states are allowed: {', '.join(_STATES)}")
    found = applications.with_state(partition, state)
    if state == "active":
        found = asked.with_status(found)
    return array(applications.all_of(asked.portion(found), asked.partition(), asked.now_ns))


def applications_of_queue(asked: Asked) -> Pieces:
    """Row 10."""
    found = _in_queue(asked)
    return array(applications.all_of(asked.portion(found), asked.partition(), asked.now_ns))


def applications_of_queue_by_state(asked: Asked) -> Pieces:
    """Row 11."""
    found = _in_queue(asked)
    if asked.path["state"].lower() != "active":
        raise bad_request("Only following application states are allowed: active")
    return array(applications.all_of(asked.portion(asked.with_status(found)), asked.partition(), asked.now_ns))


def waiting_in_queue(asked: Asked) -> Pieces:
    """Ours: who waits in a leaf, in the order in which they are tried."""
    return array(asked.portion(applications.line(asked.queue(), asked.partition())))


def one_application(asked: Asked) -> Pieces:
    """Row 12."""
    return one(applications.application(asked.application(), asked.partition(), asked.now_ns))


def application_of_queue(asked: Asked) -> Pieces:
    """Row 13."""
    queue = asked.queue()
    return one(applications.application(asked.application(queue), asked.partition(), asked.now_ns))


def all_nodes(asked: Asked) -> Pieces:
    """Row 14."""
    return array(nodes.all_nodes(asked.partition(), asked.portion))


def one_node(asked: Asked) -> Pieces:
    """Row 15."""
    return one(nodes.node(asked.partition(), asked.node()))


def node_utilizations(asked: Asked) -> Pieces:
    """Row 16."""
    return array(found for item in list(asked.world.partitions.values()) for found in nodes.by_use(item))


def all_users(asked: Asked) -> Pieces:
    """Row 17."""
    partition = asked.partition()
    found = usage.by_user(partition).items()
    return array(usage.user(partition, name, apps) for name, apps in asked.portion(found))


def one_user(asked: Asked) -> Pieces:
    """Row 18."""
    name, partition = asked.user(), asked.partition()
    apps = usage.by_user(partition).get(name)
    if apps is None:
        raise not_found(failures.NO_USER)
    return one(usage.user(partition, name, apps))


def all_groups(asked: Asked) -> Pieces:
    """Row 19."""
    found = usage.by_group(asked.partition()).items()
    return array(usage.group(name, apps) for name, apps in asked.portion(found))


def one_group(asked: Asked) -> Pieces:
    """Row 20."""
    name = asked.group()
    apps = usage.by_group(asked.partition()).get(name)
    if apps is None:
        raise not_found(failures.NO_GROUP)
    return one(usage.group(name, apps))


def application_history(asked: Asked) -> Pieces:
    """Row 21."""
    return array(asked.desk.history.applications())


def container_history(asked: Asked) -> Pieces:
    """Row 22."""
    return array(asked.desk.history.containers())


def health(asked: Asked) -> Pieces:
    """Row 23."""
    if asked.desk.health is None:
        raise not_found("Health check is not available")
    return one(asked.desk.health)


def autoscaling(asked: Asked) -> Pieces:
    """Ours: what waits for nodes that are not there."""
    return array(nodes.outstanding(asked.partition()))


def _in_queue(asked: Asked) -> list[Application]:
    queue, partition = asked.queue(), asked.partition()
    return [partition.applications[name] for name in queue.applications]
