"""The user database of the machine, or container, that the scheduler runs in (`os`)."""

from __future__ import annotations

import grp
import os
import pwd

from muster_core.edge.groups.answers import Answer


def of_system(user: str) -> Answer:
    """The user's groups by name, the primary one first; groups without a name are left out."""
    try:
        entry = pwd.getpwnam(user)
        numbers = os.getgrouplist(user, entry.pw_gid)
    except (KeyError, ValueError):
        return Answer(problem=f"the operating system knows no user {user!r}")
    except OSError as error:
        return Answer(problem=f"the user database of the operating system: {error.strerror}", is_silent=True)
    names = (_name(number) for number in dict.fromkeys((entry.pw_gid, *numbers)))
    return Answer(tuple(name for name in names if name))


def _name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""
