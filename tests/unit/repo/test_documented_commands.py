"""docs/reference/cli.md is generated from the commands, and names every check of the doctor."""

from muster import checks, permissions
from tools import commands as page


def test_the_page_is_generated_from_the_commands() -> None:
    assert page.PAGE.read_text() == page.written(page.PAGE.read_text())


def test_every_check_of_the_doctor_is_explained() -> None:
    table = page.PAGE.read_text().partition("## Checks of muster doctor")[2]
    names = {checks.CORE, checks.LEADER, checks.SCHEDULER_NAME, checks.POD_QUEUES, checks.WEBHOOK, checks.YUNIKORN}
    assert {name for name in names | {permissions.PERMISSIONS} if f"| {name}" not in table} == set()
