"""Traces and node files: amounts, gangs, fractions of a GPU, and one message per unusable line."""

from __future__ import annotations

import pytest

from muster_core.foresight.workload import (
    GPU,
    GPU_SHARE,
    SECOND,
    START_NS,
    BadInput,
    TraceOptions,
    read_nodes,
    read_trace,
)
from muster_core.model.resources import Resources

HEAD = "id,submit_s,run_s,estimate_s,pods,cpu_milli,memory_mib,gpu_milli,user,queue"


def test_a_line_of_a_trace_becomes_an_application_with_equal_pods() -> None:
    [job] = read_trace((HEAD, "a,60,10,20,3,500,2,1000,kim,team"), options=TraceOptions(speed=2.0))
    each = Resources({"vcore": 500, "memory": 2 << 20, GPU: 1, "pods": 1})
    assert (job.id, job.application.user, job.application.queue) == ("a", "kim", "root.team")
    assert (job.submit_ns, job.run_ns, job.pods, job.resources) == (
        START_NS + 30 * SECOND,
        10 * SECOND,
        3,
        each.times(3),
    )
    assert job.application.placeholder_ask == each.times(3)


def test_small_jobs_are_no_gangs() -> None:
    one, two = read_trace((HEAD, "a,0,1,,1,,,,,", "b,0,1,,2,,,,,"))
    assert (one.application.is_gang, two.application.is_gang) == (False, True)


def test_parts_of_a_gpu_are_counted_in_thousandths_for_the_complete_trace() -> None:
    part, complete = read_trace((HEAD, "a,0,1,,1,,,460,,", "b,0,1,,1,,,2000,,"))
    assert (part.resources[GPU_SHARE], complete.resources[GPU_SHARE], complete.resources[GPU]) == (460, 2000, 0)


def test_a_line_of_nodes_can_stand_for_many_equal_ones() -> None:
    nodes = read_nodes(("name,cpu_milli,memory_mib,gpu,model,count", "big,64000,1024,8,A100,2", "last,1000,,,,"))
    assert [str(node.id) for node in nodes] == ["big-0", "big-1", "last"]
    assert nodes[0].capacity == Resources({"vcore": 64000, "memory": 1 << 30, GPU: 8, GPU_SHARE: 8000, "pods": 110})
    assert nodes[0].labels == {"kubernetes.io/hostname": "big-0", "nvidia.com/gpu.product": "A100"}


JOB_COLUMNS = "id, submit_s, run_s, estimate_s, pods, cpu_milli, memory_mib, gpu_milli, user, queue"
NODE_COLUMNS = "name, sn, cpu_milli, memory_mib, gpu, model, pods, count"


@pytest.mark.parametrize(
    "lines, message",
    [
        ((), "is empty; name the columns in the first line"),
        (("a,4,8Gi", "b,4,8Gi"), "has no column cpu_milli; name the columns in the first line"),
        (("name,cpu,memory", "a,4,8"), "has no column cpu_milli; write cpu_milli for cpu, memory_mib for memory"),
        (("name,cpu_milli,memory_gb", "a,4,8"), "has an unknown column memory_gb; write memory_mib for memory_gb"),
        (("name,cpu_milli,pod,modl", "a,4"), "has unknown columns pod, modl; write pods for pod, model for modl"),
        (("name,cpu_milli,pod", "a,4,8"), "has an unknown column pod; write pods for pod"),
    ],
)
def test_a_header_without_the_columns_is_answered_with_the_columns(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadInput) as raised:
        read_nodes(lines, "nodes.csv")
    assert str(raised.value) == f"nodes.csv:1: {message}. Columns: {NODE_COLUMNS}"


def test_further_columns_are_ignored_unless_they_resemble_a_missing_one() -> None:
    assert len(read_nodes(["name,cpu_milli,zone,gpu_driver", "a,4000,z,535"])) == 1


@pytest.mark.parametrize(
    "lines, message",
    [
        (
            ("id,pods",),
            f"trace:1: has no column submit_s; name the columns in the first line. Columns: {JOB_COLUMNS}",
        ),
        ((HEAD, "a,0,1,,0,,,,,"), "trace:2: pods '0' is not a number from 1 to 100000"),
        ((HEAD, "a,0,1,,1,,,,,", "a,0,1,,1,,,,,"), "trace:3: id 'a' is the id of an earlier line"),
        ((HEAD, "a,-1,1,,1,,,,,"), "trace:2: submit_s '-1' is not a whole number of at least 0"),
        ((HEAD, f"a,0,1,,1,{1 << 49},,,,"), f"trace:2: cpu_milli '{1 << 49}' is more than {1 << 48}"),
        ((HEAD, "a,0,1,,1,٣,,,,"), "trace:2: cpu_milli '٣' is not a whole number of at least 0"),
    ],
)
def test_an_unusable_line_is_named_with_column_value_and_rule(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadInput) as raised:
        read_trace(lines)
    assert str(raised.value) == message


def test_two_nodes_with_the_same_name_are_refused() -> None:
    with pytest.raises(BadInput, match="two nodes have the same name"):
        read_nodes(("name,cpu_milli", "a,1", "a,1"))
