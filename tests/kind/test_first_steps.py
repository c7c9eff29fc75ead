"""The steps of docs/operate/install.md: helm install with defaults, the first example, helm test."""

import time
from pathlib import Path

from devcluster.api import Json
from devcluster.waiting import until
from tests.e2e.manifests import is_placeholder
from tests.kind.cluster import Kind, output_of
from tests.kind.conftest import MEASUREMENTS
from tests.kind.release import Release

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-gang"
SELECTOR = "applicationId=example-01-gang"


async def test_the_first_example_runs_with_defaults(kind: Kind, release: Release) -> None:
    await release.ready()
    began = time.monotonic()
    await output_of("kubectl", "apply", "-f", EXAMPLE)

    async def runs() -> bool:
        pods = await example_pods(kind)
        running = [pod for pod in pods if not is_placeholder(pod) and pod["status"].get("phase") == "Running"]
        return len(running) == len(pods) == 7

    try:
        await until("leader and workers run, and no placeholder is left", runs, 120, every_s=0.1)
        MEASUREMENTS.append(
            f"kubectl apply of examples/01-gang to seven running pods: {time.monotonic() - began:.1f} s"
        )
    except Exception as error:
        raise AssertionError(f"{error}\n{await output_of('kubectl', 'describe', 'pods', '-l', SELECTOR)}") from error
    finally:
        await output_of("kubectl", "delete", "-f", EXAMPLE)

    async def is_gone() -> bool:
        return not await example_pods(kind)

    await until("all pods of the example are deleted", is_gone, 60, every_s=0.2)


async def test_helm_test_runs_a_gang(release: Release) -> None:
    output = await release.test()
    assert output.count("Succeeded") == 4, "three for its permissions and one for its pod"
    assert "Failed" not in output


async def example_pods(kind: Kind) -> list[Json]:
    return await kind.api.find("pods", "default", labelSelector=SELECTOR)
