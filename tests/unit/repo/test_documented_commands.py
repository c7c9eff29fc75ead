"""docs/reference/cli.md is made of the commands, and names every check of the doctor."""

from muster.checks import core, leases, other_schedulers, rights, webhooks, workloads
from tools import commands as page


def test_the_page_is_made_of_the_commands() -> None:
    assert page.PAGE.read_text() == page.written(page.PAGE.read_text())


def test_every_check_of_the_doctor_is_explained() -> None:
    table = page.PAGE.read_text().partition("## Checks of the doctor")[2]
    checks = {module.CHECK for module in (core, leases, other_schedulers, rights, webhooks)}
    assert {check for check in checks | {workloads.SCHEDULER, workloads.QUEUE} if f"| {check}" not in table} == set()
