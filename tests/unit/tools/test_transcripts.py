"""How transcripts in documents are read, compared and written."""

import pytest

from tools.transcripts import Step, difference, rewritten, steps

PODS = """\
NAME                  READY   STATUS    RESTARTS   AGE
gang-leader-x2bcd     1/1     Running   0          7s
gang-workers-h9qzk    1/1     Running   0          7s
"""


DOCUMENT = """\
Type this:

```console
$ kubectl get pods   # all of them
NAME   READY
$ kubectl apply \\
    -f gang.yaml
```

```yaml
$ no: command
```

1. In a list:

    ```console
    $ KEEP=1 make demo
    $ kubectl apply -f wrong.yaml
    Error from server (Forbidden): no
    ```
"""


def test_commands_and_output_are_read_from_console_blocks_only() -> None:
    looks, applies, makes, refused = steps(DOCUMENT)
    assert (looks.command, looks.shown, looks.looks) == ("kubectl get pods   # all of them", ("NAME   READY",), True)
    assert (applies.command.split(), applies.shown, applies.looks) == (
        ["kubectl", "apply", "-f", "gang.yaml"],
        (),
        False,
    )
    assert (makes.program, makes.is_typed) == ("make", False)
    assert (refused.fails, refused.is_typed) == (True, True)
    assert refused.shown == ("Error from server (Forbidden): no",)


def test_commands_that_watch_or_need_a_real_container_are_not_run() -> None:
    endless = ("kubectl get pods -w", "kubectl get pods --watch", "kubectl logs driver", "muster queues --watch")
    assert not [command for command in endless if Step(command, (), (0, 0)).is_typed]
    assert [command for command in endless if Step(command, (), (0, 0)).reads_logs] == ["kubectl logs driver"]


def test_generated_names_nodes_ages_and_line_order_are_ignored() -> None:
    again = PODS.replace("x2bcd", "zzzzz").replace("7s", "2m3s").replace("Running   0", "Running     0")
    assert difference(PODS.splitlines(), reversed(again.splitlines())) == ""
    assert difference(["tg-gang-leader-0a1b2c3d4e on node-1"], ["tg-gang-leader-zyxwvut987 on node-7"]) == ""
    assert difference(["count-3e2f5a9a9d0c4b1e-exec-1"], ["count-0031efa209743b1c-exec-1"]) == ""
    assert difference(["web-7c5ddbdf54-x2bcd 500m"], ["web-6d8f9b4c77-zzzzz 500m"]) == ""


@pytest.mark.parametrize("changed", ["Pending", "Running   1", "gang-leader"])
def test_a_different_state_count_or_number_of_lines_is_a_difference(changed: str) -> None:
    again = {
        "Pending": PODS.replace("Running", "Pending", 1),
        "Running   1": PODS.replace("Running   0", "Running   1", 1),
        "gang-leader": PODS.replace("gang-workers", "gang-leader"),
    }[changed]
    found = difference(PODS.splitlines(), again.splitlines())
    assert "documented, not printed" in found
    assert changed.split(maxsplit=1)[0] in found
    assert difference(PODS.splitlines(), PODS.splitlines()[:2])


def test_three_dots_match_omitted_lines() -> None:
    assert difference(["NAME READY", "..."], ["NAME READY", "one 1", "two 2"]) == ""
    assert difference(["NAME READY", "..."], ["one 1"]) == "documented, not printed: NAME READY"


def test_output_is_written_only_below_its_command() -> None:
    first, *_ = steps(DOCUMENT)
    written = rewritten(DOCUMENT, {first: ["NAME   READY", "one    1/1  "]})
    assert written == DOCUMENT.replace("NAME   READY\n", "NAME   READY\none    1/1\n")
    assert steps(written)[0].shown == ("NAME   READY", "one    1/1")
    assert (
        rewritten("```console\n$ kubectl get pods\n```\n", {Step("kubectl get pods", (), (2, 2)): ["one"]}).count("one")
        == 0
    )


def test_a_program_path_in_a_clone_counts_as_its_name() -> None:
    assert Step(".venv/bin/muster doctor", (), (0, 0)).is_typed
    assert not Step(".venv/bin/pytest tests/unit", (), (0, 0)).is_typed
