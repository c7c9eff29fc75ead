"""The core's words: ids, amounts, specs, events (what the core is told), effects (what it says), decisions, states."""
