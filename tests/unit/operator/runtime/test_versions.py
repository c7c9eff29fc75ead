"""A list next to a watch: the newer state wins whichever way it came, and its end reports missed deletions only."""

from __future__ import annotations

import time

import pytest

from muster_operator.runtime.loop import READ, Versions

PODS, NODES = "pods", "nodes"


def known(*keys: str, plural: str = PODS) -> Versions:
    """Versions after a first list with these objects, all at version 5."""
    versions = Versions()
    versions.begin_list(plural)
    for key in keys:
        assert versions.is_news(plural, key, None, "5")
    assert list(versions.end_list(plural, "5")) == []
    return versions


def test_an_object_of_a_list_does_not_replace_a_newer_one_of_the_watch() -> None:
    versions = known("a")
    versions.begin_list(PODS)
    assert versions.is_news(PODS, "a", "MODIFIED", "9")
    assert not versions.is_news(PODS, "a", None, "5")
    assert list(versions.end_list(PODS, "8")) == []
    assert versions.is_news(PODS, "a", "MODIFIED", "10")


def test_an_event_of_the_watch_that_is_older_than_the_list_is_no_news() -> None:
    versions = known("a")
    versions.begin_list(PODS)
    assert versions.is_news(PODS, "a", None, "9")
    assert not versions.is_news(PODS, "a", "MODIFIED", "8")


def test_a_pod_that_is_deleted_while_a_list_runs_does_not_come_back_with_its_page() -> None:
    versions = known("a")
    versions.begin_list(PODS)
    assert versions.is_news(PODS, "a", "DELETED", "7")
    assert not versions.is_news(PODS, "a", None, "5")
    assert list(versions.end_list(PODS, "6")) == []


def test_only_what_the_list_does_not_contain_was_deleted_unseen() -> None:
    versions = known("a", "b", "c")
    versions.begin_list(PODS)
    assert not versions.is_news(PODS, "a", None, "5")
    assert versions.is_news(PODS, "b", "MODIFIED", "7")
    assert list(versions.end_list(PODS, "6")) == ["c"]


def test_an_object_that_is_newer_than_the_list_is_not_deleted_by_it() -> None:
    versions = known()
    assert versions.is_news(PODS, "new", READ, "20")
    versions.begin_list(PODS)
    assert list(versions.end_list(PODS, "15")) == []
    assert not versions.is_news(PODS, "new", READ, "20")


@pytest.mark.parametrize("keys", [("a",), ()], ids=["known before", "unknown before"])
def test_a_pod_that_was_read_while_a_list_ran_and_is_not_in_it_is_deleted(keys: tuple[str, ...]) -> None:
    versions = known(*keys)
    versions.begin_list(PODS)
    assert versions.is_news(PODS, "a", READ, "7")
    assert list(versions.end_list(PODS, "8")) == ["a"]
    assert not versions.is_news(PODS, "a", READ, "7")


def test_a_pod_that_was_read_before_a_list_without_it_was_complete_is_no_news_after_it() -> None:
    versions = known()
    versions.begin_list(PODS)
    assert list(versions.end_list(PODS, "8")) == []
    assert not versions.is_news(PODS, "a", READ, "7")
    assert versions.is_news(PODS, "b", READ, "9")


def test_after_a_missed_deletion_a_late_event_from_before_it_is_no_news() -> None:
    versions = known("n1", plural=NODES)
    versions.begin_list(NODES)
    assert list(versions.end_list(NODES, "20")) == ["n1"]
    assert not versions.is_news(NODES, "n1", "MODIFIED", "19")
    assert versions.is_news(NODES, "n1", "ADDED", "21")


def test_the_late_deletion_of_an_older_object_does_not_delete_the_new_one_of_its_name() -> None:
    versions = known("n1", plural=NODES)
    versions.begin_list(NODES)
    assert versions.is_news(NODES, "n1", None, "30")
    assert not versions.is_news(NODES, "n1", "DELETED", "20")
    assert list(versions.end_list(NODES, "30")) == []


def test_a_list_that_is_given_up_deletes_nothing_and_the_next_one_knows_all() -> None:
    versions = known("a", "b", "c")
    versions.begin_list(PODS)
    assert not versions.is_news(PODS, "a", None, "5")
    versions.begin_list(PODS)
    assert not versions.is_news(PODS, "b", None, "5")
    assert sorted(versions.end_list(PODS, "9")) == ["a", "c"]


def test_after_a_store_was_set_back_older_versions_are_news() -> None:
    versions = known("a", "b")
    assert versions.is_news(PODS, "a", "MODIFIED", "50")
    assert versions.is_news(PODS, "c", "DELETED", "60")
    versions.begin_list(PODS, is_reset=True)
    assert versions.is_news(PODS, "a", None, "3")
    assert versions.is_news(PODS, "c", None, "2")
    assert list(versions.end_list(PODS, "4")) == ["b"]
    assert versions.is_news(PODS, "a", "MODIFIED", "5")


def test_a_version_that_is_no_number_is_never_older() -> None:
    versions = known("a")
    assert versions.is_news(PODS, "a", "MODIFIED", "x")
    assert versions.is_news(PODS, "a", "MODIFIED", "y")


def test_what_a_list_shows_as_deleted_is_forgotten() -> None:
    """A key per deleted object would fill the memory with every expired watch."""
    versions = known(*map(str, range(1000)))
    versions.begin_list(PODS)
    assert len(list(versions.end_list(PODS, "9"))) == 1000
    assert len(versions) == 0


@pytest.mark.parametrize("plural", [PODS, NODES])
def test_the_begin_and_the_end_of_a_list_do_not_walk_all_objects(plural: str) -> None:
    versions = known(*map(str, range(200_000)), plural=plural)

    def compare() -> float:
        before = time.process_time()
        versions.begin_list(plural)
        took = time.process_time() - before
        for key in range(200_000):
            versions.is_news(plural, str(key), None, "5")
        before = time.process_time()
        assert list(versions.end_list(plural, "6")) == []
        return took + time.process_time() - before

    assert min(compare() for _ in range(2)) < 0.005
