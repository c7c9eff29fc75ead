"""The image: locked wheels, no compiler, a numeric user, and no instruction that only BuildKit supports."""

import re
import shlex
import tomllib

import pytest

from tests.unit.repo.tree import PRODUCT, ROOT

JOINED = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
LINES = [line.strip() for line in JOINED.splitlines() if line.strip() and not line.startswith("#")]
SHIPPED = LINES[max(number for number, line in enumerate(LINES) if line.startswith("FROM ")) :]


def instructions(word: str, lines: list[str]) -> list[str]:
    return [line.removeprefix(word).strip() for line in lines if line.split()[0] == word]


def test_only_locked_dependencies_are_installed_as_wheels() -> None:
    synced = [shlex.split(line.strip("[]").replace(",", " ")) for line in instructions("RUN", LINES) if "sync" in line]
    assert synced
    assert all("--frozen" in words and "--no-dev" in words for words in synced)
    assert "--no-build" in synced[0]
    assert all(words[words.index("--extra") + 1] == "tracing" for words in synced)


def test_only_uv_and_pip_download_files() -> None:
    assert instructions("ADD", LINES) == []
    assert [line for line in LINES if re.search(r"https?://|\bcurl\b|\bwget\b|\bapt", line)] == []


def test_the_user_is_numeric_and_not_root() -> None:
    (user,) = instructions("USER", SHIPPED)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_the_image_starts_without_a_shell() -> None:
    assert instructions("RUN", SHIPPED) == []
    assert all(line.startswith("[") for word in ("ENTRYPOINT", "CMD") for line in instructions(word, SHIPPED))


def test_the_classic_builder_supports_the_dockerfile() -> None:
    assert "syntax=" not in JOINED
    assert [line for line in LINES if re.search(r"--(?:mount|chmod|link|parents|exclude)\b|<<", line)] == []


def test_the_base_is_one_argument_for_both_stages() -> None:
    assert instructions("FROM", LINES) == ["${BASE} AS build", "${BASE}"]
    assert "ARG BASE=python:3.12-slim" in LINES


@pytest.mark.parametrize("label", ["title", "description", "licenses", "version", "revision", "created"])
def test_the_image_has_descriptive_labels(label: str) -> None:
    assert f"org.opencontainers.image.{label}=" in instructions("LABEL", SHIPPED)[0]


def test_the_build_context_contains_only_the_sources_of_the_wheel() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} >= {name.split("/")[0] for name in wheel["packages"]}
    assert {line[1:] for line in ignored if line.startswith("!")} <= {
        *PRODUCT,
        "tools/image.py",
        "pyproject.toml",
        "uv.lock",
        "README.md",
        "LICENSE",
    }
    copied = {source for line in instructions("COPY", LINES) for source in line.split()[:-1]}
    assert copied >= {name.split("/")[0] for name in wheel["packages"]}


def test_each_process_has_a_separate_program() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["muster-core"] == "muster_core.main:app"
    assert scripts["muster-operator"] == "muster_operator.main:app"
