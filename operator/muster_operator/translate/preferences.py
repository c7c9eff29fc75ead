"""What a pod prefers of nodes as the tag ``muster/preferences`` (see muster_si.keys); it decides nothing but scores."""

from __future__ import annotations

from typing import Any, Final

from muster_operator.translate.canonical import canonical, remembered
from muster_operator.translate.constraints import node_term
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
    """One for each container that runs at any time; the order says nothing."""
    names = [
        _normal(name)
        for field in ("containers", "initContainers")
        if field in spec
        for container in objects(spec[field])
        if (name := text(container.get("image")))
    ]
    return tuple(sorted(names))


def _volume_images(spec: Raw) -> tuple[str, ...]:
    """Those of volumes of kind ``image`` (KEP-4639)."""
    names = [
        text(mapping(volume["image"]).get("reference")) for volume in objects(spec.get("volumes")) if "image" in volume
    ]
    return tuple(sorted(_normal(name) for name in names if name))


def _tag(parts: Raw) -> str:
    facts = dict(parts)
    if "nodeAffinity" in parts:
        facts["nodeAffinity"] = [
            {"weight": weight, "preference": node_term(mapping(entry.get("preference")))}
            for entry in parts["nodeAffinity"]
            if 0 < (weight := integer(entry.get("weight"))) <= _MAX_WEIGHT
        ]
    return canonical("preferences", {field: value for field, value in facts.items() if value})


_remembered_tag: Final = remembered(_tag)


def preferences_tag(spec: Raw) -> str:
    """The tag's value, empty when the pod prefers nothing.

    Raises:
        BadInputError: the facts cannot be written as JSON.
    """
    parts: Raw = {}
    if "affinity" in spec and (preferred := _preferred(spec)):
        parts["nodeAffinity"] = preferred
    if images := _images(spec):
        parts["images"] = images
    if "volumes" in spec and (images := _volume_images(spec)):
        parts["volumeImages"] = images
    return _remembered_tag(parts) if parts else ""
