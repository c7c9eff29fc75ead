"""The `muster` command, also installed as `kubectl-muster`: which commands there are, and where each is.

Exit codes: 0 fine; 1 a problem was found, or there is no such thing; 2 it was called wrongly; 3 core or cluster
cannot be reached.
"""

from __future__ import annotations

import errno
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

from muster.later import Entry, listed

LOOK: Final = "Look"
CHECK: Final = "Check"
SERVE: Final = "Serve"

COMMANDS: Final = (
    Entry("status", "muster.status:command", "Muster on one page: is it well, how full is the cluster.", LOOK),
    Entry("queues", "muster.queues:command", "Queues: what is used of each, what waits.", LOOK),
    Entry("apps", "muster.apps:command", "Applications: what each has, how much of it waits.", LOOK),
    Entry("app", "muster.application:command", "One application: phases, gang, members.", LOOK),
    Entry("nodes", "muster.nodes:command", "Nodes: how full each is.", LOOK),
    Entry("explain", "muster.explain:command", "Why an application or a pod waits, and who comes first.", LOOK),
    Entry("version", "muster.version:command", "Versions of this command, the core and the operator.", LOOK),
    Entry("doctor", "muster.doctor:command", "Look for what keeps Muster, or pods meant for it, from working.", CHECK),
    Entry("validate", "muster.validate:command", "Check a queue configuration before it is put in force.", CHECK),
    Entry("config", "muster.config:app", "Settings: what is in force, and what there is.", CHECK),
    Entry("trial", "muster.trial:command", "Run a small gang and say whether it got its places.", CHECK),
    Entry("placeholders", "muster.placeholders:command", "List or delete placeholders not signed by Muster.", CHECK),
    Entry("run", "muster.serving:command", "Run core and operator in one process.", SERVE),
    Entry("core", "muster_core.main:main", "Run the scheduler core as a process of its own.", SERVE),
    Entry("operator", "muster_operator.main:main", "Run the operator as a process of its own.", SERVE),
    Entry("uninstall", "muster.uninstall:command", "Take away what Muster made while it ran.", SERVE),
)

#: What typer raises for a command line that it does not understand; it gives the name of none but its children.
_Misunderstood: Any = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """The group of all commands; none is loaded before it is used. What is wrong with a command line is one line."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": listed(COMMANDS)})

    def main(self, *args: Any, **options: Any) -> Any:
        """Run one command and exit with its code, unless another program calls it (`standalone_mode`)."""
        if not options.get("standalone_mode", True):
            return super().main(*args, **options)
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except _Misunderstood as error:
            sys.exit(_told(error))
        except typer.Abort:
            typer.echo("muster: not done", err=True)
            sys.exit(1)
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise
            typer.echo(f"muster: the output cannot be written: {error.strerror}", err=True)
            sys.exit(1)
        sys.exit(code)


#: What standard output says where nobody can take more.
_UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


def _told(error: Any) -> int:
    """Say in one line what is wrong and where help is; a group of commands without one has printed its help already."""
    said = " ".join(error.format_message().split())
    path = error.ctx.command_path if error.ctx is not None else "muster"
    if said:
        typer.echo(f"{path}: {said.rstrip('.?')}; see {path} --help", err=True)
    code: int = error.exit_code
    return code


app = typer.Typer(
    cls=Commands,
    help="A gang scheduler for Kubernetes.",
    epilog="Ends with 0 = fine, 1 = a problem was found or there is no such thing, 2 = called wrongly, "
    "3 = core or cluster cannot be reached.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def muster() -> None:
    """A gang scheduler for Kubernetes."""
