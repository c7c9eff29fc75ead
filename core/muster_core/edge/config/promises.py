"""What a queue may use and is guaranteed, and how that has to agree with the queues above and below it.

Source: contract 2.3, resource checks.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.quantities import amounts, as_written
from muster_core.edge.config.schema import QueueForm
from muster_core.model.config import QueueConfig
from muster_core.model.errors import ConfigurationError
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_si.keys import CPU

#: Kubernetes' name for what queues.yaml calls vcore.
_MISTAKEN = "cpu"


def resources(form: QueueForm, path: str, above: Limit, notes: Notes) -> tuple[Limit, Resources]:
    """Maximum and guarantee of a queue below one that may use `above`. Raises ConfigurationError."""
    spot = below(path, "resources")
    own_max = Limit(amounts(form.resources.max, below(spot, "max")))
    guaranteed = Resources(amounts(form.resources.guaranteed, below(spot, "guaranteed")))
    if own_max.get(_MISTAKEN) is not None:
        notes.odd(below(below(spot, "max"), _MISTAKEN), f"has no effect, {_MISTAKEN} is called {CPU} here")
    for name, bound in own_max.items():
        over = above.get(name)
        if over is not None and bound > over:
            raise ConfigurationError(
                below(below(spot, "max"), name),
                (form.resources.max or {})[name],
                f"is more than the {as_written(name, over)} of a queue above it",
                "write at most that",
            )
    for name in above.narrowed(own_max).excess(guaranteed):
        raise ConfigurationError(
            below(below(spot, "guaranteed"), name),
            (form.resources.guaranteed or {})[name],
            "is more than the max of the queue or of one above it",
            "guarantee less or raise the max",
        )
    return own_max, guaranteed


def applications(form: QueueForm, path: str, above: int, notes: Notes) -> int:
    """How many applications may run; 0 = unlimited, as YuniKorn reads it too although its documentation
    forbids to write it. Raises ConfigurationError.
    """
    spot, most = below(path, "maxapplications"), form.maxapplications
    if above and not most:
        raise ConfigurationError(
            spot, "nothing" if most is None else "0", "is required below a queue that has it", f"write 1 to {above}"
        )
    if above and most and most > above:
        raise ConfigurationError(spot, str(most), f"is more than the {above} of the queue above", "write at most that")
    if most == 0:
        notes.odd(spot, "0 means unlimited")
    return most or 0


def check_children(children: Sequence[QueueConfig], guaranteed: Resources, most: Limit, path: str) -> None:
    """What all children guarantee has to be there. Raises ConfigurationError."""
    total = NOTHING
    for child in children:
        total += _promised(child)
    bounds = (("guaranteed", Limit(dict(guaranteed.items()))), ("max", most))
    for what, bound in bounds:
        for name in bound.excess(total):
            raise ConfigurationError(
                path,
                f"{as_written(name, total[name])} of {name}",
                f"is guaranteed in all, more than the {what} above it ({as_written(name, bound.get(name) or 0)})",
                f"guarantee less in the children or raise the {what}",
            )


def _promised(queue: QueueConfig) -> Resources:
    """What the queue guarantees: its own word, or its children's where theirs is more."""
    total = NOTHING
    for child in queue.children:
        total += _promised(child)
    return Resources({name: max(queue.guaranteed[name], total[name]) for name in {*queue.guaranteed, *total}})
