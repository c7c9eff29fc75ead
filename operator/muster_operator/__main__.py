"""`python -m muster_operator`: the operator as a process of its own."""

from muster_operator.main import app

app(prog_name="python -m muster_operator")
