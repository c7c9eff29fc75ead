"""``python -m devcluster``: a local Kubernetes control plane with fake nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from devcluster import binaries, kept, programs, signals
from devcluster.build import install
from devcluster.cluster import running
from devcluster.errors import DevclusterError
from devcluster.nodes import FakeNode

app = typer.Typer(
    help="A local Kubernetes control plane with fake nodes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
console = Console()


@app.command()
def up(
    nodes: Annotated[int, typer.Option(help="number of fake nodes with 8 CPU and 32 GiB")] = 8,
) -> None:
    """Start a cluster in the background and print its KUBECONFIG."""
    old = kept.load()
    if old is not None and old.alive():
        console.print(f"a cluster of this clone is already running:\nexport KUBECONFIG={old.kubeconfig}")
        return
    try:
        kubeconfig = signals.run(_up(nodes))
    except DevclusterError as error:
        _fail(error)
    console.print(f"export KUBECONFIG={kubeconfig}", soft_wrap=True)


@app.command()
def down() -> None:
    """Stop this clone's cluster of `up` or KEEP=1 and delete its data."""
    old = kept.load()
    if old is None:
        console.print("no cluster of this clone is running")
        return
    count = len(old.alive())
    kept.stop(old)
    console.print(f"stopped {count} processes")


@app.command()
def status() -> None:
    """Print the processes of this clone's cluster; exit code 1 if none runs."""
    old = kept.load()
    alive = {process.pid for process in old.alive()} if old else set()
    if old is None or not alive:
        console.print("no cluster of this clone is running")
        raise typer.Exit(1)
    for process in old.processes:
        console.print(f"{process.name:26} {process.pid if process.pid in alive else 'ended'}")
    console.print(f"export KUBECONFIG={old.kubeconfig}", soft_wrap=True)


@app.command()
def build(
    *,
    everything: Annotated[bool, typer.Option("--all", help="also kube-scheduler and kubectl")] = False,
    frameworks: Annotated[bool, typer.Option("--frameworks", help="also the controllers of the frameworks")] = False,
) -> None:
    """Build or find the programs of the tests and print their paths."""
    try:
        wanted = programs.ALL if everything else programs.TESTED_WITH
        found = binaries.ensure((*wanted, *(programs.FRAMEWORKS if frameworks else ())), console, exact=True)
        if frameworks:
            found |= {one.name: install(one, console) for one in programs.PYTHON_FRAMEWORKS}
    except DevclusterError as error:
        _fail(error)
    for name, path in found.items():
        console.print(f"{name:26} {path}", soft_wrap=True)


async def _up(nodes: int) -> Path:
    async with running([FakeNode(f"node-{i}") for i in range(nodes)], keep=True) as cluster:
        kubeconfig = await cluster.admin_kubeconfig()
        kept.save(cluster.folder, kubeconfig, cluster.processes())
    return kubeconfig


def _fail(error: DevclusterError) -> NoReturn:
    console.print(str(error), style="red", markup=False, highlight=False)
    raise typer.Exit(1)
