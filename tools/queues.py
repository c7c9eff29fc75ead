"""Writes the tables of keys in ``docs/reference/queues-yaml.md`` from the core's models of the file.

Each table is below a heading. The text around it is written by hand. Called by ``make diagrams``; a test fails if the
page is stale.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from muster_core.config.schema import Form, LimitForm, Meaning, PartitionForm, QueueForm, RuleForm
from tools.tables import put

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "queues-yaml.md"
FORMS: dict[str, type[Form]] = {
    "## Partition": PartitionForm,
    "## Queue": QueueForm,
    "### Limits": LimitForm,
    "## Placement rules": RuleForm,
}
HEAD = "| Key | Default | Meaning |\n|---|---|---|\n"


def rows(form: type[Form], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield key, default and meaning. A mapping without its own meaning is replaced by its keys.

    Raises LookupError for a key without a meaning.
    """
    for key, field in form.model_fields.items():
        meaning = next((one for one in field.metadata if isinstance(one, Meaning)), None)
        inner = below(field)
        if meaning is not None:
            yield f"{prefix}{key}", "required" if field.is_required() else meaning.default, meaning.text
        elif inner is not None:
            yield from rows(inner, f"{prefix}{key}.")
        else:
            raise LookupError(f"{form.__name__}.{key} has no meaning")


def below(field: FieldInfo) -> type[Form] | None:
    """Return the model of the value, if it is a mapping with known keys."""
    parts = (field.annotation, *getattr(field.annotation, "__args__", ()))
    return next((part for part in parts if isinstance(part, type) and issubclass(part, Form)), None)


def tables() -> dict[str, str]:
    """Return the Markdown tables by their headings."""
    return {
        heading: HEAD + "".join(f"| `{key}` | {default} | {meaning} |\n" for key, default, meaning in rows(form))
        for heading, form in FORMS.items()
    }


def main() -> None:
    """Write the page."""
    PAGE.write_text(put(PAGE.read_text(), tables()))


if __name__ == "__main__":
    main()
