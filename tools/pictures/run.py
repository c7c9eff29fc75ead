"""The pictures of the recorded run: the terminal output and the timeline of pods."""

from tools.pictures import recorded, terminal, timeline


def pictures() -> dict[str, str]:
    """Return SVG texts by file name."""
    run = recorded.load()
    return {"demo.svg": terminal.svg(run), "gang.svg": timeline.svg(run)}
