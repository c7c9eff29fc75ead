"""Which pod a port-forward goes to, and which port of it."""

from typing import Any

import pytest

from muster.clients import port_forward

Json = dict[str, Any]
REST = {"name": "rest", "containerPort": 9999}


def a_pod(name: str, *containers: Json) -> Json:
    return {"metadata": {"name": name, "namespace": "muster"}, "spec": {"containers": list(containers)}}


def test_the_port_is_the_one_that_is_called_rest_else_the_usual_one() -> None:
    operator = {"name": "operator", "ports": [{"name": "health", "containerPort": 8081}]}
    assert port_forward.port_of(a_pod("both", operator, {"name": "core", "ports": [REST]})) == 9999
    assert port_forward.port_of(a_pod("plain", operator)) == 9080
    assert port_forward.port_of({"metadata": {}}) == 9080


def test_a_pod_of_the_operator_alone_is_left_out_where_the_core_has_its_own() -> None:
    core, operator = a_pod("core", {"name": "core", "ports": [REST]}), a_pod("operator", {"name": "operator"})
    assert port_forward.with_core([operator, core]) == [core]
    assert port_forward.with_core([operator]) == [operator]


@pytest.mark.parametrize(
    "container, is_tls",
    [
        ({"args": ["--rest-port=9080"]}, False),
        ({"args": ["--rest-tls-cert=/run/tls.crt", "--rest-tls-key=/run/tls.key"]}, True),
        ({"command": ["muster-core", "--rest-tls-cert", "/run/tls.crt"]}, True),
        ({"env": [{"name": "MUSTER_CORE_REST_TLS_CERT", "value": "/run/tls.crt"}]}, True),
        ({"env": [{"name": "MUSTER_CORE_REST_PORT", "value": "1"}]}, False),
    ],
)
def test_what_starts_the_core_says_whether_it_serves_tls(container: Json, *, is_tls: bool) -> None:
    assert port_forward.serves_tls(a_pod("p", container)) is is_tls
