"""The `muster` command, also installed as `kubectl-muster`: which commands there are, and where each is.

Exit codes: 0 success; 1 problem found, or object not found; 2 usage error; 3 core or cluster unreachable.
"""

from __future__ import annotations

import errno
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

from muster.later import Entry, listed

INSPECT: Final = "Inspect"
DIAGNOSE: Final = "Diagnose"
RUN: Final = "Run"

COMMANDS: Final = (
    Entry("status", "muster.status:command", "Show scheduler health and cluster utilization.", INSPECT),
    Entry("queues", "muster.queues:command", "List queues with usage and pending resources.", INSPECT),
    Entry("apps", "muster.apps:command", "List applications.", INSPECT),
    Entry("app", "muster.application:command", "Show one application: states, task groups, pods.", INSPECT),
    Entry("nodes", "muster.nodes:command", "List nodes with allocations.", INSPECT),
    Entry("explain", "muster.explain:command", "Explain why an application or pod is pending.", INSPECT),
    Entry(
        "version", "muster.version:command", "Print the versions of this command, the core and the operator.", INSPECT
    ),
    Entry("doctor", "muster.doctor:command", "Diagnose the installation and misconfigured pods.", DIAGNOSE),
    Entry("validate", "muster.validate:command", "Validate a queue configuration.", DIAGNOSE),
    Entry("config", "muster.config:app", "Show effective settings.", DIAGNOSE),
    Entry("smoke-test", "muster.smoke_test:command", "Run a test gang and report the result.", DIAGNOSE),
    Entry("placeholders", "muster.placeholders:command", "List or delete placeholders not signed by Muster.", DIAGNOSE),
    Entry("uninstall", "muster.uninstall:command", "Remove resources left behind by Muster.", DIAGNOSE),
    Entry("run", "muster.serving:command", "Run core and operator in one process.", RUN),
    Entry("core", "muster_core.main:main", "Run the scheduler core.", RUN),
    Entry("operator", "muster_operator.main:main", "Run the operator.", RUN),
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
            typer.echo("muster: aborted", err=True)
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
    epilog="Exit codes: 0 success, 1 problem found or object not found, 2 usage error, 3 core or cluster unreachable.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def muster() -> None:
    """A gang scheduler for Kubernetes."""
