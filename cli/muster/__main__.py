"""`python -m muster`: the same as the `muster` command."""

from __future__ import annotations

from muster.main import app

app()
