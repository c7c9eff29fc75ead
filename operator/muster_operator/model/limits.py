"""Limits for what users can make the operator store, send or write."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

_KIB: Final = 1024

# -- watches ------------------------------------------------------------------
#: Deleted objects whose version is kept, so that a pod that was read just before its deletion is not added again.
CACHED_DELETIONS: Final = 10_000

#: Missed deletions of one list that are logged one by one. Further ones are only counted.
LOGGED_DELETIONS: Final = 20

# -- failures -----------------------------------------------------------------
#: Objects whose earlier failures are remembered after a recovery. The oldest ones are dropped first.
FAILED_OBJECTS: Final = 1_000

# -- warnings -----------------------------------------------------------------
#: Warnings that the applications of a namespace share. The oldest ones are dropped first, and posted again later.
REPORTED_IN_NAMESPACES: Final = 1_000

# -- one pod ------------------------------------------------------------------
#: A constraint of a pod as written in the object. The core rejects longer ones.
CONSTRAINT_BYTES: Final = 64 * _KIB

#: All labels and constraints of a pod as sent to the core, so that 100 pods always fit into a message.
POD_TAGS_BYTES: Final = 64 * _KIB

#: Resource names of a pod that is to be scheduled. A node has fewer than 20.
POD_RESOURCES: Final = 128

#: Scheduling gates, resource claims and image pull secrets of a pod that are kept.
POD_NAMES: Final = 64

# -- one annotation -----------------------------------------------------------
#: `task-groups`. 100 groups with a resource list and a node selector have 20 KiB.
TASK_GROUPS_BYTES: Final = 32 * _KIB

#: `schedulingPolicyParameters`. All known parameters together have 300 bytes.
PARAMETERS_BYTES: Final = 4 * _KIB

#: Characters of the message in the condition of a PodGroup. Kubernetes accepts 32 KiB.
CONDITION_CHARACTERS: Final = 4 * _KIB

#: `user.info`. This is also the maximum that the webhook writes.
USER_INFO_BYTES: Final = 64 * _KIB

#: The application ID: the maximum of label values.
APPLICATION_ID_CHARACTERS: Final = 63

#: Koordinator's `groups`. 20 names of usual length have 1 KiB.
GANG_NAMES_BYTES: Final = 4 * _KIB

#: The queue name, which has no limit in an annotation.
QUEUE_BYTES: Final = 1 * _KIB

#: The name of a task group: the maximum of object names in Kubernetes.
TASK_GROUP_NAME_BYTES: Final = 253

# -- one gang -----------------------------------------------------------------
#: Task groups, and gangs of Koordinator that start together. Users of YuniKorn have fewer than 20.
GANG_GROUPS: Final = 100

#: Levels of a gang's topology. The core accepts as many.
TOPOLOGY_LEVELS: Final = 8

#: Members of all groups. Each has a placeholder pod, so that more would overload the API server.
GANG_MEMBERS: Final = 10_000

#: Rejected pods of a task group whose nodes replacements avoid. The oldest ones are dropped first.
GANG_REFUSALS: Final = 1_000

#: The members tag as sent to the core: the maximum that the core reads.
GANG_MEMBERS_TAG_BYTES: Final = 64 * _KIB

#: Unanswered placeholder creations of a gang. An API server answers 500 in one or two seconds.
GANG_OPEN_CREATIONS: Final = 500

#: Unanswered placeholder creations of all gangs of a namespace, so that they do not fill the write queue.
NAMESPACE_OPEN_CREATIONS: Final = 1_000

#: Pod sets of a ProvisioningRequest (limit of its API). No request is created for a gang with more task groups.
POD_SETS: Final = 32

#: Digits of a resource version that is compared as a number: 64 bits.
VERSION_DIGITS: Final = 20

#: Characters of a W3C trace context (`00-<trace>-<span>-<flags>`).
TRACEPARENT_CHARACTERS: Final = 55

# -- traces -------------------------------------------------------------------
#: Applications with an open trace. If there are more, a trace of the namespace with most of them is dropped.
OPEN_TRACES: Final = 10_000

#: Spans of an application, without its root span. Further ones are dropped and counted.
TRACE_SPANS: Final = 1_000

#: A text in an attribute of a span.
SPAN_TEXT_BYTES: Final = 1 * _KIB

# -- messages to the core -----------------------------------------------------
#: Items of a message. 100 allow 90,000 requests a second; larger messages are hardly faster.
MESSAGE_ITEMS: Final = 100

#: Size at which a message is sent. One item can exceed it, but stays far below the 16 MiB of the transport.
MESSAGE_BYTES: Final = 1024 * _KIB

#: A storage object, device class or device claim as sent to the core: the maximum that the core reads.
FACT_BYTES: Final = 64 * _KIB

#: A slice of devices as sent to the core. Kubernetes accepts 128 devices with 32 attributes each.
DEVICE_SLICE_BYTES: Final = 1024 * _KIB

#: Taints of a device, its own and those of rules: the maximum that the core reads. Kubernetes accepts 16 of its own.
DEVICE_TAINTS: Final = 64

#: Devices of one ResourceClaim, as the API server allows.
CLAIM_RESULTS: Final = 32

#: Text of a release, which can contain a message of the API server.
REASON_CHARACTERS: Final = 1_024

#: Errors of the ConfigMaps that are sent to the core. It finds at most 100, of which it shows 500 characters each.
REJECTED_CHARACTERS: Final = 64 * _KIB

#: Waiting messages to the core, of at most 100 items, at which the inbox stops handling watch events, and at which it
#: continues. The recovery of 150,000 pods has 1,500 messages.
OUTBOX_FULL: Final = 2_000
OUTBOX_ROOM: Final = 1_000

#: Waiting messages of one stream at which the session ends, because the core does not read.
OUTBOX_LIMIT: Final = 200_000

# -- caches -------------------------------------------------------------------
#: Maximum text of a cached translation. Longer texts are rarely shared by many pods.
MEMO_ENTRY_BYTES: Final = 4 * _KIB

#: Each cache of translations: about 5,000 typical entries.
MEMO_BYTES: Final = 4 * 1024 * _KIB

#: Labels of a pod that is translated by class. Kubernetes limits the size of a label, not the number.
CLASS_LABELS: Final = 64

#: The key of a pod class.
CLASS_BYTES: Final = 16 * _KIB

#: All pod classes together. A typical one has 6 KiB.
CLASSES_BYTES: Final = 16 * 1024 * _KIB

# -- other schedulers ---------------------------------------------------------
#: Service accounts of objects that look like YuniKorn and are reviewed, per namespace and in total. YuniKorn has one
#: account. Users who can create pods in its namespace can run them with that account too.
YUNIKORN_ACCOUNTS_PER_NAMESPACE: Final = 5
YUNIKORN_ACCOUNTS: Final = 1_000

#: Bytes of a list of such objects, all pages together.
YUNIKORN_LIST_BYTES: Final = 32 * 1024 * _KIB

# -- writes and logs ----------------------------------------------------------
#: Kubernetes events in the buffer, of about 1 KiB each.
WAITING_EVENTS: Final = 20_000

#: Characters of an API server message in a log line.
LOGGED_CHARACTERS: Final = 300


class Shares:
    """Counts by holder, such as a namespace. Every operation takes constant time."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._holders: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._most = 0

    def add(self, holder: str, number: int = 1) -> None:
        """Increases the count of the holder."""
        self._move(holder, self._counts.get(holder, 0) + number)

    def remove(self, holder: str) -> None:
        """Decrements the count of the holder."""
        self._move(holder, self._counts[holder] - 1)

    def clear(self) -> None:
        """Removes all counts."""
        self._counts.clear()
        self._holders.clear()
        self._most = 0

    def largest(self) -> str:
        """Returns the holder with the largest count; of equal ones the one that has had it for longest.

        Raises:
            StopIteration: there is none.
        """
        return next(iter(self._holders[self._most]))

    def _move(self, holder: str, count: int) -> None:
        before = self._counts.get(holder, 0)
        if before:
            holders = self._holders[before]
            del holders[holder]
            if not holders:
                del self._holders[before]
        if count:
            self._counts[holder] = count
            self._holders[count][holder] = None
        else:
            del self._counts[holder]
        if count > self._most or (before == self._most and before not in self._holders):
            self._most = count
