"""`python -m muster_core`: the scheduler core as a process of its own."""

from muster_core.main import app

app(prog_name="python -m muster_core")
