"""The page of the last run has its table between two marks, and nothing else of the page changes."""

from dataclasses import replace

from benchmarks.figures import KUBE, Figure
from benchmarks.record import BEGIN, END, PAGE, merged, placed
from benchmarks.report import document, plain
from benchmarks.session import Session

PLACE = f"Above.\n{BEGIN}old\n{END}Below.\n"
GANG = Figure("cluster/gang-100", "s", [2.0, 4.0], 5.0, less_is_better=True, rivals={KUBE: [4.0, 6.0]})


def placed_in(page: str, *figures: Figure) -> str:
    return placed(page, plain(document(figures, Session(load_before=0.5), quick=False)))


def test_the_table_replaces_the_old_one_and_nothing_else() -> None:
    page = placed_in(PLACE, GANG)
    assert page.startswith(f"Above.\n{BEGIN}")
    assert page.endswith(f"{END}Below.\n")
    assert "old" not in page


def test_it_is_replaced_again_the_next_time() -> None:
    once = placed_in(PLACE, GANG)
    assert placed_in(once, GANG).count("cluster/gang-100") == 1


def test_a_peer_of_the_same_session_is_distinguished_from_a_fact() -> None:
    row = next(line for line in placed_in(PLACE, GANG).splitlines() if "gang-100" in line)
    assert row == "| `cluster/gang-100` | 3 s | 2 to 4 (2) | ≤ 5: met | 5 (**1.8x**, 1.5x to 2x) | 5.2 (1.7x) \\* |"


def test_what_a_peer_ran_at_the_same_time_comes_first() -> None:
    page = placed_in(PLACE, Figure("core/5000", "/CPU s", [4000.0]), GANG)
    assert page.index("gang-100") < page.index("core/5000")


def test_a_single_run_has_no_range() -> None:
    assert "| `core/5000` | 4,000 /CPU s |  |" in placed_in(PLACE, Figure("core/5000", "/CPU s", [4000.0]))


def test_a_missed_goal_is_reported() -> None:
    figure = Figure("core/5000", "/s", [4000.0], 48_000.0)
    assert "≥ 48,000: **missed**" in placed_in(PLACE, figure)


def test_pieces_of_a_run_are_put_together_in_the_order_of_the_families() -> None:
    core = Figure("core/5000", "/s", [4000.0])
    old, new = (plain(document([figure], Session(), quick=False)) for figure in (GANG, core))
    assert [figure["name"] for figure in merged(new, old)["figures"]] == ["core/5000", "cluster/gang-100"]


def test_a_figure_that_is_measured_again_replaces_the_old_one() -> None:
    again = replace(GANG, values=[1.0])
    old, new = (plain(document([figure], Session(), quick=False)) for figure in (GANG, again))
    assert [figure["median"] for figure in merged(new, old)["figures"]] == [1.0]
    assert [figure["median"] for figure in merged(new, None)["figures"]] == [1.0]


def test_a_figure_of_an_earlier_session_reports_when_that_was() -> None:
    old = plain(document([GANG], Session(), quick=False))
    old["figures"][0]["when"] = "2026-11-20T10:30+00:00"
    page = placed(PLACE, merged(plain(document([], Session(), quick=False)), old))
    assert "| `cluster/gang-100` (1) |" in page
    assert "marked (1) are of an earlier session: 2026-11-20 10:30." in page


def test_the_page_has_one_section_for_the_table() -> None:
    assert PAGE.read_text().count(BEGIN) == PAGE.read_text().count(END) == 1
