"""The pictures that are made of the recorded run: what the terminal showed, and who had which place when."""

from tools.pictures import recorded, terminal, timeline


def pictures() -> dict[str, str]:
    """Text by file name."""
    run = recorded.load()
    return {"demo.svg": terminal.drawn(run), "gang.svg": timeline.drawn(run)}
