"""The `muster` command, also installed as `kubectl-muster`: the list of commands.

A command is imported when it is used, because operator and core take most of a second to load.

Exit codes: 0 success; 1 problem found, or object not found; 2 usage error; 3 core or cluster unreachable.
"""

from __future__ import annotations

import errno
import inspect
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import version as installed_version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from muster.command_line import CONNECTION_HELP, FastCommand, FastGroup
from muster.text import print_line, program

DISTRIBUTION: Final = "muster-scheduler"
INSPECT: Final = "Inspect"
DIAGNOSE: Final = "Diagnose"
RUN: Final = "Run"


@dataclass(frozen=True)
class Entry:
    """One command. `source`: `module:name` of its function, or of a Typer with subcommands. `panel`: its heading."""

    name: str
    source: str
    about: str
    panel: str

    @property
    def examples(self) -> tuple[str, ...]:
        """Command lines to copy: `EXAMPLES` of its module, one tuple per module or per command."""
        found = getattr(self._module, "EXAMPLES", ())
        examples: tuple[str, ...] = found.get(self.name, ()) if isinstance(found, dict) else found
        return examples

    @property
    def help(self) -> str:
        """The docstring of the command, with examples."""
        text = inspect.getdoc(self._target) if not isinstance(self._target, typer.Typer) else self.about
        lines = "\n".join(f"  {line.replace('muster', program(), 1)}" for line in self.examples)
        return f"{text}\n\n\b\nExamples:\n{lines}" if lines else text or self.about

    @cached_property
    def command(self) -> Any:
        """The command itself."""
        if isinstance(self._target, typer.Typer):
            command = typer.main.get_command(self._target)
            command.help = self.help
            return command
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        single.command(self.name, cls=FastCommand, help=self.help)(self._target)
        return typer.main.get_command(single)

    @cached_property
    def _module(self) -> Any:
        return import_module(self.source.partition(":")[0])

    @cached_property
    def _target(self) -> Any:
        return getattr(self._module, self.source.partition(":")[2])


COMMANDS: Final = (
    Entry("status", "muster.get:status", "Show scheduler health and cluster utilization.", INSPECT),
    Entry("queues", "muster.get:queues", "List queues with usage and pending resources.", INSPECT),
    Entry("apps", "muster.get:apps", "List applications.", INSPECT),
    Entry("app", "muster.get:app", "Show one application: states, task groups, pods.", INSPECT),
    Entry("nodes", "muster.get:nodes", "List nodes with allocations.", INSPECT),
    Entry("explain", "muster.get:explain", "Explain why an application or pod is pending.", INSPECT),
    Entry("version", "muster.get:version", "Print the versions of this command, the core and the operator.", INSPECT),
    Entry(CONNECTION_HELP, "muster.options:command", "List the options of the connection to the core.", INSPECT),
    Entry("doctor", "muster.doctor:command", "Diagnose the installation and misconfigured pods.", DIAGNOSE),
    Entry("validate", "muster.config:validate", "Validate a queue configuration.", DIAGNOSE),
    Entry("config", "muster.config:app", "Show effective settings.", DIAGNOSE),
    Entry("simulate", "muster.simulate:command", "Simulate a workload in virtual time, without a cluster.", DIAGNOSE),
    Entry("apply", "muster.dry_run:command", "Show what would happen to manifests (--dry-run=server).", DIAGNOSE),
    Entry("plan", "muster.plan:command", "Show what an edited queue configuration would change.", DIAGNOSE),
    Entry("mcp", "muster.agents:command", "Answer questions of agents (Model Context Protocol).", DIAGNOSE),
    Entry("smoke-test", "muster.smoke_test:command", "Run a test gang and report the result.", DIAGNOSE),
    Entry("placeholders", "muster.placeholders:command", "List or delete placeholders not signed by Muster.", DIAGNOSE),
    Entry("uninstall", "muster.uninstall:command", "Remove resources left behind by Muster.", DIAGNOSE),
    Entry("run", "muster.run:command", "Run core and operator in one process.", RUN),
    Entry("core", "muster_core.main:main", "Run the scheduler core.", RUN),
    Entry("operator", "muster_operator.main:main", "Run the operator.", RUN),
)


class LazyCommand(TyperCommand):
    """A command in the list of commands, replaced by the real one when it is used."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, help=entry.about, rich_help_panel=entry.panel)
        self._entry = entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the real command."""
        return self._entry.command.make_context(info_name, args, parent, **extra)


#: What typer raises for an invalid command line; only its subclasses are public.
_UsageError: Any = typer.BadParameter.__bases__[0]

#: Errors of writing to standard output that are not bugs.
_WRITE_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


class Commands(FastGroup):
    """The group of all commands. An invalid command line is reported in one line."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": {entry.name: LazyCommand(entry) for entry in COMMANDS}})

    def main(self, *args: Any, **options: Any) -> Any:
        """Run one command and exit with its code, unless another program calls it (`standalone_mode`)."""
        if not options.get("standalone_mode", True):
            return super().main(*args, **options)
        try:
            name = options.get("prog_name") or program()
            code = super().main(*args, **options | {"standalone_mode": False, "prog_name": name})
        except _UsageError as error:
            sys.exit(_report(error))
        except typer.Abort:
            print_line("muster: aborted", err=True)
            sys.exit(1)
        except OSError as error:
            if error.errno not in _WRITE_ERRORS:
                raise
            print_line(f"muster: cannot write the output: {error.strerror}", err=True)
            sys.exit(1)
        sys.exit(code)


def _report(error: Any) -> int:
    """Print the usage error in one line, or the help of a group without a subcommand."""
    message = " ".join(error.format_message().split())
    message = re.sub(r" \(Possible options: (.*)\)", r". Did you mean \1?", message)
    path = error.ctx.command_path if error.ctx is not None else program()
    if message.startswith("Usage:"):
        print_line(error.format_message())
    elif message:
        print_line(f"{path}: {message.rstrip('.?')}; see {path} --help", err=True)
    code: int = error.exit_code
    return code


app = typer.Typer(
    cls=Commands,
    help="A gang scheduler for Kubernetes.",
    epilog="Exit codes: 0 success, 1 problem found or object not found, 2 usage error, 3 core or cluster unreachable.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  # the signature of a callback
    if wanted:
        print_line(f"muster {installed_version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def muster(
    *,
    version: Annotated[  # the callback prints it
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """A gang scheduler for Kubernetes."""
