"""The core's questions: who is next, what fits, where; a plan reads the world and keeps its what-ifs aside.

In reading order: `placement` finds an application its queue (`rule_filter`: whom a rule is for;
`access`: who may submit), `impossible` says which gang it could never hold; `pace` says how much a
leaf may get before another is due; `headroom` says what queues and
limits still allow, `starting` whether one more application may run. `gang` plans a reservation
(`partial`: of a part; `takeover`: with what later gangs reserve), `swap` who takes over from which
placeholder, `usual` everything else; each answers with an `outline`; `judging` looks again at what
a resource manager was asked about. `reserving` says for whom room is held on nodes, `preemption/`
who has to go. Below them `draft` holds what-ifs over the nodes and, in its `assumptions`, over
volumes, `fit` places members of one shape, `together` those of several (`search/`), `packing` those
of a gang in few topology domains, `scoring` prefers nodes, and `feasibility/` refuses them.
`autoscaling` says what is outstanding for lack of nodes.
"""
