"""Bounds on what a resource manager or a user can make the core hold or do."""

from __future__ import annotations

from typing import Final

#: Task groups of one gang. A plan tries the groups in several orders: work grows with the square of their number.
TASK_GROUPS_PER_GANG: Final = 100

#: Members of one gang, all task groups together. A gang that fits is placed in one cycle, at about 12 us a member.
MEMBERS_PER_GANG: Final = 10_000

#: Members of a gang that preemption is tried for. Victims are searched for member by member in one event.
MEMBERS_PER_PREEMPTION: Final = 64

#: Nodes that one leaf queue may have reserved, and nodes of the cluster for each of them after the first. What is
#: freed on a reserved node is kept from all other queues, whatever their shares are.
NODE_RESERVATIONS_PER_LEAF: Final = 8
NODES_PER_NODE_RESERVATION: Final = 10

#: Largest amount of a resource that one pod asks for, or one node has: 256 TiB. 16,384 of them add within int64.
#: A pod that asks for more is refused; a pod or node that is there counts as having so much.
QUANTITY: Final = 2**48

#: Resources that one amount names. Each is a column over all nodes.
RESOURCE_NAMES: Final = 128

#: Tags of one ask, allocation or application, and their characters. The longest are selectors and volumes.
TAGS_PER_ITEM: Final = 1024
TAG_CHARACTERS_PER_ITEM: Final = 262_144
TAG_CHARACTERS_PER_APPLICATION: Final = 1_048_576

#: New asks, and new applications, in one message; they are decoded in one go, at about 5 us each.
ITEMS_PER_MESSAGE: Final = 65_536

#: Longest text that is remembered with what it means. There are a few caches of 1,024 texts.
REMEMBERED_CHARACTERS: Final = 4096

#: Counts of ended applications, by queue and state, that are kept of queues that are gone; beyond it they are added to
#: the queue above. Queues that are made on demand come and go without end.
ENDED_COUNTS_OF_GONE_QUEUES: Final = 4096

#: Applications of a partition that wait for the groups of their users before they are accepted; more are rejected.
#: A directory that is unreachable for an hour must not fill the memory.
UNDECIDED_APPLICATIONS: Final = 10_000

#: Users whose groups are looked up again in one round; the others take their turn in the next one.
GROUP_LOOKUPS_PER_ROUND: Final = 256

#: Labels of one namespace's pods that selectors read before all of its labels are kept. Each costs a look at its pods.
SELECTOR_LABELS_PER_NAMESPACE: Final = 256

#: Expressions of all label selectors of one pod; and how many labels they read, each counted once for every namespace
#: that its selector names. A pod with 65 KiB of selectors could have 1,500 expressions, or name 6,000 namespaces.
SELECTOR_EXPRESSIONS_PER_POD: Final = 256
SELECTOR_READS_PER_POD: Final = 1024

#: Different labels that the selectors of one namespace's pods read first, about 200 bytes each. New requests of that
#: namespace beyond it are refused; no other namespace is concerned.
SELECTOR_LABELS_PER_READING_NAMESPACE: Final = 16_384

#: Labels that are kept although no selector reads them any more. Giving them up costs a look at the pods with them.
IDLE_SELECTOR_LABELS: Final = 64

#: Values that selectors wait for and that are kept after their requests are gone, beside as many as are in use.
IDLE_SELECTOR_VALUES: Final = 1024

#: Searches over all nodes in one attempt, each for one class of requests and up to 1 ms on 5,000 nodes. The other
#: classes of the application follow in the next cycle, so that other queues have a part of each.
LOOKS_PER_ATTEMPT: Final = 8

#: A plan that other changes made void so often runs to its end in one cycle, whatever its time budget: it would never
#: end otherwise.
MOST_RESTARTS: Final = 3

#: An application whose attempt raised an exception is tried again after this time, which doubles with each failure:
#: one that always fails costs the others less and less.
FAILURE_BACKOFF_FIRST_NS: Final = 1_000_000_000

#: The longest such time: an application that can be scheduled again waits no longer for it.
FAILURE_BACKOFF_MOST_NS: Final = 300_000_000_000

#: Characters of an exception's text in an event: it may contain what a user wrote.
MESSAGE_CHARACTERS: Final = 256

#: Allocations that one event looks at for a queue over its lowered maximum, at about 15 us each.
ALLOCATIONS_PER_QUOTA_PREEMPTION: Final = 2_000

#: Searches for victims that help nobody, of one leaf queue in one preemption interval, at about 1 ms each. The classes
#: that are left are searched for in the next interval.
PREEMPTION_SEARCHES_IN_VAIN: Final = 128

#: Seconds without a completed turn of the loop, while there is work, after which liveness fails. One turn takes tens of
#: milliseconds; a recovery of 150,000 pods is many of them.
LONGEST_STALL_S: Final = 30
