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


def test_ldap_and_the_classes_of_rest_are_loaded_at_their_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
