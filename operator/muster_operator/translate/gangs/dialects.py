"""Selects the translator of a gang by the kind of its source. A new dialect is a new module and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from muster_operator.model.pods import GangDefinition, GangProblem, GangSource, Placement, PodGroupSource
from muster_operator.translate.gangs.annotations import read as read_annotations
from muster_operator.translate.gangs.pod_groups import read as read_group_of_pods

_Translator = Callable[[GangSource, Placement, Mapping[str, int]], GangDefinition | GangProblem | None]

_DIALECTS: Final[Mapping[type[GangSource], _Translator]] = {
    GangSource: read_annotations,
    PodGroupSource: read_group_of_pods,
}


def read_gang(
    source: GangSource, default: Placement = Placement.RESERVE, least: Mapping[str, int] | None = None
) -> GangDefinition | GangProblem | None:
    """Reads the gang that a pod defines. Returns a problem if the definition is invalid, None if there is none.

    ``default``: the placement of a gang that does not specify one. ``least``: the least that a member
    requests of each resource, for a dialect that does not describe the members.
    """
    return _DIALECTS[type(source)](source, default, least or {})
