"""The chart values under test, and the resulting pods."""

from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

TLS = {"certManager": True}
CHOICES: dict[str, Json] = yaml.safe_load((Path(__file__).parents[1] / "cases" / "chart-values.yaml").read_text())


def pods(documents: list[Json]) -> list[Json]:
    """The specifications of all pods of the documents, including hooks."""
    rendered = [document for document in documents if document["kind"] in {"Deployment", "Job", "Pod"}]
    return [document["spec"].get("template", document)["spec"] for document in rendered]
