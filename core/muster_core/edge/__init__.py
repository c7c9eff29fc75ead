"""Where the core meets the outside: gRPC, REST, metrics, configuration, clock; one task here owns the world.

In: `scheduler` (the SchedulerAPI) decodes with `si_decode` (`fields`, `facts`, `pod_facts`,
`node_facts`, `cluster_facts` with `storage_facts`, `reports`, `namespace_quota`, `refusals`) and
puts `mailbox` mail for its `session`; `registration` checks what a resource manager says of itself,
`config` reads queues.yaml, `groups` finds out who a user belongs to. In the middle: `loop` owns the
world, with `deadlines`, `alarm`, `supervisor`, `freezer`, and `journal` (`plain`) where asked for.
Out: `outlet` encodes with `si_encode` and fills the store of `events`; `rest` shows the world,
`metrics`, and what `questions` bring, under a `log_level` it may change; `administration` answers
those who are no resource manager.
"""
