"""Fixtures: a gateway before the misbehaving servers, started once for the tests that leave it whole."""

import pytest

from gateway import Gateway, Origin, child_server
from postgres import Board, Cluster

EXPIRED = "2020-01-01T00:00:00Z"

# `dev` may call everything but one tool; `guest` may only list and echo.
POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);
@id("dev-calls") permit (principal in Group::"engineers", action == Action::"mcp:call", resource)
  unless { resource.name == "forbidden" };
@id("guest-echo") permit (principal == Agent::"guest", action == Action::"mcp:call", resource)
  when { resource.name == "echo" };
"""

AGENTS = {
    "dev": {"groups": ["engineers"]},
    "guest": {"groups": ["guests"]},
    "old": {"groups": ["engineers"], "expires": EXPIRED},
}


@pytest.fixture(scope="session")
def origin():
    server = Origin()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def gateway(origin, tmp_path_factory):
    """Before the web server as `web` and the same as a child, `child`; short limits of time."""
    servers = {"web": {"url": origin.url}, "child": child_server()}
    limits = {"body_bytes_max": 65536, "head_ms": 500, "body_ms": 700}
    folder = tmp_path_factory.mktemp("shared")
    with Gateway(folder, servers, AGENTS, POLICY, limits=limits) as running:
        yield running
        running.verify()


@pytest.fixture(scope="session")
def cluster():
    """A PostgreSQL server with a database of flow that tests share, each with a tenant of its own."""
    server = Cluster()
    server.database("flow")
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def board(request, tmp_path):
    """Where a board is, on each store."""
    if request.param == "sqlite":
        return Board(tmp_path / "flow")
    return Board(tmp_path / "flow", request.getfixturevalue("cluster"), "flow")
