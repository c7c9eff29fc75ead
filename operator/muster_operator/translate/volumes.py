"""What a pod says of volumes, as the tag ``muster/volumes`` (see muster_si.keys). Placeholders mount nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from muster_operator.model.pods import PodRef
from muster_operator.translate.canonical import canonical
from muster_operator.translate.in_tree import SOURCES, driver_and_handle
from muster_operator.translate.raw import Raw, items, mapping, objects, text

#: Kinds that matter, as a volume's fields name them; nearly all volumes are of others.
_MATTERING: Final = frozenset({"persistentVolumeClaim", "ephemeral", "iscsi", "rbd", *SOURCES})


def volumes_tag(spec: Raw, ref: PodRef) -> str:
    """The tag's value, empty when no volume of the pod matters to where it may go.

    Raises:
        BadInputError: the facts cannot be written as JSON.
    """
    facts: dict[str, Any] = {}
    claims: list[str] = []
    ephemeral: dict[str, str] = {}
    disks: list[Raw] = []
    attached: dict[str, list[str]] = defaultdict(list)
    for volume in [each for each in objects(spec.get("volumes")) if not _MATTERING.isdisjoint(each)]:
        if (claim := _claim(volume, ref)) is not None:
            claims.append(claim)
            if isinstance(volume.get("ephemeral"), dict):
                ephemeral[claim] = ref.uid
        if (disk := _disk(volume)) is not None:
            disks.append(disk)
        if (known := driver_and_handle(volume, {})) is not None:
            driver, handle = known
            attached[driver].append(handle)
    if claims:
        facts["claims"] = claims
    if ephemeral:
        facts["ephemeral"] = ephemeral
    if disks:
        facts["disks"] = disks
    if attached:
        facts["attached"] = attached
    return canonical("volumes", facts) if facts else ""


def _claim(volume: Raw, ref: PodRef) -> str | None:
    """The claim that the volume is of; that of a generic ephemeral one is made by a controller under this name."""
    if isinstance(volume.get("persistentVolumeClaim"), dict):
        return f"{ref.namespace}/{text(mapping(volume['persistentVolumeClaim']).get('claimName'))}"
    if isinstance(volume.get("ephemeral"), dict):
        return f"{ref.namespace}/{ref.name}-{text(volume.get('name'))}"
    return None


def _disk(volume: Raw) -> Raw | None:
    """A disk that pods of one node may not share, or only to read."""
    for field, kind in (("gcePersistentDisk", "gce"), ("awsElasticBlockStore", "aws"), ("iscsi", "iscsi")):
        if isinstance(volume.get(field), dict):
            source = mapping(volume[field])
            name = text(source.get({"gce": "pdName", "aws": "volumeID", "iscsi": "iqn"}[kind]))
            return {"kind": kind, "id": name, "readOnly": source.get("readOnly") is True}
    if not isinstance(volume.get("rbd"), dict):
        return None
    source = mapping(volume["rbd"])
    return {
        "kind": "rbd",
        "id": f"{text(source.get('pool'))}/{text(source.get('image'))}",
        "monitors": [text(monitor) for monitor in items(source.get("monitors"))],
        "readOnly": source.get("readOnly") is True,
    }
