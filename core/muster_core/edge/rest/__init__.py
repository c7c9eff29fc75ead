"""The scheduler as people and their tools see it over HTTP (contract 4).

Read `routes` first, the table of all that can be asked; `server` makes an
application of it, `openapi` its description. A request passes `access` (may
it?), is read by `asked`, answered by `endpoints` with `views` of the world in
`shapes`, and written by `answers`; a no is a failure of `failures`. `desk` has
what is kept between requests: `history` and the findings of `health`, made in
the `background`.
"""
