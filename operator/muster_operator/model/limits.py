"""Bounds on what a user may make the operator hold, send or write, each with its reason.

Every bound of the operator stands here, so that one page answers "how much can one user cost the others".
Units are in the names. Callers check a bound before they build or cache anything from the input.
"""

from __future__ import annotations

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
#: let them go on. The replay of 150,000 pods is 1,500 messages.
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

# -- writes and logs ----------------------------------------------------------
#: Kubernetes events that wait to be written, each some 1 KiB.
WAITING_EVENTS: Final = 20_000
#: Characters of a text of the API server in a log line.
LOGGED_CHARACTERS: Final = 300
