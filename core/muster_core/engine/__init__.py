"""The only writer: takes an event or a decision, changes the world once, and returns what has to be said.

In reading order: `step` is the door for events and takes each to `registration`, `applications`,
`asks`, `allocations` (and `revising`, where one is told anew), `nodes`, `clocks` or
`configuration`, what is told of other objects to `cluster`; what is new for a partition that is
`gone` is refused. `queues` makes, changes and ends queues, `history` keeps applications that are
over. `growth` says who may go on when something grew; `cycle` gives leaves their `turn`, which asks
plan/ about those and hands its decisions to `commit`. `affinity` begins to count what an ask's
constraint reads, `utilization` keeps reports, `recommendations` says what might be done about a
node. What becomes of a reservation is in `gangs`, of an application in `lifecycle`, the places of a
gang without pods are in `podless`; `taking_back` knows who has to be told when something goes;
`reservations` holds room on nodes, `contention` keeps which gangs want the same, `takeovers` gives
one what later ones hold, `preemption` and `quota` send `victims` away. `notes` says it
all to those who watch, and `steps` names what a cycle does to whoever times it. All of them write
through `ledger` and `holds`, which keep application, queue, user and node in line; `invariants`
counts anew and says what is not.
"""
