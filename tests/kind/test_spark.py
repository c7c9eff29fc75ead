"""A real `spark-submit` in cluster mode: driver and executors are a gang, also with dynamic allocation."""

from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.manifests import is_placeholder
from tests.frameworks.gangs import app_of, group_of
from tests.kind.cluster import Kind
from tests.kind.gangs import reserved_first
from tests.kind.images import loaded
from tests.kind.namespace import Namespace
from tests.kind.pages import typed

GANG = {"spark-driver": 1, "spark-executor": 2}


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("webhook")
async def test_spark_submit_counts_primes_with_and_without_dynamic_allocation(
    kind: Kind, namespace: Namespace, tmp_path: Path
) -> None:
    async with loaded(kind, "spark") as image:
        await typed(namespace, "spark.md", {"spark:4.0.1": image}, tmp_path)

    pods = await reserved_first(namespace, app_with(namespace, "primes-driver"), GANG)
    assert Counter(map(group_of, pods)) == GANG

    pods = await reserved_first(namespace, app_with(namespace, "primes-dynamic-driver"), GANG)
    found = Counter(map(group_of, pods))
    assert found["spark-driver"] == 1
    assert found["spark-executor"] > GANG["spark-executor"], "Spark added executors"


def app_with(namespace: Namespace, driver: str) -> str:
    """The application of a driver, which Spark generates."""
    assert not is_placeholder(namespace.history[driver])
    return app_of(namespace.history[driver])
