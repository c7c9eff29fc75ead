"""Pods on nodes as filters and scores read them: tags, inter-pod terms, host ports and attached volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from muster_core.model.constraints import NAMESPACE, PodTerm, Selector, Target, TargetOperator, WeightedPodTerm, matches
from muster_core.model.errors import UnknownSubject
from muster_core.model.specs import NO_VOLUMES, Disk, HostPort, PodOnNode, PodProperties, Volumes
from muster_core.model.storage import NodeStorage, VolumeHandle
from muster_core.state import indexes
from muster_core.state.affinity import AffinityTerms, Counted, TagCounts
from muster_core.state.columns import IntColumn, extended
from muster_core.state.devices import Devices
from muster_core.state.storage import Storage

#: The driver is installed without an attach limit; it is not installed. Larger than any number of volumes.
NO_LIMIT: Final = 2**62
NOT_INSTALLED: Final = NO_LIMIT + 1
_NOTHING: Final[frozenset[VolumeHandle]] = frozenset()
_NO_ROWS: Final[IntColumn] = np.zeros(0, dtype=np.int64)


class Attachments:
    """Claims, disks and attached volumes by node row. A claim counts once per pod, even if it is named twice."""

    def __init__(self) -> None:
        self.storage = Storage()
        #: Number of pods that use it, per row.
        self.claims: dict[str, dict[int, int]] = {}
        self.disks: dict[Disk, dict[int, int]] = {}
        self._per_row: dict[int, dict[str, int]] = {}
        self._own: dict[int, dict[VolumeHandle, int]] = {}
        #: Rows of nodes whose CSI drivers replaced an in-tree plugin, by plugin.
        self.migrated: dict[str, dict[int, None]] = {}
        #: Rows of nodes with a CSINode.
        self.csi_nodes: dict[int, None] = {}
        #: Attach limits and attached volumes as reported for the nodes.
        self._spots: dict[int, NodeStorage] = {}
        self._limits: dict[str, IntColumn] = {}
        #: Volumes attached for pods, per row; and the number of attached volumes per driver.
        self._on: dict[int, frozenset[VolumeHandle]] = {}
        self._used: dict[str, IntColumn] = {}
        self._where: dict[VolumeHandle, dict[int, None]] = {}
        self._changed: dict[int, None] = {}

    def use(self, row: int, volumes: Volumes, count: int) -> None:
        """Adds `count` pods with these volumes to the row; a negative count removes.

        When no pod uses a claim any more, the volume that was assumed for it is forgotten.
        """
        for claim in dict.fromkeys(volumes.claims):
            indexes.count_in(self.claims, claim, row, count)
            indexes.count_in(self._per_row, row, claim, count)
            if claim not in self.claims:
                self.storage.forget(claim)
        for disk in dict.fromkeys(volumes.disks):
            indexes.count_in(self.disks, disk, row, count)
        for handle in dict.fromkeys(volumes.attached):
            indexes.count_in(self._own, row, handle, count)
        if volumes.claims or volumes.attached:
            self._changed[row] = None

    def node(self, row: int, reported: NodeStorage | None) -> None:
        """Sets what the node of the row can attach and has attached; None = unknown."""
        before = self._spots.pop(row, None)
        if reported is not None:
            self._spots[row] = reported
        was, now = ((one.limits if one else None) for one in (before, reported))
        for driver in {*(was or ()), *(now or ())}:
            limit = now.get(driver, NOT_INSTALLED) if now else NOT_INSTALLED
            column = self._limits[driver] = extended(self._limits.get(driver, _NO_ROWS), row, NOT_INSTALLED)
            column[row] = NO_LIMIT if limit is None else limit
        self.csi_nodes.pop(row, None)
        if now is not None:
            self.csi_nodes[row] = None
        for plugin in before.migrated if before else ():
            del self.migrated[plugin][row]
        for plugin in reported.migrated if reported else ():
            self.migrated.setdefault(plugin, {})[row] = None
        self._changed[row] = None

    def resolved(self, claims: Iterable[str] | None) -> None:
        """Marks that other volumes may be attached for these claims now; None = for any claim."""
        if claims is None:
            self._changed.update(dict.fromkeys(self._per_row))
            return
        for claim in claims:
            self._changed.update(dict.fromkeys(self.claims.get(claim, ())))

    def limits(self, driver: str, size: int) -> IntColumn | None:
        """Maximum number of volumes per row, NO_LIMIT or NOT_INSTALLED; None = the driver is not installed anywhere."""
        column = self._limits.get(driver)
        return None if column is None else _padded(column, size, NOT_INSTALLED)

    def used(self, driver: str, size: int) -> IntColumn:
        """Number of attached volumes per row, for pods and others. The column is a copy."""
        self._count()
        return _padded(self._used.get(driver), size, 0).copy()

    def on(self, row: int) -> frozenset[VolumeHandle]:
        """Volumes that are attached to the row for pods."""
        self._count()
        return self._on.get(row, _NOTHING)

    def on_with(self, row: int, more: Iterable[tuple[Volumes, int]]) -> tuple[frozenset[VolumeHandle], dict[str, int]]:
        """Returns the volumes attached for pods if `more` pods with their counts were on the row, and their number per
        driver.
        """
        claims, own = dict(self._per_row.get(row, {})), dict(self._own.get(row, {}))
        for volumes, count in more:
            for claim in dict.fromkeys(volumes.claims):
                claims[claim] = claims.get(claim, 0) + count
            for handle in dict.fromkeys(volumes.attached):
                own[handle] = own.get(handle, 0) + count
        by_pods = self._handles(claims, own)
        return by_pods, self._by_driver(row, by_pods)

    def rows_with(self, handles: Iterable[VolumeHandle]) -> dict[int, int]:
        """Returns the rows where some of these volumes are attached for pods, with their number."""
        self._count()
        found: dict[int, int] = {}
        for handle in handles:
            for row in self._where.get(handle, ()):
                found[row] = found.get(row, 0) + 1
        return found

    def _count(self) -> None:
        for row in self._changed:
            before = self._on.pop(row, _NOTHING)
            by_pods = self._handles(self._per_row.get(row, {}), self._own.get(row, {}))
            if by_pods:
                self._on[row] = by_pods
            for handle in before - by_pods:
                indexes.remove(self._where, handle, row)
            for handle in by_pods - before:
                self._where.setdefault(handle, {})[row] = None
            now = self._by_driver(row, by_pods)
            for driver in {*now, *(handle.driver for handle in before), *self._used}:
                column = self._used[driver] = extended(self._used.get(driver, _NO_ROWS), row, 0)
                column[row] = now.get(driver, 0)
        self._changed.clear()

    def _handles(self, claims: Mapping[str, int], own: Mapping[VolumeHandle, int]) -> frozenset[VolumeHandle]:
        handle = self.storage.handle
        found = [one for claim, count in claims.items() if count > 0 and (one := handle(claim)) is not None]
        return frozenset(found + [one for one, count in own.items() if count > 0])

    def _by_driver(self, row: int, by_pods: frozenset[VolumeHandle]) -> dict[str, int]:
        reported = self._spots.get(row)
        found: dict[str, int] = {}
        for handle in by_pods.union(reported.attached) if reported else by_pods:
            found[handle.driver] = found.get(handle.driver, 0) + 1
        return found


def _padded(column: IntColumn | None, size: int, filler: int) -> IntColumn:
    """Returns the first `size` rows; missing rows have the value `filler`."""
    if column is not None and len(column) >= size:
        return column[:size]
    padded = np.full(size, filler, dtype=np.int64)
    if column is not None:
        padded[: len(column)] = column
    return padded


#: Kubernetes sets this label on every namespace, with the name as value.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_NO_LABELS: Final[Mapping[str, str]] = {}

#: Number of terms whose targets are cached until a namespace changes.
_MEMORY: Final = 65_536


class NodePods:
    """Pods on the nodes of one partition."""

    def __init__(self) -> None:
        self.tags = TagCounts()
        #: Volumes in use per row.
        self.attachments = Attachments()
        self.devices = Devices()
        #: Terms of existing allocations per row: required anti-affinity, required affinity, and preferences.
        self.anti_affinity: AffinityTerms[PodTerm] = AffinityTerms(_itself)
        self.affinity: AffinityTerms[PodTerm] = AffinityTerms(_itself)
        self.preferred: AffinityTerms[WeightedPodTerm] = AffinityTerms(_weighed)
        #: Host ports in use per row.
        self.ports: dict[HostPort, Counted] = {}
        self._facts: dict[PodProperties, Counted] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._resolved: dict[PodTerm, tuple[Target, ...] | None] = {}

    def is_noted(self, facts: PodProperties) -> bool:
        """Whether an allocation with these properties is counted at all."""
        return self.tags.labels.is_on or facts.concerns_others

    @property
    def has_terms(self) -> bool:
        """Whether some allocation has an inter-pod term."""
        return bool(self.anti_affinity or self.affinity or self.preferred)

    def add(self, row: int, pod_on_node: PodOnNode, count: int = 1) -> None:
        """Adds `count` allocations to the row."""
        if self.tags.is_on:
            for _ in range(count):
                self.tags.add(row, pod_on_node.tags)
        if pod_on_node.facts.concerns_others:
            self._count(row, pod_on_node.facts, count)

    def remove(self, row: int, pod_on_node: PodOnNode) -> None:
        """Removes one allocation. Raises UnknownSubject if there is none."""
        if self.tags.is_on:
            self.tags.remove(row, pod_on_node.tags)
        if pod_on_node.facts.concerns_others:
            if row not in self._facts.get(pod_on_node.facts, ()):
                raise UnknownSubject("allocation with facts on row", str(row))
            self._count(row, pod_on_node.facts, -1)

    def facts(self) -> dict[PodProperties, Counted]:
        """Returns a copy of all counts except tags, for the invariant checks."""
        return {facts: dict(rows) for facts, rows in self._facts.items()}

    def namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Sets the labels of a namespace; None = it was deleted."""
        self._resolved.clear()
        if labels is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = {_NAME_LABEL: name, **labels}

    def namespaces(self) -> Iterator[str]:
        """Names of the known namespaces."""
        return iter(self._labels)

    def targets(self, term: PodTerm) -> tuple[Target, ...] | None:
        """Returns the tags of the pods that a term of a new pod selects, with the present namespaces. None = it selects
        none.
        """
        return indexes.cached(self._resolved, term, _MEMORY, lambda: self._resolve(term))

    def selects(self, term: PodTerm, tags: Mapping[str, str]) -> bool:
        """Whether a term of an existing pod selects a pod with these tags."""
        if term.selector is None or not matches(term.selector, tags):
            return False
        name = tags.get(NAMESPACE, "")
        return name in term.namespaces or _selects(term.among, self._labels.get(name, _NO_LABELS))

    def is_meant(self, term: PodTerm, pod_on_node: PodOnNode) -> bool:
        """Like `means`, for an allocation."""
        return self.selects(term, dict(pod_on_node.tags))

    def _resolve(self, term: PodTerm) -> tuple[Target, ...] | None:
        if term.selector is None:
            return None
        if term.among == ():  # an empty selector selects every namespace, also unknown ones
            return term.selector
        names = dict.fromkeys(term.namespaces)
        names.update((name, None) for name, labels in self._labels.items() if _selects(term.among, labels))
        if not names:
            return None
        return (*term.selector, Target(NAMESPACE, TargetOperator.IN, tuple(names)))

    def _count(self, row: int, facts: PodProperties, count: int) -> None:
        indexes.count_in(self._facts, facts, row, count)
        for term in facts.inter_pod.anti_affinity:
            self.anti_affinity.change(term, row, count)
        for term in facts.inter_pod.affinity:
            self.affinity.change(term, row, count)
        for weighed in facts.inter_pod.preferred:
            self.preferred.change(weighed, row, count)
        for port in facts.ports:
            indexes.count_in(self.ports, port, row, count)
        if facts.volumes != NO_VOLUMES:
            self.attachments.use(row, facts.volumes, count)
        if facts.devices:
            self.devices.use(facts.devices, count)


def _itself(term: PodTerm) -> PodTerm:
    return term


def _weighed(weighed: WeightedPodTerm) -> PodTerm:
    return weighed.term


def _selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return selector is not None and matches(selector, labels)
