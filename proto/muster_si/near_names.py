"""Which known name a user meant: for names that have no effect because nothing has such a name.

Operator and core use it wherever users write names: annotations, labels, scheduling parameters, settings, resources,
properties of queues and tags of placement rules. Pure functions; the work for one name is bounded.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import takewhile
from typing import Final

from muster_si.keys import CPU, MEMORY, PODS

#: Similarity from which a name is suggested (difflib's ratio, 0 to 1).
_SIMILAR: Final = 0.75

#: Similarity of a mistyped extended resource.
_ALIKE: Final = 0.94

#: Letters of a resource below which no other one is suggested.
_SHORTEST: Final = 3

#: Characters of a written name that are compared.
_COMPARED: Final = 64

_STORAGE: Final = "ephemeral-storage"

#: Kubernetes' name of the resource that the scheduler calls vcore.
_CPU: Final = "cpu"
_RESOURCES: Final = (_CPU, CPU, MEMORY, PODS, _STORAGE)

#: What users of other schedulers, or of ResourceQuotas, call a resource.
_OTHER_NAMES: Final = {
    "cpu": CPU,
    "cpus": CPU,
    "vcpu": CPU,
    "vcpus": CPU,
    "core": CPU,
    "cores": CPU,
    "mem": MEMORY,
    "ram": MEMORY,
    "storage": _STORAGE,
    "disk": _STORAGE,
    "gpu": "nvidia.com/gpu",
    "gpus": "nvidia.com/gpu",
}

#: Extended resources that are often misspelt.
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")

#: Prefixes of names in a ResourceQuota.
_QUOTA_PREFIXES: Final = ("requests.", "limits.")


def plain(name: str) -> str:
    """The letters and digits of the start of a name, in lower case."""
    return "".join(filter(str.isalnum, name[:_COMPARED].lower()))


def nearest(written: str, known: Iterable[str], similar: float = _SIMILAR) -> str:
    """The known name that resembles the written one most; empty if none does. Case and punctuation do not count."""
    names = {plain(name): name for name in known}
    start = plain(written)
    if start in names:
        return names[start]
    found = difflib.get_close_matches(start, names, n=1, cutoff=similar)
    return names[found[0]] if found else ""


def _is_one_slip(written: str, name: str) -> bool:
    """Whether one letter was doubled, added, left out, replaced or swapped with the next one.

    The first letter is not compared as replaced: gpu, npu and tpu are no misspelt cpu.
    """
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(written, name, strict=False)))
    left, right = written[start:], name[start:]
    if len(left) != len(right):
        return left[1:] == right or left == right[1:]
    swapped = left[1::-1] + left[2:]
    return swapped == right or (start > 0 and left[1:] == right[1:])


def mistyped_resource(requested: Iterable[str], served: Collection[str]) -> tuple[str, str] | None:
    """A requested resource that no node has, and the name in manifests of that which is meant; None if there is none.

    Names of different profiles (`nvidia.com/mig-1g.5gb`) are not alike.
    """
    for name in requested:
        if name not in served:
            meant = meant_resource(name)
            if closest := nearest(name, served, _ALIKE) or (meant if meant in served else ""):
                return name, _CPU if closest == CPU else closest
    return None


def meant_resource(written: str) -> str:
    """The resource of the scheduler that a name without effect stands for; empty if it may be a resource of its own.

    Names of other extended resources have a domain and are free, and so are names that resemble none of Kubernetes'.
    """
    if written in {CPU, MEMORY, PODS, _STORAGE} or written.startswith("hugepages-"):
        return ""
    for prefix in _QUOTA_PREFIXES:
        if written.startswith(prefix):
            rest = written.removeprefix(prefix)
            return meant_resource(rest) or rest
    if "/" in written:
        closest = nearest(written, _GPUS, _ALIKE)
        return "" if closest == written else closest
    start = plain(written)
    if len(start) < _SHORTEST:
        return ""
    slipped = next((name for name in _RESOURCES if _is_one_slip(start, name)), "")
    found = _OTHER_NAMES.get(start) or slipped or nearest(written, _RESOURCES, 0.8)
    return CPU if found == _CPU else found
