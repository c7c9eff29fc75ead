"""Labels and terms of allocated pods that selectors read.

`SelectorLabels` decides which labels are stored, `TagCounts` counts allocations by these labels, and `AffinityTerms`
counts allocations by their inter-pod terms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from muster_core.model import limits, messages
from muster_core.model.constraints import (
    ANY_NAMESPACE,
    LABEL_PREFIX,
    NAMESPACE,
    NO_TAGS,
    TERMINATING,
    PodTerm,
    Read,
    Tags,
    Target,
    TargetOperator,
    matches,
)
from muster_core.model.errors import UnknownSubject
from muster_core.model.ids import ApplicationId
from muster_core.state import indexes

#: Tags that every selector reads in addition to labels.
_ALWAYS: Final = frozenset({NAMESPACE, TERMINATING})
_NO_KEYS: Final[Mapping[str, int]] = {}


class SelectorLabels:
    """The labels that selectors read, and the namespaces and pods that have them."""

    def __init__(self) -> None:
        self.is_on = False
        #: Number of reading pods by scope and tag; 0 = still stored although no pod reads it.
        self._readers: dict[str, dict[str, int]] = {}
        self._idle: dict[Read, None] = {}
        #: The namespace that read a label first, and the number of labels that count towards the limit of a namespace.
        self._payers: dict[Read, str] = {}
        self._charged: dict[str, int] = {}
        #: Namespaces whose labels are all stored, and how often the pods of a namespace were read for a new label.
        self._whole: dict[str, None] = {}
        self._looked: dict[str, int] = {}
        #: Number of pods per namespace and set of tag keys; number of such sets per tag, by namespace; and the
        #: namespaces in which pods have a tag.
        self._shapes: dict[tuple[str, tuple[str, ...]], int] = {}
        self._tags: dict[str, dict[str, int]] = {}
        self._present: dict[str, dict[str, None]] = {}
        #: Number of pods per namespace and application; ApplicationId("") counts foreign pods.
        self._pods: dict[str, dict[ApplicationId, int]] = {}

    def project(self, tags: Mapping[str, str]) -> Tags:
        """Returns the stored subset of the tags, if any tags are stored."""
        namespace = tags.get(NAMESPACE, "")
        anywhere = self._readers.get(ANY_NAMESPACE, _NO_KEYS)
        here = self._readers.get(namespace, _NO_KEYS) if namespace else _NO_KEYS
        is_whole = namespace in self._whole
        return tuple(
            sorted(
                [
                    (key, value)
                    for key, value in tags.items()
                    if key in anywhere or key in here or key in _ALWAYS or (is_whole and key.startswith(LABEL_PREFIX))
                ]
            )
        )

    # -- readers --------------------------------------------------------------

    def unread(self, reads: Iterable[Read]) -> list[Read]:
        """Returns the labels that are not stored yet."""
        return [(scope, key) for scope, key in reads if key not in self._readers.get(scope, ())]

    def refusal(self, namespace: str, reads: Collection[Read]) -> str:
        """Returns why a pod of the namespace may not read these labels as well; empty = it may."""
        charged = self._charged.get(namespace, 0)
        most = limits.SELECTOR_LABELS_PER_READING_NAMESPACE
        if charged + len(reads) <= most or charged + (new := len(self.unread(reads))) <= most or not new:
            return ""
        return messages.too_many_selector_labels(namespace, charged, new, most)

    def begin(self, reads: Iterable[Read], payer: str = "") -> None:
        """Stores these labels, without readers so far, for a pod of the namespace `payer`.

        The caller removes the pods in `places` before and adds them again afterwards.
        """
        for scope, key in reads:
            self._readers.setdefault(scope, {})[key] = 0
            self._idle[scope, key] = None
            self._payers[scope, key] = payer
            indexes.count(self._charged, payer, 1)
            for namespace in self._to_look_at(scope, key):
                self._looked[namespace] = self._looked.get(namespace, 0) + 1
                if self._looked[namespace] > limits.SELECTOR_LABELS_PER_NAMESPACE:
                    self._whole[namespace] = None

    def refer(self, reads: Iterable[Read], count: int) -> None:
        """Adds (1) or removes (-1) one reading pod of these labels."""
        for scope, key in reads:
            readers = self._readers[scope]
            readers[key] += count
            if not readers[key]:
                self._idle[scope, key] = None
            elif count > 0 and readers[key] == 1:
                self._idle.pop((scope, key), None)

    def is_stale(self) -> bool:
        """Whether enough labels are unused to justify a pass over the pods."""
        return len(self._idle) > limits.IDLE_SELECTOR_LABELS

    def sweep(self) -> None:
        """Drops the unused labels. The caller removes the pods in `idle_places` before and adds them again after."""
        concerned = self.idle_places()
        for scope, key in self._idle:
            indexes.remove(self._readers, scope, key)
            indexes.count(self._charged, self._payers.pop((scope, key)), -1)
        self._idle.clear()
        anywhere = self._readers.get(ANY_NAMESPACE, _NO_KEYS)
        for namespace in concerned:
            here = self._readers.get(namespace, _NO_KEYS)
            number = sum(key in anywhere or key in here for key in self._tags.get(namespace, ()))
            self._looked[namespace] = number
            if number <= limits.SELECTOR_LABELS_PER_NAMESPACE // 2:
                self._whole.pop(namespace, None)
            if not number:
                del self._looked[namespace]

    def places(self, reads: Iterable[Read]) -> dict[str, None]:
        """Namespaces with pods whose stored labels change once these labels are read."""
        return {namespace: None for scope, key in reads for namespace in self._to_look_at(scope, key)}

    def idle_places(self) -> dict[str, None]:
        """Namespaces with pods whose stored labels change once the unused labels are dropped."""
        return {namespace: None for scope, key in self._idle for namespace in self._among(scope, key)}

    # -- pods -----------------------------------------------------------------

    def come(self, app: ApplicationId, tags: Mapping[str, str]) -> None:
        """Adds a pod, whether pending or allocated."""
        namespace = tags.get(NAMESPACE, "")
        indexes.count_in(self._pods, namespace, app, 1)
        is_new = indexes.count(self._shapes, (namespace, tuple(tags)), 1) == 1
        for key in tags if is_new else ():
            indexes.count_in(self._tags, namespace, key, 1)
            self._present.setdefault(key, {})[namespace] = None

    def go(self, app: ApplicationId, tags: Mapping[str, str]) -> None:
        """Removes a pod."""
        namespace = tags.get(NAMESPACE, "")
        indexes.count_in(self._pods, namespace, app, -1)
        is_last = indexes.count(self._shapes, (namespace, tuple(tags)), -1) == 0
        for key in tags if is_last else ():
            indexes.count_in(self._tags, namespace, key, -1)
            if key not in self._tags.get(namespace, _NO_KEYS):
                indexes.remove(self._present, key, namespace)

    def applications(self, namespace: str) -> Iterator[ApplicationId]:
        """Yields the applications with pods in the namespace; an empty ID for foreign pods."""
        return iter(list(self._pods.get(namespace, ())))

    # -- for those who count again ---------------------------------------------

    def readers(self) -> dict[Read, int]:
        """Number of reading pods, by scope and tag, without unused ones."""
        return {(scope, key): n for scope, keys in self._readers.items() for key, n in keys.items() if n}

    def charged(self) -> dict[str, int]:
        """Number of labels charged to a namespace, by its name."""
        return dict(self._charged)

    def pods(self) -> dict[tuple[str, ApplicationId], int]:
        """Returns the number of pods by namespace and application."""
        return {(namespace, app): n for namespace, apps in self._pods.items() for app, n in apps.items()}

    def keeps_all(self, namespace: str) -> bool:
        """Whether all labels of the namespace's pods are stored."""
        return namespace in self._whole

    def _among(self, scope: str, key: str) -> list[str]:
        """Namespaces in the scope with pods that have the tag."""
        present = self._present.get(key, {})
        if scope == ANY_NAMESPACE:
            return list(present)
        return [scope] if scope in present else []

    def _to_look_at(self, scope: str, key: str) -> list[str]:
        """Like `_among`, without namespaces that store the tag already."""
        is_label = key.startswith(LABEL_PREFIX)
        return [namespace for namespace in self._among(scope, key) if not (is_label and self.keeps_all(namespace))]


#: Number of (key, value) pairs that are tracked individually.
_MOST_WANTED: Final = 65_536


class TagCounts:
    """Number of allocations per set of stored tags (projection) and node row."""

    def __init__(self) -> None:
        self.labels = SelectorLabels()
        #: Any new allocation may be one that a request waits for.
        self.wants_any = False
        self._wanted_pairs: dict[tuple[str, str], None] = {}
        self._wanted_keys: dict[str, None] = {}
        #: Above this number, pairs that no request waits for are removed.
        self._most_wanted = limits.IDLE_SELECTOR_VALUES
        self._counts: dict[Tags, dict[int, int]] = {}
        #: Projections by each of their pairs.
        self._having: dict[str, dict[str, dict[Tags, None]]] = {}

    def project(self, tags: Mapping[str, str]) -> Tags:
        """Returns the stored subset of the tags."""
        return self.labels.project(tags) if self.labels.is_on else NO_TAGS

    @property
    def is_on(self) -> bool:
        """Whether tags are counted at all."""
        return self.labels.is_on

    def add(self, row: int, projection: Tags) -> None:
        """Adds one allocation to the row."""
        rows = self._counts.get(projection)
        if rows is None:
            rows = self._counts[projection] = {}
            for key, value in projection:
                self._having.setdefault(key, {}).setdefault(value, {})[projection] = None
        rows[row] = rows.get(row, 0) + 1

    def remove(self, row: int, projection: Tags) -> None:
        """Removes one allocation. Raises UnknownSubject if there is none."""
        if row not in self._counts.get(projection, ()):
            raise UnknownSubject("tagged allocation on row", str(row))
        indexes.count_in(self._counts, projection, row, -1)
        for key, value in projection if projection not in self._counts else ():
            values = self._having[key]
            indexes.remove(values, value, projection)
            if not values:
                del self._having[key]

    def counts(self) -> dict[Tags, dict[int, int]]:
        """Returns a copy of all counts, for the invariant checks."""
        return {projection: dict(rows) for projection, rows in self._counts.items()}

    def matching(self, targets: tuple[Target, ...]) -> Iterator[Mapping[int, int]]:
        """Yields row → count for each projection that matches the targets."""
        for projection in self._candidates(targets):
            if matches(targets, dict(projection)):
                yield self._counts[projection]

    def want(self, targets: tuple[Target, ...]) -> None:
        """Records that a request may wait for allocations that match the targets."""
        for target in targets:
            if target.operator is TargetOperator.IN and len(self._wanted_pairs) < _MOST_WANTED:
                self._wanted_pairs.update(dict.fromkeys((target.key, value) for value in target.values))
                return
            if target.operator is TargetOperator.EXIST:
                self._wanted_keys[target.key] = None
                return
        self.wants_any = True

    def wants_many(self) -> bool:
        """Whether a call of `replace_wanted` is worth a pass over all requests."""
        return self.wants_any or len(self._wanted_pairs) > self._most_wanted

    def replace_wanted(self, wanted: Iterable[tuple[Target, ...]]) -> None:
        """Replaces all recorded targets by these."""
        self.wants_any = False
        self._wanted_pairs.clear()
        self._wanted_keys.clear()
        for targets in wanted:
            self.want(targets)
        self._most_wanted = 2 * len(self._wanted_pairs) + limits.IDLE_SELECTOR_VALUES

    def is_wanted(self, projection: Tags) -> bool:
        """Whether a request may wait for one more allocation with this projection."""
        return self.wants_any or any(pair in self._wanted_pairs or pair[0] in self._wanted_keys for pair in projection)

    def _candidates(self, targets: tuple[Target, ...]) -> Iterable[Tags]:
        """Projections that include all matches: by the first target that names values or a key."""
        for target in targets:
            having = self._having.get(target.key, {})
            if target.operator is TargetOperator.IN:
                return [found for value in dict.fromkeys(target.values) for found in having.get(value, ())]
            if target.operator is TargetOperator.EXIST:
                return [found for projections in having.values() for found in projections]
        return self._counts


Key = TypeVar("Key")

#: Number per row.
Counted = dict[int, int]
_Pair = tuple[str, str]

#: Index key of terms that require no value.
_ANY: Final[_Pair] = ("", "")


class AffinityTerms(Generic[Key]):
    """Allocations by an inter-pod term, or by an object that contains one (`term_of`)."""

    def __init__(self, term_of: Callable[[Key], PodTerm]) -> None:
        self._term_of = term_of
        self._rows: dict[Key, Counted] = {}
        self._by_pair: dict[_Pair, dict[Key, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def change(self, key: Key, row: int, count: int) -> None:
        """Adds `count` allocations to the row; a negative count removes."""
        for pair in _pairs(self._term_of(key)) if key not in self._rows else ():
            self._by_pair.setdefault(pair, {})[key] = None
        indexes.count_in(self._rows, key, row, count)
        for pair in _pairs(self._term_of(key)) if key not in self._rows else ():
            indexes.remove(self._by_pair, pair, key)

    def that_may_select(self, tags: Mapping[str, str]) -> Iterator[tuple[Key, Counted]]:
        """Yields all terms that select a pod with these tags, and possibly some that do not."""
        for pair in (_ANY, *tags.items()):
            for key in self._by_pair.get(pair, ()):
                yield key, self._rows[key]


def _pairs(term: PodTerm) -> tuple[_Pair, ...]:
    """Returns pairs of which a selected pod has at least one."""
    for target in term.selector or ():
        if target.operator is TargetOperator.IN:
            return tuple(dict.fromkeys((target.key, value) for value in target.values))
    return (_ANY,)
