"""The custom resources of the framework examples define the same gangs as the pods that replace them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_operator.model.pods import GangDefinition, GangSource
from muster_operator.translate.gangs.dialects import read_gang
from tests.unit.repo.tree import ROOT

FOLDERS = sorted(path.parent for path in ROOT.glob("examples/*/pods"))
BUILT_IN = {"v1", "batch", "rbac.authorization.k8s.io"}
GROUPS, GROUP, PARAMETERS = (
    f"yunikorn.apache.org/{name}" for name in ("task-groups", "task-group-name", "schedulingPolicyParameters")
)


def annotated(value: Any) -> Iterator[dict[str, str]]:
    """The annotations of each object in a manifest that define a gang."""
    if isinstance(value, dict):
        if GROUPS in (found := value.get("annotations") or {}):
            yield found
        value = list(value.values())
    for child in value if isinstance(value, list) else ():
        yield from annotated(child)


def gangs(path: Path) -> set[tuple[tuple[str, int], ...]]:
    """Names and members of the task groups in each definition of a file."""
    found = set()
    for annotations in annotated(list(yaml.safe_load_all(path.read_text()))):
        gang = read_gang(GangSource(annotations[GROUPS], annotations.get(PARAMETERS, "")))
        assert isinstance(gang, GangDefinition), gang
        assert not gang.warnings
        groups = tuple((group.name, group.min_member) for group in gang.groups)
        assert annotations.get(GROUP, groups[0][0]) in dict(groups)  # a RayCluster is in no group
        found.add(groups)
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_custom_resource_defines_the_gang_of_its_pods(folder: Path) -> None:
    of_pods = set().union(*(gangs(path) for path in folder.glob("pods/*.yaml")))
    assert of_pods
    for resource in folder.glob("*.yaml"):
        groups = {one["apiVersion"].split("/")[0] for one in yaml.safe_load_all(resource.read_text())} - BUILT_IN
        if not groups:
            continue  # a Job without an operator
        # KubeRay and Spark operator can write the annotations themselves.
        if gangs(resource) or not groups <= {"ray.io", "sparkoperator.k8s.io"}:
            assert gangs(resource) == of_pods
