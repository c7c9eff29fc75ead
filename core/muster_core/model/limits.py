"""Limits on what resource managers and users can make the core store or compute."""

from __future__ import annotations

from typing import Final

#: Task groups of one gang. A plan tries them in several orders, so its cost grows with the square of their number.
TASK_GROUPS_PER_GANG: Final = 100

#: Levels of a gang's topology. The work of a plan grows with the number of domains of all levels.
TOPOLOGY_LEVELS: Final = 8

#: Allocations of one request. They are released in one step, at about 30 us each.
ALLOCATIONS_PER_REQUEST: Final = 1_000

#: Pods that one part of an event removes or reads, at up to 20 us each. Other tasks run before the next part.
PODS_PER_PART: Final = 500

#: Members of one gang in all task groups. A gang that fits is placed in one cycle and takes about 12 us per member.
MEMBERS_PER_GANG: Final = 10_000

#: Missing members and victims of a gang that preempts. They are reserved and released in one step, at about 25 us each.
PODS_PER_PREEMPTION: Final = 4_000

#: Allocations that a search for a gang reads at most. It stores the candidates among them, at about 500 bytes each.
CANDIDATES_PER_PREEMPTION: Final = 40_000

#: Nodes that one leaf queue may reserve, and cluster nodes per reservation after the first. Resources that become free
#: on a reserved node are not available to other queues, whatever their shares are.
NODE_RESERVATIONS_PER_LEAF: Final = 8
NODES_PER_NODE_RESERVATION: Final = 10

#: Largest amount of a resource of one pod or node: 256 TiB. The sum of 16,384 such amounts fits into int64. A request
#: for more is rejected; an existing pod or node counts with this amount.
QUANTITY: Final = 2**48

#: Resources in one amount; and the resources that no node offers in a metric or REST field about waiting requests.
RESOURCE_NAMES: Final = 128

#: Tags of one request, allocation or application, and their characters. Selectors and volumes are the longest.
TAGS_PER_ITEM: Final = 1024
TAG_CHARACTERS_PER_ITEM: Final = 262_144
TAG_CHARACTERS_PER_APPLICATION: Final = 1_048_576

#: New requests and new applications in one message. They are decoded without interruption, at about 5 us each.
ITEMS_PER_MESSAGE: Final = 65_536

#: Longest text whose parsed value is cached. There are a few caches of 1,024 texts.
CACHED_CHARACTERS: Final = 4096

#: Counts of ended applications, by queue and state, that are kept for deleted queues. Further counts are added to the
#: parent queue, because the number of dynamic queues is not limited.
ENDED_COUNTS_OF_GONE_QUEUES: Final = 4096

#: Leaf queues with their own histograms of waiting times; times of further queues are added to the parent queue.
TIMED_QUEUES: Final = 500

#: Leaf queues whose oldest incomplete gang is a metric: those with the oldest gangs.
QUEUES_WITH_PENDING_GANGS: Final = 100

#: Estimated bytes of the ended applications that a partition keeps for REST. The oldest ones are dropped before their
#: time above this limit.
HISTORY_BYTES: Final = 64 * 2**20

#: Estimated bytes of the applications that a partition keeps as Completing after their resource manager removed them,
#: with their dynamic queues. Above this limit, the oldest ones are completed early.
REMOVED_BYTES: Final = 16 * 2**20

#: Estimated bytes of one ended application without texts of users (measured: 4 to 7 KiB with a gang of four members),
#: and of each of its task groups, state changes and resource amounts.
ENDED_APPLICATION_BYTES: Final = 7168
ENDED_APPLICATION_PART_BYTES: Final = 160

#: Applications of a partition that wait for the groups of their users. Further ones are rejected, so that an
#: unreachable directory does not exhaust the memory.
UNDECIDED_APPLICATIONS: Final = 10_000

#: Users whose groups one round looks up; the next round looks up the others.
GROUP_LOOKUPS_PER_ROUND: Final = 256

#: Labels of one namespace's pods that selectors read before all its labels are stored. Each new label costs a pass over
#: these pods.
SELECTOR_LABELS_PER_NAMESPACE: Final = 256

#: Expressions in all label selectors of one pod, and labels that they read, counted once per namespace that the
#: selector names. A pod with 65 KiB of selectors could have 1,500 expressions, or name 6,000 namespaces.
SELECTOR_EXPRESSIONS_PER_POD: Final = 256
SELECTOR_READS_PER_POD: Final = 1024

#: Different labels that the selectors of one namespace's pods read first, about 200 bytes each. Above this number, new
#: requests of this namespace are rejected. Other namespaces are not affected.
SELECTOR_LABELS_PER_READING_NAMESPACE: Final = 16_384

#: Labels that are stored although no selector reads them any more. Removing one costs a pass over the pods with it.
IDLE_SELECTOR_LABELS: Final = 64

#: Selector values that are kept after their requests have ended, in addition to those in use.
IDLE_SELECTOR_VALUES: Final = 1024

#: Node searches in one attempt, each for one class of requests and up to 1 ms on 5,000 nodes. The next cycle continues
#: with the other classes of the application, so that other queues get a part of each cycle.
LOOKS_PER_ATTEMPT: Final = 8

#: Failed attempts of applications that one change causes at most, and how many more per second, while applications wait
#: that a change may have made schedulable. An attempt takes 0.1 ms, of a large gang a few milliseconds.
ATTEMPTS_IN_VAIN: Final = 8
ATTEMPTS_IN_VAIN_PER_S: Final = 100

#: How many of them per second may be before the end of an application's back-off, so that nothing is delayed while few
#: applications wait.
EARLY_ATTEMPTS_PER_S: Final = 10

#: Blocking reasons that are evaluated per second, because a change may have removed them. One takes 0.05 ms.
LOOKS_PER_S: Final = 1_000

#: Back-off of an application after a failed attempt: the first one, the longest one, and the longest one after more
#: failed attempts in a row than `RETRY_OFTEN`.
RETRY_FIRST_NS: Final = 1_000_000_000
RETRY_MOST_NS: Final = 10_000_000_000
RETRY_MOST_OFTEN_NS: Final = 60_000_000_000
RETRY_OFTEN: Final = 10

#: A plan that other changes invalidated this many times is completed in one cycle, regardless of the time budget.
#: Otherwise it might never be completed.
MOST_RESTARTS: Final = 3

#: Delay before an application whose attempt raised an exception is tried again. It doubles with each failure, so that
#: an application that always fails costs little time.
FAILURE_BACKOFF_FIRST_NS: Final = 1_000_000_000

#: Longest such delay, so that an application that can be scheduled again does not wait longer.
FAILURE_BACKOFF_MOST_NS: Final = 300_000_000_000

#: How long after a loss the replacements that precede other applications may arrive, and the longest pause before the
#: next loss gives precedence again. The pause doubles, so that a gang whose members are deleted in a loop gets no
#: precedence most of the time.
REPAIR_NS: Final = 60_000_000_000
LONGEST_REPAIR_PAUSE_NS: Final = 3_600_000_000_000

#: Characters of an exception's text in an event. It may contain user input.
MESSAGE_CHARACTERS: Final = 256

#: Allocations that one event ranks for a queue above its lowered maximum, in all its leaves together, at about 50 us
#: each with their release. The next event continues.
ALLOCATIONS_PER_QUOTA_PREEMPTION: Final = 500

#: Allocations that one attempt of a victim search reads, on nodes that could hold the request, at about 1 us each. The
#: next attempt continues with the other nodes.
ALLOCATIONS_PER_PREEMPTION: Final = 4_000

#: Longest grace period of a victim that the request waits for, whatever its pod and the deletion of its pod say. A user
#: could otherwise stop preemption with one pod.
LONGEST_GRACE_NS: Final = 3_600_000_000_000

#: Failing attempts of victim searches of one leaf queue per preemption interval, at about 5 ms each. The next interval
#: continues.
PREEMPTION_SEARCHES_IN_VAIN: Final = 128

#: Requests and gangs without a node that one cycle admits for scale-up or refuses, at about 10 us each. The next cycle
#: continues.
DEMANDS_PER_CYCLE: Final = 256

#: Different amounts for which refused requests wait at one maximum. If its headroom grows, each amount is tried.
DEMAND_QUEUES: Final = 256

#: How long requests without a node withhold quota from other requests that also wait for nodes. Cluster Autoscaler and
#: Karpenter give up on a new node after 15 minutes.
NODE_DEMAND_NS: Final = 900_000_000_000

#: Reported texts that are out of date: time between two steps, between two texts for the same requests, and average
#: number of messages. Each message is a write to the API server at most, so nodes that come and go cost at most this
#: number of writes per second, however many pods wait.
REFRESH_STEP_NS: Final = 1_000_000_000
REFRESH_NS: Final = 5_000_000_000
REFRESHES_PER_S: Final = 20

#: Seconds without a completed iteration of the loop, while there is work, after which the liveness probe fails. One
#: iteration takes tens of milliseconds; a recovery of 150,000 pods consists of many.
LONGEST_STALL_S: Final = 30

#: Users of queues whose gangs wait before nodes are reserved for them again. The oldest pause is dropped first.
NODE_SET_PAUSES: Final = 1_000

#: Classes of present members of a task group that a gang is planned with exactly. Each takes one search of all nodes.
CLASSES_PER_GROUP: Final = 128
