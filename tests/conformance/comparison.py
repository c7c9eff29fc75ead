"""Two results on one pod side by side: whether they differ, and how that is shown to people."""

from __future__ import annotations

import re
from typing import Final

import yaml

from tests.conformance.kube_scheduler import Refusal, Result
from tests.conformance.objects import ClusterState, Raw

#: What names an object in a reason: reasons are counted without it.
_NAMED: Final = re.compile(r'"[^"]+"|(?<=PVC )\S+|(?<=for pod )\S+')


def differs(kube: Result, ours: Result) -> bool:
    """Whether a node is free for one and not for the other, or the words of a refusal are others.

    Where kube-scheduler gave up without a result the pod may go nowhere; there are no words to compare.
    """
    if kube.error:
        return None in ours.nodes.values()
    if kube.message != ours.message or kube.nodes.keys() != ours.nodes.keys():
        return True
    return any(_differ(refusal, ours.nodes[name]) for name, refusal in kube.nodes.items())


def _differ(kube: Refusal | None, ours: Refusal | None) -> bool:
    if kube is None or ours is None:
        return kube is not ours
    # Of a node without a free port we say, too, when it could not hold the pod if it were empty.
    knows_more = kube.plugin == "NodePorts" and not ours.resolvable
    return kube.reasons != ours.reasons or (kube.resolvable != ours.resolvable and not knows_more)


def reasons(result: Result) -> set[str]:
    """The reasons that decide about some node, without the names in them."""
    return {_NAMED.sub("…", reason) for refusal in result.nodes.values() if refusal for reason in refusal.reasons}


def shown(state: ClusterState, pod: Raw, kube: Result, ours: Result) -> str:
    """Everything somebody needs to see the difference again, as YAML."""
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
    """What was there before, where something happened."""
    if not state.events:
        return {}
    return {
        "before": [{plural: raw} for plural, raw in state.before],
        "events": [{f"{event.kind} {event.plural}": event.raw} for event in state.events],
    }


class _Plain(yaml.SafeDumper):
    """No anchors: what is there twice is written twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _shown(result: Result) -> Raw:
    nodes = {name: _line(refusal) for name, refusal in sorted(result.nodes.items())}
    return {"message": result.message, "nodes": nodes, **({"error": result.error} if result.error else {})}


def _line(refusal: Refusal | None) -> str:
    if refusal is None:
        return "free"
    kind = "resolvable" if refusal.resolvable else "unresolvable"
    told = ", ".join(word for word in (kind, refusal.plugin) if word)
    return ", ".join(refusal.reasons) + (f" ({told})" if told else "")
