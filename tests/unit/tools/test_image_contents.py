"""The product runs completely without the parts that the image leaves out (tools/image.py)."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.unit.repo.tree import ROOT
from tools import image

PACKAGES = Path(sysconfig.get_path("purelib"))

WITHOUT = """
import importlib.machinery, sys
from pathlib import Path
from tools import image

class Missing(importlib.machinery.PathFinder):
    gone = {str(path) for path in image.unneeded(Path(sys.argv[1]))}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if spec is not None and spec.origin in cls.gone:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
        return spec

sys.meta_path[:] = [Missing if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
"""


def output_without_dropped_files(code: str, *arguments: object) -> str:
    """Return the output of the code when no dropped file can be imported."""
    command = [sys.executable, "-c", WITHOUT + code, PACKAGES, *arguments]
    run = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_all_muster_modules_import_without_the_dropped_files() -> None:
    assert int(output_without_dropped_files("print(image.warm())")) > 1000


def test_tracing_works_without_the_dropped_files() -> None:
    output_without_dropped_files(
        "import muster_operator.runtime.span_export;"
        "import opentelemetry.exporter.otlp.proto.grpc.trace_exporter as grpc;"
        "import opentelemetry.exporter.otlp.proto.http.trace_exporter as http;"
        "grpc.OTLPSpanExporter(), http.OTLPSpanExporter()"
    )


def test_an_import_of_a_dropped_module_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"pygments.lexers.python is not in the image"):
        output_without_dropped_files("import pygments.lexers.python")


@pytest.mark.parametrize("pattern", image.DROPPED)
def test_the_dropped_files_exist(pattern: str) -> None:
    assert any(PACKAGES.glob(pattern))


def test_licences_and_metadata_stay() -> None:
    assert [path for path in image.unneeded(PACKAGES) if path.parent.suffix == ".dist-info"] == []


def test_a_stripped_library_is_smaller_and_still_loads(tmp_path: Path) -> None:
    (library,) = (PACKAGES / "uvloop").glob("loop.*.so")
    copy = tmp_path / library.name
    copy.write_bytes(library.read_bytes())
    assert image.strip([copy]) == library.stat().st_size - copy.stat().st_size > 0
    code = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('uvloop.loop', sys.argv[1]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); l = m.Loop(); l.call_soon(l.stop); l.run_forever();"
        "l.close(); print(m.__file__)"
    )
    run = subprocess.run([sys.executable, "-c", code, copy], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == str(copy), run.stderr
    assert image.strip([copy]) == 0


def test_files_that_are_not_64_bit_libraries_are_not_changed() -> None:
    assert image.mapped(b"#!/bin/sh\n") is None
    assert image.mapped(b"\x7fELF\x01\x01" + bytes(200)) is None
