"""Bounds on what a user can make the operator hold, send or write."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

_KIB: Final = 1024

# -- watches ------------------------------------------------------------------
#: Deleted objects whose version is kept: a pod that was read just before its deletion must not come back.
REMEMBERED_DELETIONS: Final = 10_000

#: Missed deletions of one list that are logged one by one; the others are counted only.
LOGGED_DELETIONS: Final = 20

# -- one pod ------------------------------------------------------------------
#: One constraint of a pod as it is written in the object. The core reads no longer ones.
CONSTRAINT_BYTES: Final = 64 * _KIB

#: All labels and constraints of a pod together, as they are sent to the core: 100 pods always fit one message.
POD_TAGS_BYTES: Final = 64 * _KIB

#: Names of resources of a pod that is to be scheduled. A node has fewer than 20.
POD_RESOURCES: Final = 128

#: Scheduling gates, resource claims and image pull secrets of a pod that are kept.
POD_NAMES: Final = 64

# -- one annotation -----------------------------------------------------------
#: `task-groups`. 100 groups with a resource list and a node selector have 20 KiB.
TASK_GROUPS_BYTES: Final = 32 * _KIB

#: `schedulingPolicyParameters`. All known parameters together have 300 bytes.
PARAMETERS_BYTES: Final = 4 * _KIB

#: `user.info`. What the admission webhook writes at most.
USER_INFO_BYTES: Final = 64 * _KIB

#: The queue, which an annotation may name without the limit of a label.
QUEUE_BYTES: Final = 1 * _KIB

#: The name of a task group. Kubernetes' longest name.
TASK_GROUP_NAME_BYTES: Final = 253

# -- one gang -----------------------------------------------------------------
#: Task groups. Users of YuniKorn have fewer than 20.
GANG_GROUPS: Final = 100

#: Members of all groups. A placeholder pod each, so more would flood the API server.
GANG_MEMBERS: Final = 10_000

#: Refused pods of a task group whose nodes their successors avoid; the oldest are forgotten first.
GANG_REFUSALS: Final = 1_000

#: Members tag as sent to the core: the longest text that the core reads.
GANG_MEMBERS_TAG_BYTES: Final = 64 * _KIB

#: Placeholder creations of a gang that are ordered and not answered. An API server answers 500 in a second or two.
GANG_OPEN_CREATIONS: Final = 500

#: The same for all gangs of a namespace, so that many gangs do not fill the write queue.
NAMESPACE_OPEN_CREATIONS: Final = 1_000

# -- messages to the core -----------------------------------------------------
#: Items of a message: 90,000 asks a second at 100, and little more beyond.
MESSAGE_ITEMS: Final = 100

#: Bytes at which a message is closed. One item may be larger; all are far below the transport's 16 MiB.
MESSAGE_BYTES: Final = 1024 * _KIB

#: A storage object as sent to the core: the longest text that the core reads.
FACT_BYTES: Final = 64 * _KIB

#: Free text of a release, which may quote an answer of the API server.
REASON_CHARACTERS: Final = 1_024

#: Messages to the core, of at most 100 items, that wait before objects of watches are kept in the inbox, and how few
#: let them continue. The replay of 150,000 pods is 1,500 messages.
OUTBOX_FULL: Final = 2_000
OUTBOX_ROOM: Final = 1_000

#: Messages of one stream at which a core that reads nothing is given up; only what the core itself asks for comes here.
OUTBOX_LIMIT: Final = 200_000

# -- caches -------------------------------------------------------------------
#: Longest text whose translation is cached. What is longer is no class of many pods.
MEMO_ENTRY_BYTES: Final = 4 * _KIB

#: Each cache of translations: some 5,000 usual entries.
MEMO_BYTES: Final = 4 * 1024 * _KIB

#: Labels of a pod that is read by its class; Kubernetes bounds the bytes of one label, not their number.
CLASS_LABELS: Final = 64

#: The part of a pod by which its class is known.
CLASS_BYTES: Final = 16 * _KIB

#: All classes of pods together. A usual one has 6 KiB.
CLASSES_BYTES: Final = 16 * 1024 * _KIB

# -- other schedulers ---------------------------------------------------------
#: Service accounts of objects that look like a YuniKorn's which are reviewed: in a namespace, and in all. A YuniKorn
#: has one account; who may create pods in its namespace may run them as that account too.
YUNIKORN_ACCOUNTS_PER_NAMESPACE: Final = 5
YUNIKORN_ACCOUNTS: Final = 1_000

#: Bytes of a list of such objects that are read, all pages together.
YUNIKORN_LIST_BYTES: Final = 32 * 1024 * _KIB

# -- writes and logs ----------------------------------------------------------
#: Kubernetes events that wait to be written, each some 1 KiB.
WAITING_EVENTS: Final = 20_000

#: Characters of a text of the API server in a log line.
LOGGED_CHARACTERS: Final = 300


class Shares:
    """Counts by holder; every operation takes the same time, however many holders there are."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._holders: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._most = 0

    def add(self, holder: str) -> None:
        """The holder has one more."""
        self._move(holder, self._counts.get(holder, 0) + 1)

    def remove(self, holder: str) -> None:
        """The holder has one less."""
        self._move(holder, self._counts[holder] - 1)

    def clear(self) -> None:
        """Remove all counts."""
        self._counts.clear()
        self._holders.clear()
        self._most = 0

    def largest(self) -> str:
        """The largest holder; among equals the one with that count for longest. StopIteration if none."""
        return next(iter(self._holders[self._most]))

    def _move(self, holder: str, count: int) -> None:
        before = self._counts.pop(holder, 0)
        if before:
            del self._holders[before][holder]
            if not self._holders[before]:
                del self._holders[before]
        if count:
            self._counts[holder] = count
            self._holders[count][holder] = None
        self._most = max(self._most, count)
        if before == self._most and before not in self._holders:
            self._most = count
