"""Labels and terms of allocated pods that selectors read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from muster_core.model import limits
from muster_core.model.constraints import (
    LABEL_PREFIX,
    NAMESPACE,
    NO_TAGS,
    TERMINATING,
    PodTerm,
    Tags,
    Target,
    TargetOperator,
    matches,
)
from muster_core.model.errors import UnknownSubject
from muster_core.model.ids import ApplicationId

#: The scope of a selector that may mean pods of any namespace.
ANYWHERE: Final = ""

#: What every selector reads beside labels.
_ALWAYS: Final = frozenset({NAMESPACE, TERMINATING})
_NO_KEYS: Final[Mapping[str, int]] = {}

#: A scope, which is a namespace or ANYWHERE, and the tag that is read there.
Read = tuple[str, str]


class SelectorLabels:
    """Readers by label, and where pods have which labels."""

    __slots__ = (
        "_charged",
        "_idle",
        "_looked",
        "_payers",
        "_pods",
        "_present",
        "_readers",
        "_shapes",
        "_tags",
        "_whole",
        "is_on",
    )

    def __init__(self) -> None:
        self.is_on = False
        #: How many pods read it, by scope and tag; 0 = it is kept although nobody does.
        self._readers: dict[str, dict[str, int]] = {}
        self._idle: dict[Read, None] = {}
        #: The namespace that read a label first, and how many labels are charged to a namespace.
        self._payers: dict[Read, str] = {}
        self._charged: dict[str, int] = {}
        #: Namespaces that keep all labels; how many times the pods of a namespace were looked at for another label.
        self._whole: dict[str, None] = {}
        self._looked: dict[str, int] = {}
        #: How many pods of a namespace have exactly these tags; how many such combinations have a tag, by namespace;
        #: and the namespaces in which pods have a tag.
        self._shapes: dict[tuple[str, tuple[str, ...]], int] = {}
        self._tags: dict[str, dict[str, int]] = {}
        self._present: dict[str, dict[str, None]] = {}
        #: Pods of a namespace by application; ApplicationId("") stands for foreign ones.
        self._pods: dict[str, dict[ApplicationId, int]] = {}

    def project(self, tags: Mapping[str, str]) -> Tags:
        """What of these tags is kept."""
        if not self.is_on:
            return NO_TAGS
        namespace = tags.get(NAMESPACE, "")
        anywhere = self._readers.get(ANYWHERE, _NO_KEYS)
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
        """Those of the labels that are not kept yet."""
        return [(scope, key) for scope, key in reads if key not in self._readers.get(scope, ())]

    def refusal(self, namespace: str, reads: Collection[Read]) -> str:
        """Why no pod of the namespace may read these as well; empty = it may."""
        charged = self._charged.get(namespace, 0)
        most = limits.SELECTOR_LABELS_PER_READING_NAMESPACE
        if charged + len(reads) <= most or charged + (new := len(self.unread(reads))) <= most or not new:
            return ""
        return (
            f"label selectors of pods in namespace {namespace!r} read {charged} different labels, this one {new} more,"
            f" the limit is {most}: use fewer labels in selectors"
        )

    def begin(self, reads: Iterable[Read], payer: str = "") -> None:
        """Keep these as well, with no reader so far, for a pod of the namespace `payer`. Pods in `places` of them are
        counted again around this.
        """
        for scope, key in reads:
            self._readers.setdefault(scope, {})[key] = 0
            self._idle[scope, key] = None
            self._payers[scope, key] = payer
            self._charged[payer] = self._charged.get(payer, 0) + 1
            for namespace in self._to_look_at(scope, key):
                self._looked[namespace] = self._looked.get(namespace, 0) + 1
                if self._looked[namespace] > limits.SELECTOR_LABELS_PER_NAMESPACE:
                    self._whole[namespace] = None

    def refer(self, reads: Iterable[Read], count: int) -> None:
        """One pod more (1) or less (-1) reads these."""
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
        """Remove what is not read any more. Pods in `idle_places` are counted again around this."""
        concerned = self.idle_places()
        for scope, key in self._idle:
            del self._readers[scope][key]
            if not self._readers[scope]:
                del self._readers[scope]
            payer = self._payers.pop((scope, key))
            self._charged[payer] -= 1
            if not self._charged[payer]:
                del self._charged[payer]
        self._idle.clear()
        anywhere = self._readers.get(ANYWHERE, _NO_KEYS)
        for namespace in concerned:
            here = self._readers.get(namespace, _NO_KEYS)
            number = sum(key in anywhere or key in here for key in self._tags.get(namespace, ()))
            self._looked[namespace] = number
            if number <= limits.SELECTOR_LABELS_PER_NAMESPACE // 2:
                self._whole.pop(namespace, None)
            if not number:
                del self._looked[namespace]

    def places(self, reads: Iterable[Read]) -> dict[str, None]:
        """Namespaces with pods that look another way to selectors once these are read."""
        return {namespace: None for scope, key in reads for namespace in self._to_look_at(scope, key)}

    def idle_places(self) -> dict[str, None]:
        """The same for removed labels that no term reads; namespaces that keep all labels may do that no more."""
        return {namespace: None for scope, key in self._idle for namespace in self._among(scope, key)}

    # -- pods -----------------------------------------------------------------

    def come(self, app: ApplicationId, tags: Mapping[str, str]) -> None:
        """A pod is there, waiting or not."""
        namespace = tags.get(NAMESPACE, "")
        pods = self._pods.setdefault(namespace, {})
        pods[app] = pods.get(app, 0) + 1
        shape = (namespace, tuple(tags))
        number = self._shapes.get(shape, 0)
        self._shapes[shape] = number + 1
        if not number and tags:  # without any tag there is nothing to count in `_tags`
            there = self._tags.setdefault(namespace, {})
            for key in tags:
                if key not in there:
                    self._present.setdefault(key, {})[namespace] = None
                there[key] = there.get(key, 0) + 1

    def go(self, app: ApplicationId, tags: Mapping[str, str]) -> None:
        """It is there no more."""
        namespace = tags.get(NAMESPACE, "")
        pods = self._pods[namespace]
        pods[app] -= 1
        if not pods[app]:
            del pods[app]
        if not pods:
            del self._pods[namespace]
        shape = (namespace, tuple(tags))
        self._shapes[shape] -= 1
        if self._shapes[shape]:
            return
        del self._shapes[shape]
        if not tags:
            return
        there = self._tags[namespace]
        for key in tags:
            there[key] -= 1
            if there[key]:
                continue
            del there[key], self._present[key][namespace]
            if not self._present[key]:
                del self._present[key]
        if not there:
            del self._tags[namespace]

    def applications(self, namespace: str) -> Iterator[ApplicationId]:
        """Applications with pods in the namespace; an empty one where foreign pods are there."""
        return iter(list(self._pods.get(namespace, ())))

    # -- for those who count again ---------------------------------------------

    def readers(self) -> dict[Read, int]:
        """Number of reading pods, by scope and tag, without unused ones."""
        return {(scope, key): n for scope, keys in self._readers.items() for key, n in keys.items() if n}

    def charged(self) -> dict[str, int]:
        """Number of labels charged to a namespace, by its name."""
        return dict(self._charged)

    def pods(self) -> dict[tuple[str, ApplicationId], int]:
        """How many pods of a namespace belong to an application."""
        return {(namespace, app): n for namespace, apps in self._pods.items() for app, n in apps.items()}

    def keeps_all(self, namespace: str) -> bool:
        """Whether all labels of the namespace's pods are kept."""
        return namespace in self._whole

    def _among(self, scope: str, key: str) -> list[str]:
        """Namespaces with pods that have the tag, of those that the scope means."""
        present = self._present.get(key, {})
        if scope == ANYWHERE:
            return list(present)
        return [scope] if scope in present else []

    def _to_look_at(self, scope: str, key: str) -> list[str]:
        """Those of them that do not keep the tag already."""
        is_label = key.startswith(LABEL_PREFIX)
        return [namespace for namespace in self._among(scope, key) if not (is_label and self.keeps_all(namespace))]


#: Pairs of key and value whose coming is told apart from that of others.
_MOST_WANTED: Final = 65_536


class TagCounts:
    """How many allocations of each projection are on each row."""

    __slots__ = ("_counts", "_having", "_most_wanted", "_wanted_keys", "_wanted_pairs", "labels", "wants_any")

    def __init__(self) -> None:
        self.labels = SelectorLabels()
        #: Any allocation that comes may be what an ask waits for.
        self.wants_any = False
        self._wanted_pairs: dict[tuple[str, str], None] = {}
        self._wanted_keys: dict[str, None] = {}
        #: More pairs than this are looked through for those that nobody waits for any more.
        self._most_wanted = limits.IDLE_SELECTOR_VALUES
        self._counts: dict[Tags, dict[int, int]] = {}
        #: Projections by one pair of theirs.
        self._having: dict[str, dict[str, dict[Tags, None]]] = {}

    def project(self, tags: Mapping[str, str]) -> Tags:
        """What of these tags is kept."""
        return self.labels.project(tags)

    @property
    def is_on(self) -> bool:
        """Whether anything is counted."""
        return self.labels.is_on

    def add(self, row: int, projection: Tags) -> None:
        """One more of these on the row."""
        rows = self._counts.get(projection)
        if rows is None:
            rows = self._counts[projection] = {}
            for key, value in projection:
                self._having.setdefault(key, {}).setdefault(value, {})[projection] = None
        rows[row] = rows.get(row, 0) + 1

    def remove(self, row: int, projection: Tags) -> None:
        """One less. Raises UnknownSubject where none was."""
        rows = self._counts.get(projection, {})
        if row not in rows:
            raise UnknownSubject("tagged allocation on row", str(row))
        rows[row] -= 1
        if rows[row] == 0:
            del rows[row]
        if not rows:
            del self._counts[projection]
            for key, value in projection:
                self._forget(key, value, projection)

    def counts(self) -> dict[Tags, dict[int, int]]:
        """Everything, for those who count again."""
        return {projection: dict(rows) for projection, rows in self._counts.items()}

    def matching(self, targets: tuple[Target, ...]) -> Iterator[Mapping[int, int]]:
        """Rows and how many are there, for each projection that meets the targets."""
        for projection in self._candidates(targets):
            if matches(targets, dict(projection)):
                yield self._counts[projection]

    def want(self, targets: tuple[Target, ...]) -> None:
        """Some ask may wait until some of these are there."""
        for target in targets:
            if target.operator is TargetOperator.IN and len(self._wanted_pairs) < _MOST_WANTED:
                self._wanted_pairs.update(dict.fromkeys((target.key, value) for value in target.values))
                return
            if target.operator is TargetOperator.EXIST:
                self._wanted_keys[target.key] = None
                return
        self.wants_any = True

    def wants_many(self) -> bool:
        """Whether `want_only` is worth looking at all asks."""
        return self.wants_any or len(self._wanted_pairs) > self._most_wanted

    def want_only(self, wanted: Iterable[tuple[Target, ...]]) -> None:
        """Only these may be what asks wait for."""
        self.wants_any = False
        self._wanted_pairs.clear()
        self._wanted_keys.clear()
        for targets in wanted:
            self.want(targets)
        self._most_wanted = 2 * len(self._wanted_pairs) + limits.IDLE_SELECTOR_VALUES

    def is_wanted(self, projection: Tags) -> bool:
        """Whether one more of these may be what an ask waits for."""
        return self.wants_any or any(pair in self._wanted_pairs or pair[0] in self._wanted_keys for pair in projection)

    def _candidates(self, targets: tuple[Target, ...]) -> Iterable[Tags]:
        """Few projections that hold all that meet the targets: by the first target that names values or a key."""
        for target in targets:
            having = self._having.get(target.key, {})
            if target.operator is TargetOperator.IN:
                return [found for value in dict.fromkeys(target.values) for found in having.get(value, ())]
            if target.operator is TargetOperator.EXIST:
                return [found for projections in having.values() for found in projections]
        return self._counts

    def _forget(self, key: str, value: str, projection: Tags) -> None:
        values = self._having[key]
        del values[value][projection]
        if not values[value]:
            del values[value]
        if not values:
            del self._having[key]


Key = TypeVar("Key")

#: Row → how many.
Counted = dict[int, int]
_Pair = tuple[str, str]

#: Where the terms are that ask for no value.
_ANY: Final[_Pair] = ("", "")


class AffinityTerms(Generic[Key]):
    """Allocations by a term of theirs, or what else holds one (`term_of`)."""

    __slots__ = ("_by_pair", "_rows", "_term_of")

    def __init__(self, term_of: Callable[[Key], PodTerm]) -> None:
        self._term_of = term_of
        self._rows: dict[Key, Counted] = {}
        self._by_pair: dict[_Pair, dict[Key, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def change(self, key: Key, row: int, count: int) -> None:
        """So many more on the row; less than 0 = less."""
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = {}
            for pair in _pairs(self._term_of(key)):
                self._by_pair.setdefault(pair, {})[key] = None
        rows[row] = rows.get(row, 0) + count
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._rows[key]
            for pair in _pairs(self._term_of(key)):
                del self._by_pair[pair][key]
                if not self._by_pair[pair]:
                    del self._by_pair[pair]

    def that_may_mean(self, tags: Mapping[str, str]) -> Iterator[tuple[Key, Counted]]:
        """All that mean a pod with these tags, and a few others."""
        for pair in (_ANY, *tags.items()):
            for key in self._by_pair.get(pair, ()):
                yield key, self._rows[key]


def _pairs(term: PodTerm) -> tuple[_Pair, ...]:
    """A pod that the term means has one of these."""
    for target in term.selector or ():
        if target.operator is TargetOperator.IN:
            return tuple(dict.fromkeys((target.key, value) for value in target.values))
    return (_ANY,)
