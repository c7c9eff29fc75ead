"""People's configuration, from text to values: strict, whole or refused, every refusal with path, value, rule and fix.

Read `load` first, the only entrance (`verdict` is for those who only ask).
`document` makes plain data of YAML text, `schema` checks its form, `translate`
makes the model's values: the tree in `queues` with `promises`, `properties`,
`access`, `limits` and `templates`, the placement rules in `rules` with
`filters`. `quantities` and `timing` read amounts and spans of time, `settings`
what the edge itself is told; `notes` collects what is found on the way.
"""
