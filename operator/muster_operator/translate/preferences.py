"""What a pod prefers of nodes as the tag ``muster/preferences`` (see muster_si.keys); it decides nothing but scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from muster_operator.translate.canonical import canonical, remembered
from muster_operator.translate.constraints import node_term
from muster_operator.translate.memo import Memo
from muster_operator.translate.raw import Raw, integer, mapping, objects, text

_MAX_WEIGHT: Final = 100


def _preferred(spec: Raw) -> list[Any]:
    node_affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return objects(node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))


def _normal(image: str) -> str:
    """The name as nodes report it: what has neither tag nor digest after its last part is ``:latest``.

    Source: kube-scheduler, ImageLocality.
    """
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _images(spec: Raw) -> tuple[str, ...]:
    """As written, one for each container that runs at any time."""
    return tuple(
        [
            name
            for field in ("containers", "initContainers")
            if field in spec
            for container in objects(spec[field])
            if isinstance(name := container.get("image"), str) and name
        ]
    )


_of_images: Final[Memo[str]] = Memo()


def _only(images: tuple[str, ...]) -> str:
    """The tag of the many pods that say nothing else; the order of images says nothing."""
    if not images:
        return ""
    written = "\0".join(images).encode("utf-8", "replace")
    return _of_images.get(written, lambda _: _tag({"images": _normals(images)}))


def _normals(names: Iterable[str]) -> list[str]:
    return sorted(_normal(text(name)) for name in names)


def _volume_images(spec: Raw) -> list[str]:
    """Those of volumes of kind ``image`` (KEP-4639)."""
    names = [
        text(mapping(volume["image"]).get("reference")) for volume in objects(spec.get("volumes")) if "image" in volume
    ]
    return _normals(name for name in names if name)


def _tag(parts: Raw) -> str:
    facts = dict(parts)
    if "nodeAffinity" in parts:
        facts["nodeAffinity"] = [
            {"weight": weight, "preference": node_term(mapping(entry.get("preference")))}
            for entry in parts["nodeAffinity"]
            if 0 < (weight := integer(entry.get("weight"))) <= _MAX_WEIGHT
        ]
    return canonical("preferences", {field: value for field, value in facts.items() if value})


_remembered_tag: Final = remembered("node preferences", _tag)


def preferences_tag(spec: Raw) -> str:
    """The tag's value, empty when the pod prefers nothing.

    Raises:
        BadInputError: the facts cannot be written as JSON.
    """
    images = _images(spec)
    parts: Raw = {}
    if "affinity" in spec and (preferred := _preferred(spec)):
        parts["nodeAffinity"] = preferred
    if "volumes" in spec and (of_volumes := _volume_images(spec)):
        parts["volumeImages"] = of_volumes
    if not parts:
        return _only(images)
    return _remembered_tag({**parts, "images": _normals(images)})
