"""People's configuration, from text to values: strict, whole or refused, every refusal with path, value, rule and fix.

Read `load` first, the only entrance. `document` makes plain data of YAML text,
`schema` checks its form, `translate` makes the model's values with `queues`,
`rules` and `limits`; `quantities` and `timing` read amounts and spans of time.
"""
