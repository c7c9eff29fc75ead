"""The steps of docs/operate/install.md: helm install with defaults, the first example, helm test."""

from __future__ import annotations

import time
from pathlib import Path

from devcluster.api import Json
from devcluster.waiting import until
from tests.e2e.manifests import is_placeholder
from tests.kind.cluster import Kind, said
from tests.kind.conftest import NOTES
from tests.kind.release import Release

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-gang"
OF_IT = "applicationId=example-01-gang"


async def test_the_first_example_runs_with_defaults(kind: Kind, release: Release) -> None:
    await release.ready()
    began = time.monotonic()
    await said("kubectl", "apply", "-f", EXAMPLE)

    async def runs() -> bool:
        pods = await of_the_example(kind)
        running = [pod for pod in pods if not is_placeholder(pod) and pod["status"].get("phase") == "Running"]
        return len(running) == len(pods) == 7

    try:
        await until("leader and workers run, and no placeholder is left", runs, 120, every_s=0.1)
        NOTES.append(f"kubectl apply of examples/01-gang to seven running pods: {time.monotonic() - began:.1f} s")
    except Exception as error:
        raise AssertionError(f"{error}\n{await said('kubectl', 'describe', 'pods', '-l', OF_IT)}") from error
    finally:
        await said("kubectl", "delete", "-f", EXAMPLE)

    async def is_gone() -> bool:
        return not await of_the_example(kind)

    await until("nothing of the example is left", is_gone, 60, every_s=0.2)


async def test_helm_test_runs_a_gang(release: Release) -> None:
    told = await release.test()
    assert told.count("Succeeded") == 4, "three for its rights and one for its pod"
    assert "Failed" not in told


async def of_the_example(kind: Kind) -> list[Json]:
    return await kind.api.find("pods", "default", labelSelector=OF_IT)
