"""From the form of the file to the model's values: partitions, each with its tree, rules and order of nodes.

Source: contract 2.1, 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.queues import root
from muster_core.edge.config.rules import rules
from muster_core.edge.config.schema import FileForm, NodeSortForm, PartitionForm
from muster_core.model.config import GroupResolver, NodeOrder, NodeSort, PartitionConfig
from muster_core.model.errors import ConfigurationError
from muster_si import keys
from muster_si.keys import DEFAULT_PARTITION

_RESOLVERS: Final = {resolver.value: resolver for resolver in GroupResolver}
_ORDERS: Final = {"": NodeOrder.FAIR} | {order.value: order for order in NodeOrder}


def partitions(form: FileForm, notes: Notes, extra: Mapping[str, str]) -> tuple[PartitionConfig, ...]:
    """All partitions of the file; `extra`: the other keys, of which some allow what is refused without them.
    What is wrong is noted.
    """
    if not form.partitions:
        notes.wrong(
            ConfigurationError("partitions", "an empty list", "has no partition", "add one with the name default")
        )
    found: dict[str, PartitionConfig] = {}
    for index, entry in enumerate(form.partitions):
        path = below("partitions", index)
        with notes.collecting():
            partition = _partition(entry, path, notes, extra)
            if partition.name in found:
                raise ConfigurationError(
                    below(path, "name"),
                    entry.name,
                    "is the name of another partition",
                    "rename one; case does not count",
                )
            found[partition.name] = partition
    return tuple(found.values())


def _partition(form: PartitionForm, path: str, notes: Notes, extra: Mapping[str, str]) -> PartitionConfig:
    flags = form.preemption
    tree = root(form.queues, form.limits, path, notes)
    # Rules are held against the tree; a queue that is missing there for an error of its own is no error of theirs.
    forms = () if notes.errors() else form.placementrules
    return PartitionConfig(
        name=form.name.lower() or DEFAULT_PARTITION,
        root=tree,
        rules=rules(forms, below(path, "placementrules"), tree, notes),
        node_sort=_node_sort(form.nodesortpolicy, below(path, "nodesortpolicy"), extra),
        preemption=flags.enabled is not False,
        quota_preemption=flags.quotapreemptionenabled is True,
        resolver=_resolver(form.usergroupresolver.type, below(path, "usergroupresolver.type"), extra),
    )


def _resolver(name: str, path: str, extra: Mapping[str, str]) -> GroupResolver:
    if name not in _RESOLVERS:
        raise ConfigurationError(path, name, "is not a resolver", "write ldap or os, or leave it out")
    resolver = _RESOLVERS[name]
    if resolver is GroupResolver.TEST and not _allows(extra, keys.EXTRA_TEST_GROUPS):
        raise ConfigurationError(
            path,
            name,
            "is for tests only: it puts every user into the group testgroup",
            "write ldap or os, or leave it out",
        )
    return resolver


def _allows(extra: Mapping[str, str], key: str) -> bool:
    return extra.get(key, "").lower() == "true"


def _node_sort(form: NodeSortForm, path: str, extra: Mapping[str, str]) -> NodeSort:
    order = _ORDERS.get(form.type.lower())
    if order is None:
        raise ConfigurationError(
            below(path, "type"), form.type, "is not an order of nodes", f"choose one of {', '.join(NodeOrder)}"
        )
    if order is NodeOrder.UTILIZATION and not _allows(extra, keys.EXTRA_UTILIZATION):
        raise ConfigurationError(
            below(path, "type"),
            form.type,
            "needs utilization reports of nodes, and this resource manager sends none",
            f"write {NodeOrder.FAIR} or {NodeOrder.BINPACKING}",
        )
    if not form.resourceweights:
        # Who writes an order gets that one; who writes none gets kube-scheduler's default (ADR 0017).
        return NodeSort(order, balanced=not form.type)
    return NodeSort(order, tuple(sorted(form.resourceweights.items())))
