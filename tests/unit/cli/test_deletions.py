"""Commands that delete show the cluster and the objects, and ask; without a terminal they need --yes."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.api_server import ApiServer, Json, api_server
from tests.unit.cli.conftest import run
from tests.unit.cli.test_find_core import a_lease, name_lease

SECRET = {"kind": "Secret", "metadata": {"namespace": "muster", "name": "muster-signing", "uid": "s"}}
ENDED = (name_lease("muster", ""), a_lease("muster", "muster", ""))


def a_placeholder(name: str, scheduler: str = "muster") -> Json:
    """A pod with the placeholder annotation of Muster or YuniKorn, without a signature."""
    annotations = {"yunikorn.apache.org/placeholder": "true"}
    metadata = {"namespace": "team-a", "name": name, "uid": f"{name}-uid", "annotations": annotations}
    return {"kind": "Pod", "metadata": metadata, "spec": {"schedulerName": scheduler}, "status": {"phase": "Running"}}


def typed(api: ApiServer, folder: Path, answer: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command on a terminal on which `answer` is typed."""
    main, terminal = pty.openpty()
    line = [sys.executable, "-m", "muster", *arguments, "--kubeconfig", api.kubeconfig(folder)]
    process = subprocess.Popen(line, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    os.close(terminal)
    os.write(main, f"{answer}\n".encode())
    text, _ = process.communicate(timeout=60)
    os.close(main)
    return process.returncode, text


DELETE = ("placeholders", "-A", "--delete", "--scheduler-names", "muster")
UNINSTALL = ("uninstall", "--scheduler-names", "muster", "--seconds", "0")


@pytest.mark.parametrize("command", [DELETE, UNINSTALL, (*UNINSTALL, "--only-registrations")])
def test_without_a_terminal_and_without_yes_nothing_is_deleted(tmp_path: Path, command: tuple[str, ...]) -> None:
    with api_server(*ENDED, a_placeholder("tg-1")) as api:
        result = run(*command, "--kubeconfig", api.kubeconfig(tmp_path))
        assert (result.exit_code, api.deleted()) == (2, [])
        assert "without a terminal there is no question; add --yes to delete" in result.stderr
        assert result.stderr.startswith(f"context prod-eu, server {api.url}\n")


@pytest.mark.parametrize("command", [DELETE, UNINSTALL])
def test_a_dry_run_lists_the_objects_and_deletes_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    with api_server(*ENDED, a_placeholder("tg-1")) as api:
        result = run(*command, "--dry-run", "--yes", "--kubeconfig", api.kubeconfig(tmp_path))
        assert (result.exit_code, api.deleted()) == (0, [])
        expected = "pod team-a/tg-1" if command is DELETE else "lease/muster -n muster"
        assert f"would delete: {expected}\n" in result.stderr


def test_the_question_names_the_cluster_and_the_objects_and_no_deletes_nothing(tmp_path: Path) -> None:
    with api_server(*ENDED, a_placeholder("tg-1")) as api:
        code, text = typed(api, tmp_path, "n", *DELETE)
        assert (code, api.deleted()) == (1, [])
        assert f"context prod-eu, server {api.url}" in text
        assert "to delete: pod team-a/tg-1" in text
        assert "Delete 1 objects? [y/N]" in text
        code, text = typed(api, tmp_path, "y", *DELETE)
        assert (code, api.deleted()) == (0, ["/api/v1/namespaces/team-a/pods/tg-1"]), text


def test_yes_deletes_without_a_question(tmp_path: Path) -> None:
    with api_server(*ENDED, a_placeholder("tg-1")) as api:
        assert run(*DELETE, "--yes", "--kubeconfig", api.kubeconfig(tmp_path)).exit_code == 0
        assert api.deleted() == ["/api/v1/namespaces/team-a/pods/tg-1"]


@pytest.mark.parametrize(
    "holder_of_yunikorn, ago_s, is_deleted",
    [("muster/muster", 1, True), ("muster/muster", 99, False), ("", 1, False)],
)
def test_placeholders_of_a_running_yunikorn_are_not_deleted_without_its_name(
    tmp_path: Path, holder_of_yunikorn: str, ago_s: float, *, is_deleted: bool
) -> None:
    leases = (name_lease("muster", "muster/muster"), name_lease("yunikorn", holder_of_yunikorn, ago_s=ago_s))
    with api_server(*leases, a_placeholder("old"), a_placeholder("tg-1", "yunikorn")) as api:
        files = ("--yes", "--kubeconfig", api.kubeconfig(tmp_path))
        result = run("placeholders", "-A", "--delete", *files)
        pods = [path.rsplit("/", 1)[1] for path in api.deleted()]
        assert (result.exit_code, pods) == (0, ["old", "tg-1"] if is_deleted else ["old"])
        kept = "kept: 1 pods with scheduler name yunikorn, which no running Muster serves"
        assert (kept in result.stderr) is not is_deleted
        run("placeholders", "-A", "--delete", "--scheduler-names", "yunikorn", *files)
        assert "tg-1" in {path.rsplit("/", 1)[1] for path in api.deleted()}, "named explicitly"


@pytest.mark.parametrize(
    "lease",
    [a_lease("muster", "muster", "pod_uid"), name_lease("muster", "muster/muster")],
    ids=["leader", "scheduler name"],
)
def test_an_uninstall_refuses_while_a_lease_is_held(tmp_path: Path, lease: Json) -> None:
    with api_server(lease, SECRET) as api:
        result = run(*UNINSTALL, "--yes", "--kubeconfig", api.kubeconfig(tmp_path))
        assert (result.exit_code, api.deleted()) == (1, [])
        holder = lease["spec"]["holderIdentity"]
        running = f"the holder {holder} of the Lease {lease['metadata']['name']}"
        assert f"{running} still running" in result.stderr
        result = run(*UNINSTALL, "--dry-run", "--kubeconfig", api.kubeconfig(tmp_path))
        assert f"wait until these end, and refuse otherwise: {running}" in result.stderr
        result = run("uninstall", "--namespace", "none", "--dry-run", "--kubeconfig", api.kubeconfig(tmp_path))
        assert "nothing of Muster was found; check --namespace none" in result.stderr
    with api_server(*ENDED, SECRET, name_lease("yunikorn", "batch/muster")) as api:
        names = ("--scheduler-names", "muster,yunikorn", "--seconds", "0", "--yes")
        result = run("uninstall", *names, "--kubeconfig", api.kubeconfig(tmp_path))
        assert result.exit_code == 0, result.output
        deleted = [path.rsplit("/", 1)[1] for path in api.deleted()]
        assert deleted == ["muster", "muster-scheduler-muster", "muster-signing"]
