"""From the form of the file to the model's values: partitions, each with its tree, rules and order of nodes.

Source: contract 2.1, 2.2.
"""

from __future__ import annotations

from typing import Final

from muster_core.edge.config import limits
from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.queues import root
from muster_core.edge.config.rules import rules
from muster_core.edge.config.schema import FileForm, NodeSortForm, PartitionForm
from muster_core.model.config import NodeOrder, NodeSort, PartitionConfig
from muster_core.model.errors import ConfigurationError
from muster_core.model.ids import ROOT
from muster_si.keys import DEFAULT_PARTITION

_RESOLVERS: Final = ("", "ldap", "os", "test")
_ORDERS: Final = {"": NodeOrder.FAIR} | {order.value: order for order in NodeOrder}


def partitions(form: FileForm, notes: Notes) -> tuple[PartitionConfig, ...]:
    """All partitions of the file. Raises ConfigurationError."""
    if not form.partitions:
        raise ConfigurationError("partitions", "an empty list", "has no partition", "add one with the name default")
    found: dict[str, PartitionConfig] = {}
    for index, entry in enumerate(form.partitions):
        path = below("partitions", index)
        partition = _partition(entry, path, notes)
        if partition.name in found:
            raise ConfigurationError(
                below(path, "name"), entry.name, "is the name of another partition", "rename one; case does not count"
            )
        found[partition.name] = partition
    return tuple(found.values())


def _partition(form: PartitionForm, path: str, notes: Notes) -> PartitionConfig:
    tree = root(form.queues, below(path, "queues"), notes)
    _check_limits(form, path, notes)
    if form.usergroupresolver.type not in _RESOLVERS:
        raise ConfigurationError(
            below(path, "usergroupresolver.type"),
            form.usergroupresolver.type,
            "is not a resolver",
            "write ldap or os, or leave it out",
        )
    if form.usergroupresolver.type:
        notes.idle(below(path, "usergroupresolver"))
    if form.preemption.model_fields_set:
        notes.idle(below(path, "preemption"))
    return PartitionConfig(
        name=form.name.lower() or DEFAULT_PARTITION,
        root=tree,
        rules=rules(form.placementrules, below(path, "placementrules"), tree, notes),
        node_sort=_node_sort(form.nodesortpolicy, below(path, "nodesortpolicy")),
    )


def _check_limits(form: PartitionForm, path: str, notes: Notes) -> None:
    """The partition's limits are those of root: said in one place, or twice the same."""
    spot = below(path, "limits")
    limits.check(form.limits, spot, notes)
    is_root_given = len(form.queues) == 1 and form.queues[0].name.lower() == ROOT
    if is_root_given and form.limits and form.queues[0].limits and form.limits != form.queues[0].limits:
        raise ConfigurationError(spot, "the limits", "differ from those of root", "keep one of the two lists")


def _node_sort(form: NodeSortForm, path: str) -> NodeSort:
    order = _ORDERS.get(form.type.lower())
    if order is None:
        raise ConfigurationError(below(path, "type"), form.type, "is not an order of nodes", "write fair or binpacking")
    if not form.resourceweights:
        return NodeSort(order)
    return NodeSort(order, tuple(sorted(form.resourceweights.items())))
