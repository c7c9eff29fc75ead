"""The core does not load at start what only some installations use."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import muster_core.main
from muster_core.rest.schemas import Build
slow = {"ldap3", "pyasn1", "kopf", "kubernetes", "requests", "muster_operator"}
assert not (slow & {name.partition(".")[0] for name in sys.modules}), slow & sys.modules.keys()
assert not Build.__pydantic_complete__, "a class of REST is built before its first use"
from muster_core.runtime.user_groups import LdapDirectory
assert "settings" in LdapDirectory()("ann").problem
assert "ldap3" in sys.modules
"""

SLOW = """
import asyncio, sys, time
from pathlib import Path
from muster_core.model.config import GroupResolver
from muster_core.runtime.user_groups import Groups, LdapDirectory

class SlowImport:
    def find_spec(self, name, path=None, target=None):
        if name == "ldap3":
            time.sleep(2)

sys.meta_path.insert(0, SlowImport())
groups = Groups({GroupResolver.LDAP: LdapDirectory(Path("/gone"))}, timeout_s=1)
[answer] = asyncio.run(groups.look_up(GroupResolver.LDAP, ["ann"])).values()
assert "settings" in answer.problem, answer
"""


def test_ldap_and_the_classes_of_rest_are_loaded_at_their_first_use() -> None:
    run(PROGRAM)


def test_the_time_to_load_ldap_does_not_count_in_the_timeout_of_the_first_lookup() -> None:
    run(SLOW)


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
