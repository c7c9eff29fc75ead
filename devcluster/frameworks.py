"""Runs the controller of a batch framework with the local control plane, from its pinned Go module or PyPI package.

The framework is installed as its own manifests say: its CRDs, accounts, roles and webhooks are rendered from the
module at run time, with ``kubectl kustomize`` or ``helm template``. Nothing of it is copied into this repository. Only
its Deployment is replaced by a process with the token of the Deployment's service account, and webhooks have the URL of
that process.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
import yaml
from rich.console import Console

from devcluster import binaries, ports, programs
from devcluster.api import Json
from devcluster.build import GOFLAGS, install
from devcluster.cluster import Cluster
from devcluster.errors import ApiError, BuildFailed, ConditionNotMet, FlavourUnavailable, ProcessFailed
from devcluster.process import Process
from devcluster.programs import MODULES, Program, PythonProgram, packages_folder
from devcluster.resources import BY_KIND, add_custom, of_manifest
from devcluster.toolchain import ensure_go
from devcluster.waiting import until

WAIT_S = 120.0
"""For each step of an installation or removal. Only a failure uses it up, also on a busy machine."""

MOUNT = Path("/tmp/k8s-webhook-server")  # noqa: S108 - the path is in the programs
"""Where programs that do not ask controller-runtime for the folder look for their certificates."""

CRD = "CustomResourceDefinition"
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """Where a controller runs: its kubeconfig, an empty folder, its ports, and the folder of its certificate.

    ``certificates`` has ``tls.crt`` and ``tls.key``. controller-runtime finds it without a flag, because ``TMPDIR`` is
    the folder above.
    """

    kubeconfig: Path
    folder: Path
    health: int
    webhooks: int
    metrics: int
    certificates: Path


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework and how to install it.

    ``module``: the Go module with its manifests; empty for a Python program. ``kustomization`` or ``chart``: their
    folder in the module, or ``bases``: folders of kustomizations without a namespace, where their overlay also installs
    something else. ``values``: arguments of ``helm template``, for a chart. ``manifests``: more folders of manifests in
    the module. ``account``: namespace and name of the Deployment's service account. ``flags``: the arguments of the
    program; they may write files into the folder of the context first. ``ready``: path of the readiness endpoint.
    ``health``: the port of that endpoint, for a program that has no flag for it. ``env``: more environment of the
    program. ``name``: of the process, if the program runs twice. ``host``: the host in the URLs of webhooks, if the
    program creates its own certificate. ``secret``: the Secret with that certificate, if it is only for the name of the
    Service; the files are written where a kubelet would mount them. ``adapt``: changes the rendered objects, and the
    certificate in the folder, before the objects are applied.
    """

    program: Program | PythonProgram
    module: str
    account: tuple[str, str]
    flags: Callable[[ControllerContext], Sequence[str]]
    kustomization: str = ""
    bases: tuple[str, ...] = ()
    chart: str = ""
    values: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    ready: str = "/readyz"
    health: int = 0
    name: str = ""
    host: str = "127.0.0.1"
    secret: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    adapt: Callable[[list[Json], Path], None] | None = None


@asynccontextmanager
async def running(cluster: Cluster, framework: Framework) -> AsyncIterator[Process]:
    """Install the framework and run its controller; afterwards delete what was installed.

    Raises FlavourUnavailable on an existing cluster, BuildFailed, ProcessFailed or ConditionNotMet.
    """
    if cluster.plane is None:
        raise FlavourUnavailable("frameworks are installed only on the local control plane")
    name = framework.name or framework.program.name
    folder = cluster.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    certificates = folder / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True)
    if not framework.secret:
        files = cluster.plane.authority.issue(name, ["127.0.0.1"])
        shutil.copy(files.certificate, certificates / "tls.crt")
        shutil.copy(files.key, certificates / "tls.key")
    health, webhooks, metrics = ports.free(3)
    health = framework.health or health
    objects = await asyncio.to_thread(
        _objects, framework, f"https://{framework.host}:{webhooks}", cluster.authority.read_bytes(), folder
    )
    if framework.adapt:
        framework.adapt(objects, certificates)
    later = [one for one in objects if one["kind"] in WEBHOOKS]
    at_once = [one for one in objects if one["kind"] not in WEBHOOKS]
    async with AsyncExitStack() as stack:  # each step is carried out even if another one fails
        stack.push_async_callback(_delete, cluster, at_once)
        await _apply(cluster, at_once)
        namespace, account = framework.account
        kubeconfig = await cluster.kubeconfig_for(account, namespace)
        context = ControllerContext(kubeconfig, folder, health, webhooks, metrics, certificates)
        process = Process(
            name,
            [*await asyncio.to_thread(_command, framework.program), *framework.flags(context)],
            cluster.folder / "logs" / f"{name}.log",
            env={
                "KUBECONFIG": str(kubeconfig),
                "TMPDIR": str(folder),
                "POD_NAMESPACE": namespace,
                "NAMESPACE": namespace,
                **_packages(framework.program),
                **framework.env,
            },
        )
        if framework.secret:
            stack.callback(_link, None)
        stack.push_async_callback(process.stop, grace_s=2.0)
        stack.push_async_callback(_delete, cluster, later)
        process.start()
        if framework.secret:
            await _apply(cluster, later)  # the controller is ready when it has written its authority into them
            await _mount(cluster, framework, certificates)
        await _ready(process, f"http://127.0.0.1:{health}{framework.ready}", webhooks if later else 0)
        if not framework.secret:
            await _apply(cluster, later)  # the API server asks a webhook as soon as it is registered
        stack.push_async_callback(_delete_custom, cluster, at_once)  # the controller removes its finalizers
        yield process


def _command(program: Program | PythonProgram) -> list[str]:
    """The program and its first arguments; it is built or installed if it is missing."""
    if isinstance(program, Program):
        return [str(binaries.ensure([program])[program.name])]
    install(program, Console(stderr=True))
    return [sys.executable, "-S", "-m", program.module]  # -S: without the packages of our own environment


def _packages(program: Program | PythonProgram) -> dict[str, str]:
    return {} if isinstance(program, Program) else {"PYTHONPATH": str(packages_folder(program))}


def module_folder(framework: Framework) -> Path:
    """Return the folder of the framework's Go module, or of its Python packages. Raises BuildFailed."""
    if isinstance(framework.program, PythonProgram):
        return install(framework.program, Console(stderr=True))
    return go_module(framework.program.family, framework.module)


def go_module(family: str, module: str) -> Path:
    """Return the folder of a Go module that the family pins. Raises BuildFailed."""
    command = [str(ensure_go()), "list", "-m", "-f", "{{.Dir}}", module]
    environment = {**os.environ, "GOFLAGS": GOFLAGS, "GOWORK": "off"}
    folder = MODULES / family
    subprocess.run([command[0], "mod", "download", module], cwd=folder, env=environment, check=False)
    found = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)
    if found.returncode != 0 or not found.stdout.strip():
        raise BuildFailed(module, found.stderr)
    return Path(found.stdout.strip())


async def _mount(cluster: Cluster, framework: Framework, certificates: Path) -> None:
    """Write the files of the Secret, and link the folder to where the program looks for them in its container."""

    async def data() -> Json:
        secret = await cluster.admin.get("secrets", framework.secret, framework.account[0])
        found: Json = secret.get("data", {})
        return found

    for name, content in (await until(f"{framework.secret} has a certificate", data, WAIT_S)).items():
        (certificates / name).write_bytes(base64.b64decode(content))
    _link(certificates.parent)


def _link(folder: Path | None) -> None:
    """Let ``MOUNT`` lead to the folder, or remove it; also a link of a run that was killed."""
    if MOUNT.is_symlink():
        MOUNT.unlink()
    if folder is not None:
        MOUNT.symlink_to(folder)


def _objects(framework: Framework, url: str, authority: bytes, scratch: Path) -> list[Json]:
    """The objects of the framework without its Deployments and Services, with webhooks at the URL."""
    folder, namespace = module_folder(framework), framework.account[0]
    console = Console(stderr=True)
    if framework.bases:
        resources = [os.path.relpath(folder / base, scratch) for base in framework.bases]  # absolute ones are refused
        overlay = {"namespace": namespace, "resources": resources}
        (scratch / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    if framework.kustomization or framework.bases:
        kubectl = binaries.ensure([programs.KUBECTL], console, exact=True)["kubectl"]
        where = scratch if framework.bases else folder / framework.kustomization
        command = [str(kubectl), "kustomize", str(where)]
    else:
        helm = binaries.ensure([programs.HELM], console, exact=True)["helm"]
        command = [str(helm), "template", framework.program.name, str(folder / framework.chart)]
        command += [f"--namespace={namespace}", "--include-crds", *framework.values]
    done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=WAIT_S)
    if done.returncode != 0:
        raise BuildFailed(framework.program.name, done.stderr)
    texts = [done.stdout, *(file.read_text() for one in framework.manifests for file in (folder / one).glob("*.yaml"))]
    found = [one for text in texts for one in yaml.load_all(text, yaml.CSafeLoader) if one]
    left_out = {"Deployment", "NetworkPolicy", "Job"} | (set() if framework.secret else {"Service"})
    objects = [one for one in found if one["kind"] in {*BY_KIND} - left_out]
    for one in objects:
        if BY_KIND[one["kind"]].namespaced:
            one["metadata"].setdefault("namespace", namespace)
    if namespace != "default" and not any(one["kind"] == "Namespace" for one in objects):
        objects.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    if framework.secret:
        _lead_here(objects, int(url.rpartition(":")[2]))
        return objects
    bundle = base64.b64encode(authority).decode()
    for one in objects:
        for webhook in one.get("webhooks", []):
            _redirect(webhook["clientConfig"], url, bundle)
        conversion = one["spec"].get("conversion", {}) if one["kind"] == CRD else {}
        if "webhook" in conversion:
            _redirect(conversion["webhook"]["clientConfig"], url, bundle)
    return objects


def _lead_here(objects: Sequence[Json], port: int) -> None:
    """Make the Services of webhooks lead to the port of this host. The certificate is for the name of the Service."""
    for one in objects:
        if one["kind"] == "Service":
            one["spec"] = {"type": "ExternalName", "externalName": "127.0.0.1"}
        for webhook in one.get("webhooks", []):
            webhook["clientConfig"]["service"]["port"] = port


def _redirect(client: Json, url: str, bundle: str) -> None:
    """Replace the Service of a webhook by a URL."""
    path = client.pop("service", {}).get("path", "/")
    client |= {"url": url + path, "caBundle": bundle}


async def _apply(cluster: Cluster, objects: Sequence[Json]) -> None:
    definitions = [one for one in objects if one["kind"] == CRD]
    for one in definitions:
        add_custom(one)
    rank = {"Namespace": 0, CRD: 1}
    for one in sorted(objects, key=lambda one: rank.get(one["kind"], 2)):
        await cluster.admin.apply(one)
    for one in definitions:
        await until(f"{one['metadata']['name']} is served", partial(_is_served, cluster, one), WAIT_S)


async def _is_served(cluster: Cluster, definition: Json) -> bool:
    found = await cluster.admin.get("customresourcedefinitions", definition["metadata"]["name"])
    conditions = found.get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def _delete_custom(cluster: Cluster, objects: Sequence[Json]) -> None:
    """Delete the custom objects while the controller runs, because it removes their finalizers."""
    specs = [one["spec"] for one in objects if one["kind"] == CRD]
    plurals = [f"{spec['names']['plural']}.{spec['group']}" for spec in specs]

    async def are_gone() -> bool:
        found = [(plural, one["metadata"]) for plural in plurals for one in await cluster.admin.find(plural)]
        for plural, meta in found:
            await cluster.admin.delete(plural, meta["name"], meta.get("namespace"))
        return not found

    await until("the framework's custom objects are gone", are_gone, WAIT_S, every_s=0.2, tolerate=(ApiError,))


async def _delete(cluster: Cluster, objects: Sequence[Json]) -> None:
    for one in reversed(objects):
        resource, meta = of_manifest(one), one["metadata"]
        await cluster.admin.delete(resource.plural, meta["name"], meta.get("namespace"))

    async def are_gone() -> bool:
        for one in objects:
            if one["kind"] in {CRD, "Namespace"} and await _exists(cluster, of_manifest(one).plural, one):
                return False
        return True

    await until("the framework's definitions are gone", are_gone, WAIT_S, every_s=0.1)


async def _exists(cluster: Cluster, plural: str, one: Json) -> bool:
    try:
        await cluster.admin.get(plural, one["metadata"]["name"])
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


async def _ready(process: Process, url: str, port: int) -> None:
    """Wait until the program reports that it is ready, and listens on the port of its webhooks, if it has any."""
    async with aiohttp.ClientSession() as session:

        async def is_ready() -> bool:
            process.check()
            async with session.get(url) as answer:
                return answer.status == 200 and (not port or await _listens(port))

        try:
            await until(f"{process.name} is ready", is_ready, WAIT_S, tolerate=(aiohttp.ClientError,))
        except ConditionNotMet as error:
            raise ProcessFailed(process.name, str(error), process.tail()) from None


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
