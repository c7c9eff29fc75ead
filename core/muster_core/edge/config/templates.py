"""Templates: what a queue gets that a placement rule makes on demand below the one that has the template.

Source: contract 2.6.
"""

from __future__ import annotations

from muster_core.edge.config import properties
from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.quantities import amounts, as_written
from muster_core.edge.config.schema import TemplateForm
from muster_core.model.config import ChildTemplate
from muster_core.model.errors import ConfigurationError
from muster_core.model.resources import Limit, Resources


def template(form: TemplateForm, path: str, notes: Notes) -> ChildTemplate | None:
    """The template, None where it says nothing: then the one above holds. Raises ConfigurationError."""
    most = Limit(amounts(form.resources.max, below(path, "resources.max")))
    guaranteed = Resources(amounts(form.resources.guaranteed, below(path, "resources.guaranteed")))
    if not (most or guaranteed or form.maxapplications or form.properties):
        notes.odd(path, "is empty and counts as absent")
        return None
    for name in most.excess(guaranteed):
        raise ConfigurationError(
            below(path, f"resources.guaranteed.{name}"),
            as_written(name, guaranteed[name]),
            "is more than the max of the template",
            "guarantee less or raise the max",
        )
    spot = below(path, "properties")
    properties.check(form.properties, spot, notes)
    properties.check_on_demand(form.properties, spot, notes)
    return ChildTemplate(
        max=most,
        guaranteed=guaranteed,
        max_applications=form.maxapplications,
        properties=form.properties,
        policies=properties.on_demand(properties.policies(form.properties)),
    )
