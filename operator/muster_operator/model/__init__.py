"""Values of the operator: identifiers, pods, events, commands, requests to the core and its responses, life cycles."""
