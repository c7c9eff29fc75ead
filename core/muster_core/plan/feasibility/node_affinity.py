"""NodeAffinity: nodeSelector and the required terms of node affinity.

The node selector and one term must hold; a term holds if all that is in it
holds; an empty term, or one with a requirement that Kubernetes would refuse,
holds nowhere. A node without the label satisfies NotIn and DoesNotExist.
Where every term names nodes, as for the pods of a DaemonSet, the others are
not looked at and are told apart by another reason.
Source: Kubernetes, "Assigning Pods to Nodes".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import gt, lt
from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints, Requirement, Term
from muster_core.model.ids import NodeId
from muster_core.plan.feasibility.node_name import named
from muster_core.world.columns import BoolColumn
from muster_core.world.labels import LabelColumn
from muster_core.world.nodes import NodeTable

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64 = range(-(2**63), 2**63)
_NAME_FIELD = "metadata.name"

CONFLICT: Final = "pod affinity terms conflict"


def passes(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes that nodeSelector and required node affinity allow."""
    size = nodes.rows.size
    passed = np.ones(size, dtype=np.bool_)
    for key, value in constraints.node_selector:
        passed &= _column(key, nodes).has_any((value,), size)
    if constraints.affinity is not None:
        one_holds = np.zeros(size, dtype=np.bool_)
        for term in constraints.affinity:
            one_holds |= term_holds(term, nodes)
        passed &= one_holds
    return passed


def is_candidate(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes that other filters look at: those that the terms name, or all."""
    names = _named_nodes(constraints)
    if names is None:
        return np.ones(nodes.rows.size, dtype=np.bool_)
    found = np.zeros(nodes.rows.size, dtype=np.bool_)
    found[[nodes.rows.row(node) for name in names if (node := NodeId(name)) in nodes]] = True
    return found


def conflict(constraints: Constraints) -> str:
    """Why there is no node for the pod, whatever nodes there are; empty = there may be one."""
    return CONFLICT if _named_nodes(constraints) == set() else ""


def _named_nodes(constraints: Constraints) -> set[str] | None:
    """The nodes that the terms name together; None = some term is for nodes of any name."""
    names: set[str] = set()
    for term in constraints.affinity or ():
        lists = [set(one.values) for one in term.fields if one.key == _NAME_FIELD and one.operator == "In"]
        if not lists:
            return None
        names |= set.intersection(*lists)
    return names if constraints.affinity else None


def _column(key: str, nodes: NodeTable) -> LabelColumn:
    return nodes.labels.column(key) or LabelColumn()


def term_holds(term: Term, nodes: NodeTable) -> BoolColumn:
    """Nodes of which all that is in the term holds."""
    if not term.expressions and not term.fields:
        return np.zeros(nodes.rows.size, dtype=np.bool_)
    holds = np.ones(nodes.rows.size, dtype=np.bool_)
    for requirement in term.expressions:
        holds &= _label_holds(requirement, nodes)
    for requirement in term.fields:
        holds &= _field_holds(requirement, nodes)
    return holds


def _label_holds(requirement: Requirement, nodes: NodeTable) -> BoolColumn:
    size, column, values = nodes.rows.size, _column(requirement.key, nodes), requirement.values
    match requirement.operator:
        case "In" if values:
            return column.has_any(values, size)
        case "NotIn" if values:
            return ~column.has_any(values, size)
        case "Exists" if not values:
            return column.exists(size)
        case "DoesNotExist" if not values:
            return ~column.exists(size)
        case "Gt" if len(values) == 1:
            return column.has_any(_beyond(column, values[0], gt), size)
        case "Lt" if len(values) == 1:
            return column.has_any(_beyond(column, values[0], lt), size)
        case _:
            return np.zeros(size, dtype=np.bool_)


def _beyond(column: LabelColumn, bound: str, compare: Callable[[int, int], bool]) -> Iterator[str]:
    """The values in the column that are integers on the asked side of the bound."""
    limit = _integer(bound)
    for value in column.values():
        number = _integer(value)
        if limit is not None and number is not None and compare(number, limit):
            yield value


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def _field_holds(requirement: Requirement, nodes: NodeTable) -> BoolColumn:
    """Of fields Kubernetes knows metadata.name alone, with one value."""
    if requirement.key == _NAME_FIELD and len(requirement.values) == 1:
        node = named(NodeId(requirement.values[0]), nodes)
        if requirement.operator == "In":
            return node
        if requirement.operator == "NotIn":
            return ~node
    return np.zeros(nodes.rows.size, dtype=np.bool_)
