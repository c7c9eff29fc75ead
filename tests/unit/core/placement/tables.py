"""Builders of node tables for the tests of plans."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster_core.model.constraints import ANY_NAMESPACE, Taint
from muster_core.model.resources import Resources
from muster_core.model.specs import NodeSpec
from muster_core.state.columns import BoolColumn
from muster_core.state.nodes import NodeTable
from tests.unit.builders import a_node


def a_table(*specs: NodeSpec) -> NodeTable:
    """Return a table of these nodes, all schedulable."""
    table = NodeTable()
    for spec in specs:
        table.add(spec, draining=False)
    return table


def labelled(name: str, **labels: str) -> NodeSpec:
    """A node with these labels."""
    return replace(a_node(name), labels=labels)


def tainted(name: str, *taints: tuple[str, str, str]) -> NodeSpec:
    """A node with taints (key, value, effect)."""
    return replace(a_node(name), taints=tuple(Taint(*taint) for taint in taints))


def having(name: str, amounts: Mapping[str, int]) -> NodeSpec:
    """A node with this capacity."""
    return replace(a_node(name), capacity=Resources(amounts))


def named(rows: BoolColumn, table: NodeTable) -> str:
    """Return the IDs of the rows in order, separated by blanks."""
    return " ".join(sorted(table.rows.at(row) for row in rows.nonzero()[0].tolist()))


def keep_tags(table: NodeTable, keys: Iterable[str]) -> None:
    """Keep these tags of all pods, as if a selector for any namespace read them."""
    labels = table.pods_on_nodes.tags.labels
    labels.is_on = True
    labels.begin([(ANY_NAMESPACE, key) for key in keys])
