"""The core's ledgers: queues, applications, nodes, users; they add and remove and keep sums, and hold no policy.

In reading order: `world` holds everything, by resource manager and partition; `queues` the tree,
`applications` asks and allocations, `classes` what asks have in common, `gangs` what a gang has
reserved, `users` who uses how much, `sums` what is added to often. `nodes` is the table of nodes over
`columns` (amounts, one row a node), `labels` (which rows have which label, taint or feature), `images`
and `attributes` (the same of what placement constraints name). `occupants` says who is where: `tags`
(allocations by their tags), `terms` (what these want of others) and `attachments` (volumes in use),
over `storage` (what is told of volumes and claims, and assumed of them) and its `pools` of free ones.
`priorities` keeps what queues show to those above (`tally`). `ordering` says which queue and application come first,
`scheduling_queue` keeps that order, and which application waits for what: for one of the `obstacles`, for a class in
`misfits` that no node has room for, for `gains` of nodes.
`reservations` has what is held on nodes, `preemptions` what is on its way.
"""
