"""Values of the core: identifiers, resources, specifications, events (input), effects (output), decisions, states."""
