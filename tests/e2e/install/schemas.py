"""The JSON schemas for kubeconform, generated from the OpenAPI document of the API server."""

import json
from pathlib import Path

from devcluster.api import Api, Json

_EITHER = {"oneOf": [{"type": "string"}, {"type": "number"}]}
LOOSE = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _EITHER,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _EITHER,
}
"""Types that are a text or a number. OpenAPI 2 has only one of them."""
KINDS = "x-kubernetes-group-version-kind"
LOCATION = "{{.ResourceKind}}{{.KindSuffix}}.json"


async def write(api: Api, folder: Path) -> str:
    """Write all schemas and return the value for ``-schema-location``."""
    definitions: dict[str, Json] = (await api.request("GET", "/openapi/v2"))["definitions"]
    for name, definition in definitions.items():
        for kind in definition.get(KINDS, []):
            group = kind["group"].split(".")[0]
            parts = [kind["kind"].lower(), *filter(None, [group]), kind["version"]]
            if "metadata" in definition.get("properties", {}):
                (folder / f"{'-'.join(parts)}.json").write_text(json.dumps(_resolved(definitions, name, ())))
    return str(folder / LOCATION)


def _resolved(definitions: dict[str, Json], name: str, above: tuple[str, ...]) -> Json:
    """Resolve the references of a definition. A recursive reference allows any value."""
    if name in LOOSE:
        return LOOSE[name]
    return {} if name in above else _closed(definitions, definitions[name], (*above, name))


def _closed(definitions: dict[str, Json], schema: Json, above: tuple[str, ...]) -> Json:
    if "$ref" in schema:
        return _resolved(definitions, schema["$ref"].removeprefix("#/definitions/"), above)
    closed: Json = {key: schema[key] for key in ("type", "required", "enum") if key in schema}
    if "properties" in schema:
        closed["properties"] = {key: _closed(definitions, below, above) for key, below in schema["properties"].items()}
        closed["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        closed["additionalProperties"] = _closed(definitions, schema["additionalProperties"], above)
    if "items" in schema:
        closed["items"] = _closed(definitions, schema["items"], above)
    return closed
