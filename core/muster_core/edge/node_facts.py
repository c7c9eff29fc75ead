"""What filters and scores read of a node beside its resources and labels, out of its attributes.

Each distinct text is read once (semantics 21), but for the images: hardly two
nodes have the same. Shapes as in muster_si.keys. Called by si_decode.py;
raises Unfit with the attribute's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar, cast

from muster_core.edge import facts
from muster_core.edge.reading import NAME_LIMIT, an_object, parsed, remembered, texts
from muster_core.edge.refusals import Unfit
from muster_core.model.constraints import Taint
from muster_core.model.storage import Handle, NodeStorage
from muster_si import keys

#: A kubelet reports at most 50 images with 5 names each, unless it is told otherwise; a name is a host, a path
#: and a digest, 255 + 255 + 72 characters at most. Twice the 150,000 that this makes, rounded.
IMAGES_LIMIT: Final = 262_144
#: 1 PiB: sums of sizes stay exact in a double.
_LARGEST: Final = 2**50
#: An int32 in a CSINode.
_MOST: Final = 2**31 - 1
_NO_IMAGES: Final[Mapping[str, int]] = MappingProxyType({})

Value = TypeVar("Value")


def taints(attributes: Mapping[str, str]) -> tuple[Taint, ...]:
    """Of `muster/taints`."""
    return _read(attributes, keys.NODE_TAINTS, facts.taints) or ()


def features(attributes: Mapping[str, str]) -> frozenset[str]:
    """Of `muster/declared-features`."""
    return _read(attributes, keys.NODE_FEATURES, _features) or frozenset()


def is_cordoned(attributes: Mapping[str, str]) -> bool:
    """Of `muster/unschedulable`."""
    return attributes.get(keys.NODE_UNSCHEDULABLE) == "true"


def images(attributes: Mapping[str, str]) -> Mapping[str, int]:
    """Of `si/local-images`."""
    return _read(attributes, keys.LOCAL_IMAGES, _images) or _NO_IMAGES


def storage(attributes: Mapping[str, str]) -> NodeStorage | None:
    """Of `muster/volume-limits`, `muster/attached-volumes` and `muster/migrated-plugins`; None = it has none."""
    limits = _read(attributes, keys.NODE_VOLUME_LIMITS, _limits)
    attached = _read(attributes, keys.NODE_ATTACHED, _attached)
    migrated = _read(attributes, keys.NODE_MIGRATED, _migrated)
    if limits is None and attached is None and migrated is None:
        return None
    return NodeStorage(limits or {}, attached or (), migrated or ())


def _read(attributes: Mapping[str, str], key: str, reader: Callable[[str], Value]) -> Value | None:
    text = attributes.get(key)
    try:
        return reader(text) if text else None
    except Unfit as unfit:
        raise unfit.inside(key) from unfit


@remembered
def _features(text: str) -> frozenset[str]:
    found = parsed(text)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise Unfit("the value", "is not a list of texts")
    return frozenset(found)


@remembered
def _limits(text: str) -> Mapping[str, int | None]:
    found = an_object(parsed(text), "the value")
    for driver, count in found.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST):
            raise Unfit(driver[:NAME_LIMIT], f"is neither null nor a whole number from 0 to {_MOST}")
    return cast("Mapping[str, int | None]", found)


@remembered
def _migrated(text: str) -> tuple[str, ...]:
    return tuple(sorted(_features(text)))


def _attached(text: str) -> tuple[Handle, ...]:
    found = an_object(parsed(text), "the value")
    return tuple(Handle(driver, handle) for driver in sorted(found) for handle in texts(found, driver))


def _images(text: str) -> Mapping[str, int]:
    found = an_object(parsed(text, IMAGES_LIMIT), "the value")
    for size in found.values():
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST:
            raise Unfit("an image's size", f"is not a whole number from 0 to {_LARGEST}")
    return cast("Mapping[str, int]", found)
