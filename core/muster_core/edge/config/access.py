"""Access lists as queues.yaml writes them: `*`, or users, a blank, groups; commas within each.

A name that can be nobody's is told and left out, it grants nothing.
Source: contract 2.8.
"""

from __future__ import annotations

import re
from typing import Final

from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.model.access import EVERYBODY, NOBODY, Access
from muster_core.model.errors import ConfigurationError

_EVERYBODY: Final = "*"
_MOST_FIELDS: Final = 2
_USER: Final = re.compile(r"[a-zA-Z0-9_.@-]+[$]?")
_GROUP: Final = re.compile(r"[a-zA-Z0-9_-]+")


def access(text: str, path: str, notes: Notes) -> Access:
    """Who may; nobody for an empty list. Raises ConfigurationError."""
    fields = text.split()
    if len(fields) > _MOST_FIELDS:
        raise ConfigurationError(
            path, text, "has more than two parts", "write users, one blank, groups; commas within each"
        )
    if fields == [_EVERYBODY]:
        return EVERYBODY
    if not fields:
        return NOBODY
    if len(fields) == 1:
        fields = ["", *fields] if text[0].isspace() else [*fields, ""]
    users, groups = fields
    return Access(
        users=_names(users, _USER, below(path, "users"), notes),
        groups=_names(groups, _GROUP, below(path, "groups"), notes),
    )


def _names(text: str, form: re.Pattern[str], path: str, notes: Notes) -> frozenset[str]:
    found = set()
    for name in filter(None, text.split(",")):
        if form.fullmatch(name):
            found.add(name)
        elif name == _EVERYBODY:
            notes.odd(path, "'*' beside other names has no effect, write it alone for everybody")
        else:
            notes.odd(path, f"{name[:80]!r} is not a name that an access list can have, it is left out")
    return frozenset(found)
