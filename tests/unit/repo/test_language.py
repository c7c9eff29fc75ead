"""The language check: no old identifiers and no private phrases (tests/unit/repo/language.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from tests.unit.repo import language
from tests.unit.repo.language import (
    OLD_IDENTIFIERS,
    OLD_MODULES,
    OLD_NAMES,
    OLD_WORDS,
    PROSE,
    Finding,
    citations,
    code,
    comments,
    configuration,
    configuration_files,
    defined_in_tests,
    markdown,
    names,
    prose,
)
from tests.unit.repo.tree import ROOT, name

SENTENCES = {
    "for ever": "The pod waits for ever.",
    "anew": "The operator reads it anew.",
    "goes on": "The gang goes on.",
    "told": "The core is told of the pod.",
    "somebody": "Somebody holds the Lease.",
    "says to be": "a pod that says to be a placeholder",
    "hears": "The core hears of it.",
    "doubts": "applied, with doubts",
    "lacks": "the queue lacks quota",
    "stands": "The pod stands in the queue.",
    "weakness": "Report a weakness.",
    "beside": "the core runs beside the operator",
    "its turn": "waits for its turn",
    "head room": "no head room is left",
    "goodbye": "left without a goodbye",
    "in vain": "planned in vain",
    "cure": "cause and cure",
    "liking": "the liking of a node",
    "braked": "writes are braked",
    "shortfall": "a shortfall of the queue",
    "obstacle": "refused by the same obstacle",
    "podless": "a podless placeholder",
    "homeless": "homeless pods",
    "stray": "a stray allocation",
    "so does": "The pod waits, and so does the gang.",
    "nowhere": "It goes nowhere.",
    "whoever": "whoever created the pod",
    "of itself": "It starts of itself.",
    "comes round": "preemption comes round",
    "obeys": "The operator obeys the core.",
    "lets go": "The core lets it go.",
    "judges": "The core judges the file.",
    "dear": "a choice dear to undo",
    "absurd": "an absurdly large number",
    "believes": "what the core believes",
    "till": "It waits till then.",
    "who": "a pod who waits",
    "misfit": "a misfit of the partition",
    "company": "pods that like company",
    "trial": "a trial of the gang",
    "silent": "a silent watch",
    "wishes": "what the pod wishes",
    "knows": "The core does not know the node.",
    "whole": "the whole gang",
    "rings": "The timer rings.",
    "ours": "a pod of ours",
    "hands over": "It hands it to the core.",
    "is well": "The replica is well.",
    "by intent": "This is by intent.",
    "speaks": "It speaks gRPC.",
    "stirs": "A change stirs the queue.",
    "clock": "The placeholder clock starts.",
    "owner": "the owner of the pod",
    "place": "Members keep their places.",
    "makes": "The operator makes pods.",
}


def report(hits: Iterable[Finding]) -> str:
    return "\n".join(["docs/internals/style.md, Language:", *map(str, hits)])


def test_no_banned_name_or_phrase_is_in_the_tree() -> None:
    assert not language.findings(), report(language.findings())


def test_every_exception_has_a_match_and_a_reason() -> None:
    for file, words, reason in language.EXCEPTIONS:
        path = ROOT / file
        text = path.read_text()
        if path.suffix == ".py":
            hits = (*names(file, text), *code(file, ast.parse(text)))
        else:
            hits = (*markdown(file, text), *configuration(file, text))
        assert words in {one.words for one in hits}, f"{file}: nothing is excepted by {words}"
        assert reason


@pytest.mark.parametrize("words", PROSE)
def test_each_banned_phrase_is_found_in_markdown_strings_and_docstrings(words: str) -> None:
    sentence = SENTENCES[words]
    assert [str(one).startswith(f'docs/a.md:2: "{words}"') for one in markdown("docs/a.md", f"# A\n{sentence}")] == [
        True
    ]
    source = f'"""{sentence}"""\nprint("{sentence}")\n'
    assert [(one.line, one.words) for one in code("core/a.py", ast.parse(source))] == [
        (1, words),
        (2, words),
    ]


@pytest.mark.parametrize("old", OLD_NAMES)
def test_each_banned_name_is_found_as_a_class_and_as_a_module(old: str) -> None:
    assert [(one.line, one.words) for one in names("tests/a.py", f"x = 1\nclass _{old}: ...")] == [(2, old)]
    assert [one.words for one in names(f"core/{old.lower()}.py", "")] == [old]


@pytest.mark.parametrize("old", OLD_WORDS)
def test_each_banned_word_is_found_as_a_function_field_parameter_and_key(old: str) -> None:
    sources = (
        f"def _{old}(): ...",
        f"def is_{old}_of(): ...",
        f"class A:\n    {old}: int",
        f"def f({old}): ...",
        f"x['{old}']",
        f"x.{old} = 1",
    )
    for source in sources:
        assert [one.words for one in code("core/a.py", ast.parse(source))] == [old], source


@pytest.mark.parametrize("old", OLD_IDENTIFIERS)
def test_each_banned_identifier_is_found_as_the_complete_name_only(old: str) -> None:
    for source in (f"def _{old}(): ...", f"{old} = 1", f"for {old} in x: ...", f"def f({old}): ...", f"x['{old}']"):
        assert [one.words for one in code("core/a.py", ast.parse(source))] == [old], source
    assert not list(code("core/a.py", ast.parse(f"is_{old}_of = 1")))


@pytest.mark.parametrize("old", OLD_MODULES)
def test_each_banned_module_name_is_found(old: str) -> None:
    assert [one.words for one in names(f"core/{old}.py", "")] == [old]
    assert [one.words for one in names(f"core/{old}/a.py", "")] == [old]


def test_identifiers_of_tests_are_checked_and_their_names_as_sentences() -> None:
    source = "def test_the_core_hears_of_a_pod(verdict): x = 1"
    found = [one.words for one in defined_in_tests("tests/a.py", ast.parse(source))]
    assert found == ["hears", "verdict"]


def test_comments_of_python_code_are_checked() -> None:
    assert [one.line for one in comments("core/a.py", "x = 1\n#: Nobody reads it.\ny = '# anew'\n")] == [2]


@pytest.mark.parametrize(
    "file, text",
    [
        ("charts/a/values.yaml", "a: 1  # The core is told of it.\n"),
        ("charts/a/templates/NOTES.txt", "Nobody leads.\n"),
        ("Makefile", "help: ## print the liking of nodes\n"),
        ("proto/a.proto", "// The core hears of it.\n"),
        ("deploy/a.json", '{"title": "What the core is told", "key": "told"}\n'),
    ],
)
def test_comments_and_texts_of_other_files_are_checked(file: str, text: str) -> None:
    assert [one.line for one in configuration(file, text)] == [1]


def test_every_kind_of_file_is_among_the_checked_ones() -> None:
    checked = {name(path) for path in configuration_files()}
    assert checked >= {
        "Makefile",
        "Dockerfile",
        ".ci/run",
        "pyproject.toml",
        ".github/workflows/test.yaml",
        "charts/muster/values.yaml",
        "charts/muster/templates/NOTES.txt",
        "deploy/monitoring/dashboard.json",
        "deploy/monitoring/alerts.yaml",
        "proto/muster_si/muster.proto",
        "devcluster/modules/conformance/main.go",
    }


@pytest.mark.parametrize("document", ["contract", "Contract", "semantics", "seed", "style", "behaviour"])
@pytest.mark.parametrize("section", ["7", "004", "1.6", "C.5"])
def test_a_citation_by_number_is_found_in_every_file(document: str, section: str) -> None:
    assert [one.line for one in citations("tests/a.py", f'"""A docstring."""\n# Reason ({document} {section}).')] == [2]
    assert list(citations("docs/a.md", f"[{document} {section}](../a.md#b)")) == []
    assert list(citations("docs/a.md", f"The {document} of a gang. --{document}={section}")) == []


def test_code_spans_and_output_blocks_are_not_checked_as_prose() -> None:
    assert list(markdown("a.md", "The user `nobody`.\n\n```console\nuser nobody\n```\n")) == []
    assert [one.line for one in markdown("a.md", "```\nx\n```\nnobody")] == [4]
    assert list(prose("a.md", 1, "A replica stands by; `...` stands for other lines, a stand-in.")) == []
