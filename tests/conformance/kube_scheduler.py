"""kube-scheduler's answers: its plugins run in a child process that answers line by line."""

import json
import subprocess
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from devcluster import binaries, programs
from tests.conformance.objects import ClusterState, Raw


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node is infeasible: all reasons of the first rejecting filter. `resolvable`: preemption might help."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool


@dataclass(frozen=True, slots=True)
class Result:
    """The result for a pod. `nodes`: None for a feasible node; `message`: the text if no node is feasible.

    `error`: kube-scheduler failed without a result and would retry, so no node is feasible.
    `scores`: the weighted score of each plugin for each feasible node.
    """

    nodes: dict[str, Refusal | None]
    message: str
    error: str = ""
    scores: dict[str, dict[str, int]] = field(default_factory=dict)


class KubeScheduler:
    """The process with the plugins. Build it first: `python -m devcluster build`."""

    def __init__(self) -> None:
        path = binaries.ensure([programs.CONFORMANCE])[programs.CONFORMANCE.name]
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def results(self, state: ClusterState) -> list[Result]:
        """Return a result for each pending pod. Raises ValueError if Kubernetes does not have a field of an object."""
        answer = self._ask({"cluster": state.cluster(), "pods": state.pending})
        return [_result(raw) for raw in answer["results"]]

    def allocations(self, question: Raw) -> list[Raw]:
        """Return what the allocator of devices finds for each node. Raises ValueError like `results`."""
        found: list[Raw] = self._ask({"cluster": {}, "pods": [], "devices": question})["allocations"]
        return found

    def _ask(self, question: Raw) -> Raw:
        to, of = self._process.stdin, self._process.stdout
        if to is None or of is None:
            raise ValueError("the conformance process has no pipes")
        to.write(json.dumps(question).encode() + b"\n")
        to.flush()
        answer: Raw = json.loads(of.readline())
        if answer.get("error"):
            raise ValueError(f"the conformance process reports: {answer['error']}")
        return answer


def _result(raw: Raw) -> Result:
    nodes = {name: _refusal(refusal) for name, refusal in (raw.get("nodes") or {}).items()}
    return Result(nodes, raw.get("message", ""), raw.get("error", ""), raw.get("scores") or {})


def _refusal(raw: dict[str, Any] | None) -> Refusal | None:
    if raw is None:
        return None
    return Refusal(raw.get("plugin", ""), tuple(sorted(raw["reasons"] or ())), raw["resolvable"])
