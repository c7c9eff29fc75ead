"""Looking for places for members of several shapes at the same time, within bounds.

In reading order: `demand` is what is asked and answered, `work` how much may
be looked at, `order` who goes first. `fills` places all members of one shape,
`members` goes back over single places when no order of whole shapes helps.
plan/together.py calls them.
"""
