"""Draws the pictures of commands that ran: a terminal, and the timeline of the pods of a recorded run."""

from tools.pictures import recorded, terminal, timeline


def pictures() -> dict[str, str]:
    """Return SVG texts by file name."""
    return {"explain.svg": terminal.svg(), "gang.svg": timeline.svg(recorded.load())}
