"""Hostile manifests and configurations in `muster apply --dry-run=server`, `muster plan` and the tools of `muster mcp`.

Somebody else may have written the file: an agent, or the author of a chart. The command runs in a process of its own
against a core and an API server with few pods. It has to answer in one line within bounded time and memory.
"""

from pathlib import Path

import pytest

from tests.attacks import command_process
from tests.attacks.attack import sized
from tests.unit.cli.api_server import ApiServer
from tests.unit.cli.conftest import Served
from tests.unit.cli.test_agents import agent, problem
from tests.unit.cli.test_agents import served as served  # noqa: PLC0414  # a fixture
from tests.unit.cli.test_plan import cluster as cluster  # noqa: PLC0414  # a fixture

#: Address space of a command, and seconds.
MOST_BYTES, MOST_S = 4 * 2**30, 120
LEVELS = 100_000
#: Nine levels of nine aliases each: about 400 million values.
LAUGHS = "".join(
    f"l{level}: &l{level} [{','.join([f'*l{level - 1}'] * 9) or 'x'}]\n" for level in range(1, 10)
).replace("*l0", "x")
#: The same with keys that are merged.
MERGES = "m0: &m0 {k: v}\n" + "".join(
    f"m{level}: &m{level} {{<<: [{','.join([f'*m{level - 1}'] * 9)}], k{level}: v}}\n" for level in range(1, 10)
)
NESTED_JSON = '{"a":' * 900 + "1" + "}" * 900


def pod(spec: str = "", metadata: str = "") -> str:
    """A pod with more text in its metadata and spec."""
    labels = "labels: {applicationId: new, queue: root.b}"
    containers = "schedulerName: muster, containers: [{name: main}]"
    return f"kind: Pod\nmetadata: {{name: new, {labels}{metadata}}}\nspec: {{{containers}{spec}}}\n"


def json_pod(labels: str = "{}", affinity: str = "{}") -> str:
    """A pod as JSON."""
    metadata = f'"metadata":{{"name":"new","labels":{labels}}}'
    return f'{{"kind":"Pod",{metadata},"spec":{{"schedulerName":"muster","affinity":{affinity}}}}}'


TASK_GROUPS = f'[{{\\"name\\": \\"g\\", \\"minMember\\": 1{"0" * 300}}}]'
MANIFESTS = {
    "lists": "[" * LEVELS,
    "maps": "{a: " * LEVELS,
    "block maps": "\n".join(" " * level + "a:" for level in range(3_000)),
    "JSON": '{"a":' * LEVELS,
    "JSON constraints": json_pod(affinity=NESTED_JSON),
    "JSON labels": json_pod(labels=NESTED_JSON),
    "aliases in constraints": LAUGHS + pod(", affinity: *l9"),
    "aliases in annotations": LAUGHS + pod(metadata=", annotations: *l9"),
    "aliases of items": LAUGHS + "items: *l9\n",
    "merged keys": MERGES + pod(metadata=", annotations: *m9"),
    "an alias of itself": "&a {kind: Pod, metadata: {name: new}, spec: {affinity: *a}}",
    "a long text and aliases": f"t: &t {'x' * 2**20}\nitems: [{','.join(['*t'] * 100_000)}]",
    "documents": "---\n" * sized(2**16, 2**20),
    "replicas": "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1" + "0" * 5_000 + "}",
    "many controllers": "---\nkind: Job\nmetadata: {generateName: a}\nspec: {parallelism: 99999}\n" * 1_000,
    "members": pod(metadata=f', annotations: {{yunikorn.apache.org/task-groups: "{TASK_GROUPS}"}}'),
    "numbers": "kind: Job\nmetadata: {name: a}\nspec: {parallelism: .inf, completions: .nan}",
    "keys": pod(", nodeSelector: {1: 2, null: x, !!binary aGk=: y, 1.5: [z], .inf: {}}", ", annotations: {1: 2}"),
    "sets": pod(", affinity: !!set {a, b}, tolerations: !!binary aGk=, priority: !!float .nan"),
    "control characters": 'kind: "\\e[2J\\e]0;x\\a"\nmetadata: {name: a}',
}  # fmt: skip
CONFIGURATIONS = {
    "lists": "[" * LEVELS,
    "maps": "{a: " * LEVELS,
    "aliases": LAUGHS + "partitions: *l9\n",
    "merged keys": MERGES + "partitions: [{name: default, queues: [*m9]}]\n",
    "an alias of itself": "partitions: &a [*a]",
    "many queues": "partitions: [{name: default, queues: [" + "{}," * 500_001 + "]}]",
    "a long name": "partitions: [{name: default, queues: [{name: " + "a" * 2**21 + "}]}]",
}


def run(served: Served, file: Path, *arguments: str) -> None:
    """Run a command with the file. It answers, or refuses the file in one line that is safe to print."""
    line = [*arguments, str(file), "--server", served.url]
    code, output, error = command_process.run(line, file.parent, MOST_BYTES, MOST_S)
    assert code in {0, 1, 2}, (code, error[-2_000:])
    assert len(error.splitlines()) == (code == 2), error[-2_000:]
    assert len(error) < 2_000
    assert error.strip().isprintable()
    assert code != 2 or not output


@pytest.mark.parametrize("name", MANIFESTS)
def test_hostile_manifests_are_answered_or_refused(
    served: Served, cluster: ApiServer, tmp_path: Path, name: str
) -> None:
    """Depth, aliases, counts and control characters in the manifests of a dry run."""
    file = tmp_path / "hostile.yaml"
    file.write_text(MANIFESTS[name])
    run(served, file, "apply", "--dry-run=server", "-f")
    assert {method for method, _, _ in cluster.requests} <= {"GET"}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_hostile_configurations_are_answered_or_refused(
    served: Served, cluster: ApiServer, tmp_path: Path, name: str
) -> None:
    """The same in the configuration of a plan."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIGURATIONS[name])
    run(served, file, "plan")
    assert {method for method, _, _ in cluster.requests} <= {"GET"}


async def test_hostile_questions_of_an_agent_are_refused(served: Served, cluster: ApiServer) -> None:
    """Each text through the tools of `muster mcp`, which still answers the next question."""
    async with agent(served) as client:
        for text in (LAUGHS + pod(", affinity: *l9"), "\0" * 100):
            assert await problem(client, "dry_run", manifests=text)
            assert await problem(client, "plan", queues_yaml=text)
        assert await problem(client, "plan", queues_yaml="partitions: []", within_seconds=10**12)
        assert await problem(client, "dry_run", manifests="kind: Pod", namespace="a\0b")
        assert "no application or pod" in await problem(client, "explain", subject="--kubeconfig=/etc/passwd")
    assert {method for method, _, _ in cluster.requests} <= {"GET"}
