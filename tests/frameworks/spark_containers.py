"""Runs the containers of Spark's pods as processes, because the kubelets are simulated: a real driver, real executors.

Spark comes from the PySpark package, with the Java of this machine. A process does what ``entrypoint.sh`` of Spark's
image does with the arguments and the environment of the container; only addresses, ports and paths are those of this
machine.
"""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from devcluster import ports, programs
from devcluster.api import Json
from devcluster.cluster import Cluster
from devcluster.errors import ApiError
from devcluster.frameworks import WAIT_S
from devcluster.process import Process
from devcluster.waiting import until

IN_IMAGE = "/opt/spark"
EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def spark_home() -> Path:
    """Return the folder of Spark; skips the test where Spark or Java is missing."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or later, for example `apt-get install openjdk-17-jre-headless`")
    home = programs.packages_folder(programs.PYSPARK) / "pyspark"
    if not home.exists():
        pytest.skip("Spark is not installed: `python -m devcluster build --frameworks` installs it")
    return home


def environment(pod: Json, folder: Path) -> dict[str, str]:
    """The variables of the pod's container that have a value in the manifest, and those of this machine."""
    home = spark_home()
    here = {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    python = {"PYTHONPATH": str(home.parent), "PYSPARK_PYTHON": sys.executable}
    written = {one["name"]: one["value"] for one in pod["spec"]["containers"][0].get("env", []) if "value" in one}
    return {**written, **here, **python}


async def mounted(cluster: Cluster, pod: Json, folder: Path) -> dict[str, str]:
    """Write the ConfigMaps of the pod's volumes into the folder. Returns the local path of each mount path."""
    paths = {one["name"]: one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"]}
    volumes = [one for one in pod["spec"]["volumes"] if "configMap" in one]
    local = {paths[one["name"]]: str(folder / one["name"]) for one in volumes}
    for volume in volumes:
        name = volume["configMap"]["name"]

        async def found(name: str = name) -> Json:
            return await cluster.admin.get("configmaps", name, pod["metadata"]["namespace"])

        # spark-submit creates it after the pod, and a kubelet waits for it too.
        data = (await until(f"{name} exists", found, WAIT_S, tolerate=(ApiError,)))["data"]
        (folder / volume["name"]).mkdir()
        for item in volume["configMap"].get("items") or [{"key": key, "path": key} for key in data]:
            (folder / volume["name"] / item["path"]).write_text(_with(local, data[item["key"]]))
    return local


def _with(paths: Mapping[str, str], text: str) -> str:
    for path, local in paths.items():
        text = text.replace(path, local)
    return text


async def driver(cluster: Cluster, pod: Json, folder: Path) -> Process:
    """Return the process of a driver's container, not started. The pod's own service account is used."""
    home = spark_home()
    local = await mounted(cluster, pod, folder)
    kubeconfig = await cluster.kubeconfig_for(pod["spec"]["serviceAccountName"], pod["metadata"]["namespace"])
    token = folder / "token"
    token.write_text(yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"])
    port, blocks = ports.free(2)
    here = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.port": str(port),
        "spark.driver.blockManager.port": str(blocks),
        "spark.ui.enabled": "false",
        "spark.kubernetes.driver.master": cluster.server,
        "spark.kubernetes.authenticate.driver.mounted.oauthTokenFile": str(token),
        "spark.kubernetes.authenticate.driver.mounted.caCertFile": str(cluster.authority),
    }
    _, *arguments = pod["spec"]["containers"][0]["args"]  # the first one is `driver`
    arguments = [_with({**local, f"local://{IN_IMAGE}": str(home)}, one) for one in arguments]
    settings = [part for key, value in here.items() for part in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), *settings, "--deploy-mode", "client", *arguments]
    env = {**environment(pod, folder), "SPARK_CONF_DIR": local[f"{IN_IMAGE}/conf"]}
    return Process(pod["metadata"]["name"], command, folder / "driver.log", env=env)


@asynccontextmanager
async def executors(pods: list[Json], folder: Path) -> AsyncIterator[list[Process]]:
    """Runs the processes of the executors' containers."""
    java, home = shutil.which("java") or "java", spark_home()
    processes = []
    for pod in pods:
        env = environment(pod, folder)
        options = [value for key, value in env.items() if key.startswith("SPARK_JAVA_OPT_")]
        command = [java, *options, f"-Xmx{env['SPARK_EXECUTOR_MEMORY']}", "-cp", f"{home}/jars/*", EXECUTOR]
        for flag, value in {
            "--driver-url": env["SPARK_DRIVER_URL"],
            "--executor-id": env["SPARK_EXECUTOR_ID"],
            "--cores": env["SPARK_EXECUTOR_CORES"],
            "--app-id": env["SPARK_APPLICATION_ID"],
            "--hostname": "127.0.0.1",
            "--bind-address": "127.0.0.1",
            "--resourceProfileId": env["SPARK_RESOURCE_PROFILE_ID"],
            "--podName": pod["metadata"]["name"],
        }.items():
            command += [flag, value]
        processes.append(Process(pod["metadata"]["name"], command, folder / f"{pod['metadata']['name']}.log", env=env))
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        await asyncio.gather(*(process.stop(grace_s=2.0) for process in processes))
