"""The `muster` command, the only package that may import both operator and core (`muster run`).

In reading order: `main` lists the commands and imports each when it is used, `options` has the options that commands
share, `output` the formats, `errors` the exit codes. `get` reads the core with `find` for names, the
tables of `printers` and the explanations of `pending`. `doctor` reads the cluster for `checks` and `permissions`.
`config` is `muster validate` and `muster config`. `placeholders`, `smoke_test`, `uninstall` and `run` are one command
each. `clients` connect to core and cluster.
"""
