"""Compares two results for a pod, and shows their difference."""

import re
from typing import Final

import yaml

from tests.conformance.kube_scheduler import Refusal, Result
from tests.conformance.objects import ClusterState, Raw

#: The name of an object in a reason. Reasons are counted without names.
_NAMED: Final = re.compile(r'"[^"]+"|(?<=PVC )\S+|(?<=for pod )\S+|\S+(?= CSI driver)')


def differs(kube: Result, ours: Result) -> bool:
    """Whether a node is feasible for only one of them, or the reasons differ.

    If kube-scheduler failed without a result, no node may be feasible, and reasons are not compared.
    """
    if kube.error:
        return None in ours.nodes.values()
    if kube.message != ours.message or kube.nodes.keys() != ours.nodes.keys():
        return True
    return any(_differ(refusal, ours.nodes[name]) for name, refusal in kube.nodes.items())


def _differ(kube: Refusal | None, ours: Refusal | None) -> bool:
    if kube is None or ours is None:
        return kube is not ours
    # For a node without a free port Muster also reports whether the pod would not fit on the empty node.
    is_more_precise = kube.plugin == "NodePorts" and not ours.resolvable
    return kube.reasons != ours.reasons or (kube.resolvable != ours.resolvable and not is_more_precise)


def reasons(result: Result) -> set[str]:
    """The reasons of all rejected nodes, without object names."""
    return {_NAMED.sub("…", reason) for refusal in result.nodes.values() if refusal for reason in refusal.reasons}


def shown(state: ClusterState, pod: Raw, kube: Result, ours: Result) -> str:
    """Return everything needed to reproduce the difference, as YAML."""
    found = {
        "cluster": state.cluster(),
        "pod": pod,
        **_past(state),
        "kube-scheduler": _shown(kube),
        "ours": _shown(ours),
    }
    text: str = yaml.dump(found, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=160)
    return text


def _past(state: ClusterState) -> Raw:
    """The initial objects and the events, if there were events."""
    if not state.events:
        return {}
    return {
        "before": [{plural: raw} for plural, raw in state.before],
        "events": [{f"{event.kind} {event.plural}": event.raw} for event in state.events],
    }


class _Plain(yaml.SafeDumper):
    """Without anchors: repeated values are written repeatedly."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _shown(result: Result) -> Raw:
    nodes = {name: _text(refusal) for name, refusal in sorted(result.nodes.items())}
    return {"message": result.message, "nodes": nodes, **({"error": result.error} if result.error else {})}


def _text(refusal: Refusal | None) -> str:
    if refusal is None:
        return "free"
    kind = "resolvable" if refusal.resolvable else "unresolvable"
    details = ", ".join(detail for detail in (kind, refusal.plugin) if detail)
    return ", ".join(refusal.reasons) + (f" ({details})" if details else "")
