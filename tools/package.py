"""Lints the chart and packages it into build/chart (`make chart`).

    python -m tools.package [--image registry.example.com/muster] [--push oci://registry.example.com/charts]

`--image` sets the default image of the packaged chart. After `--push`, build/chart/reference has the reference to sign,
with its digest.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from devcluster.binaries import ensure
from devcluster.programs import HELM
from tools.chart import CHART, ROOT

FOLDER: Final = ROOT / "build" / "chart"
REPOSITORY: Final = re.compile(r"^(image:\n(?:  .*\n)*?  repository: ).*$", re.MULTILINE)
PUSHED: Final = re.compile(r"Pushed: (?P<name>\S+):[^:\s]+\s+Digest: (?P<digest>sha256:[0-9a-f]{64})")


def with_image(values: str, image: str) -> str:
    """Return the chart's values with another default of `image.repository`. Raises ValueError if there is none."""
    changed, count = REPOSITORY.subn(rf"\g<1>{image}", values)
    if count != 1:
        raise ValueError("values.yaml has no image.repository")
    return changed


def reference(output: str) -> str:
    """Return the reference of the pushed chart with its digest. Raises ValueError if Helm's output has none."""
    found = PUSHED.search(output)
    if found is None:
        raise ValueError(f"the output of helm push has no digest: {output}")
    return f"{found['name']}@{found['digest']}"


def package(image: str | None) -> Path:
    """Lint and package the chart and return its path. Raises CalledProcessError with Helm's output."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    copy = FOLDER / "source" / CHART.name
    shutil.copytree(CHART, copy)
    if image:
        values = copy / "values.yaml"
        values.write_text(with_image(values.read_text(), image))
    helm = str(ensure([HELM])["helm"])
    subprocess.run([helm, "lint", "--strict", str(copy)], check=True)
    subprocess.run([helm, "package", "--destination", str(FOLDER), str(copy)], check=True)
    (made,) = FOLDER.glob("*.tgz")
    return made


def push(made: Path, registry: str) -> str:
    """Push the chart and return its reference. Raises CalledProcessError with Helm's output."""
    command = [str(ensure([HELM])["helm"]), "push", str(made), registry]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return reference(done.stdout)


def main() -> int:
    """Package the chart, and push it with `--push`. Returns 1 if Helm reports an error."""
    parser = argparse.ArgumentParser(prog="package", description="lint and package the chart")
    parser.add_argument("--image", help="default value of image.repository in the package")
    parser.add_argument("--push", help="an OCI registry: oci://host/path")
    options = parser.parse_args()
    try:
        made = package(options.image)
        print(made.relative_to(ROOT))
        if options.push:
            pushed = push(made, options.push)
            (FOLDER / "reference").write_text(pushed + "\n")
            print(pushed)
    except subprocess.CalledProcessError as error:
        print(error.output or f"helm {error.cmd[1]} failed")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
