"""Volumes and claims are changed only if unchanged since they were read: writes, conflicts and reversals."""

from functools import partial
from typing import Any

from muster_operator.kube.write_queue import WritePriority, key_of, write_priority_of
from muster_operator.model.commands import (
    ClaimCommand,
    ClaimVolume,
    CommandFailed,
    CommandSucceeded,
    Result,
    SelectNode,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.storage import ClaimRef
from tests.unit.operator.kube.apiserver import ApiServer, CommandRecorder, a_kube, reply, serving, status

POD = PodRef("dev", "p", PodUid("uid-p"))
DATA = ClaimRef("dev", "data", "uid-data")
CLAIM = ClaimVolume(POD, DATA, "disk")
FREE = ClaimVolume(POD, DATA, "disk", undo=True)
SELECT = SelectNode(POD, DATA, NodeName("n1"))
UNSELECT = SelectNode(POD, DATA, NodeName("n1"), undo=True)
VOLUME_PATH = "/api/v1/persistentvolumes/disk"
CLAIM_PATH = "/api/v1/namespaces/dev/persistentvolumeclaims/data"
OURS = {"namespace": "dev", "name": "data", "uid": "uid-data"}
BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"


def a_volume(claim: dict[str, str] | None = None, *, phase: str = "Available", **annotations: str) -> dict[str, Any]:
    spec = {"claimRef": claim} if claim else {}
    return {
        "metadata": {"uid": "uid-disk", "resourceVersion": "7", "annotations": annotations},
        "spec": spec,
        "status": {"phase": phase},
    }


def a_claim(selected: str = "", *, uid: str = "uid-data", volume: str = "") -> dict[str, Any]:
    annotations = {SELECTED: selected} if selected else {}
    metadata = {"uid": uid, "resourceVersion": "7", "annotations": annotations}
    return {"metadata": metadata, "spec": {"volumeName": volume}}


async def run(command: ClaimCommand, *found: dict[str, Any], refused: int = 0) -> tuple[Result, list[dict[str, Any]]]:
    """How it ends on objects that look so, one after the other, where the first patches meet 409; what was patched."""
    server, recorder = ApiServer(), CommandRecorder()
    path = VOLUME_PATH if isinstance(command, ClaimVolume) else CLAIM_PATH
    for raw in found:
        server.plan(f"GET {path}", partial(reply, 200, raw))
    for _ in range(refused):
        server.plan(f"PATCH {path}", lambda: status(409, "Conflict"))
    for _ in found:
        server.plan(f"PATCH {path}", partial(reply, 200, {}))
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(command)
    [result] = recorder.results
    return result, [request.body for request in server.requests("PATCH")]


async def test_a_free_volume_gets_the_claim_reference_that_kube_scheduler_writes() -> None:
    result, [patch] = await run(CLAIM, a_volume())
    assert result == CommandSucceeded(CLAIM)
    assert patch == {
        "metadata": {"uid": "uid-disk", "resourceVersion": "7", "annotations": BY_CONTROLLER},
        "spec": {"claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **OURS}},
    }


async def test_a_volume_pre_bound_by_a_user_gets_only_the_claim_uid() -> None:
    result, [patch] = await run(CLAIM, a_volume({"namespace": "dev", "name": "data"}))
    assert result == CommandSucceeded(CLAIM)
    assert patch["spec"]["claimRef"]["uid"] == "uid-data"
    assert "annotations" not in patch["metadata"]


async def test_a_volume_that_already_references_the_claim_is_not_written() -> None:
    assert await run(CLAIM, a_volume(OURS)) == (CommandSucceeded(CLAIM, version=7), [])


async def test_a_volume_of_another_claim_is_rejected_and_not_written() -> None:
    result, patches = await run(CLAIM, a_volume({**OURS, "name": "other"}))
    message = 'persistentvolume "disk" was taken by claim dev/other'
    assert result == CommandFailed(CLAIM, 409, "Contested", message)
    assert patches == []


async def test_a_conflicting_write_is_evaluated_again() -> None:
    """Its controller wrote at the same moment: harmless the first time, another claim's the second."""
    result, patches = await run(CLAIM, a_volume(), a_volume(), refused=1)
    assert (result, len(patches)) == (CommandSucceeded(CLAIM), 2)
    result, patches = await run(CLAIM, a_volume(), a_volume({**OURS, "uid": "uid-new"}), refused=1)
    assert isinstance(result, CommandFailed)
    assert len(patches) == 1


async def test_a_volume_reserved_by_us_is_released_unless_it_is_bound() -> None:
    annotations = {"annotations": {"pv.kubernetes.io/bound-by-controller": None}}
    _, [patch] = await run(FREE, a_volume(OURS, **BY_CONTROLLER))
    assert patch["spec"] == {"claimRef": None}
    assert patch["metadata"]["annotations"] == annotations["annotations"]
    for kept in (a_volume(OURS, phase="Bound", **BY_CONTROLLER), a_volume({**OURS, "uid": "uid-new"}), a_volume()):
        assert await run(FREE, kept) == (CommandSucceeded(FREE, version=7), [])


async def test_a_volume_pre_bound_by_a_user_loses_only_the_claim_uid() -> None:
    _, [patch] = await run(FREE, a_volume(OURS))
    assert patch["spec"]["claimRef"]["uid"] is None


async def test_the_selected_node_is_written_to_a_claim_once() -> None:
    result, [patch] = await run(SELECT, a_claim())
    assert result == CommandSucceeded(SELECT)
    assert patch["metadata"] == {"uid": "uid-data", "resourceVersion": "7", "annotations": {SELECTED: "n1"}}
    assert await run(SELECT, a_claim("n1")) == (CommandSucceeded(SELECT, version=7), [])


async def test_a_claim_with_another_node_or_uid_is_rejected() -> None:
    for found in (a_claim("n2"), a_claim(uid="uid-new")):
        result, patches = await run(SELECT, found)
        assert isinstance(result, CommandFailed)
        assert patches == []


async def test_the_selected_node_is_removed_from_a_claim_without_a_volume() -> None:
    _, [patch] = await run(UNSELECT, a_claim("n1"))
    assert patch["metadata"]["annotations"] == {SELECTED: None}
    for kept in (a_claim("n2"), a_claim("n1", volume="v"), a_claim("n1", uid="uid-new"), a_claim()):
        assert await run(UNSELECT, kept) == (CommandSucceeded(UNSELECT, version=7), [])


async def test_a_command_for_a_deleted_volume_fails_with_404() -> None:
    server, recorder = ApiServer(), CommandRecorder()
    server.plan(f"GET {VOLUME_PATH}", lambda: status(404, "NotFound"))
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(CLAIM)
    [result] = recorder.results
    assert isinstance(result, CommandFailed)
    assert result.status == 404


def test_volume_reservations_have_bind_priority_and_their_releases_patch_priority() -> None:
    assert {write_priority_of(CLAIM), write_priority_of(SELECT)} == {WritePriority.BIND}
    assert {write_priority_of(FREE), write_priority_of(UNSELECT)} == {WritePriority.PATCH}
    assert key_of(CLAIM) == key_of(FREE) != key_of(SELECT) == key_of(UNSELECT)
