"""Servers that lie, to clients of `/mcp`: each call ends, nothing runs twice, and nobody loses a name."""

import http.client
import json
import time

import pytest

from gateway import Gateway, Origin, until

POLICY = "permit (principal, action, resource);"


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    liar, good = Origin(program="lying.py"), Origin(program="lying.py")
    servers = {"a": {"url": good.url, "list_ms": 0}, "liar": {"url": liar.url, "list_ms": 0}}
    with Gateway(tmp_path_factory.mktemp("lies"), servers, policy=POLICY, limits={"answer_ms": 3000},
                 scan={"pins": False}) as gateway:
        until(lambda: all(gateway.request("GET", "/health").json()["revisions"].values()), "what the servers speak")
        yield gateway, liar
        gateway.verify()
    liar.stop()
    good.stop()


def call(gateway, tool, modern=False):
    params, fields = {"name": tool, "arguments": {}}, {}
    if modern:
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {prefix + "protocolVersion": "2026-07-28", prefix + "clientCapabilities": {}}
        fields = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return gateway.request("POST", "/mcp", json.dumps(message), {**gateway.headers("dev"), **fields})


@pytest.mark.parametrize("modern", [False, True])
def test_a_404_of_a_call_runs_it_once(ground, modern):
    gateway, liar = ground
    before = liar.seen().get("gone", 0)
    began = time.monotonic()
    call(gateway, "liar__gone", modern)
    assert liar.seen()["gone"] == before + 1 and time.monotonic() - began < 10


def test_a_long_name_is_nobody_elses(ground):
    gateway, liar = ground
    said = call(gateway, "liar__a__read").json()
    assert said["result"]["content"][0]["text"] == "a__read"
    # `a` has no `read`: its long name is not that of the liar's tool.
    assert call(gateway, "a__read").json()["error"]["data"]["code"] in ("mcp.item_unknown", "mcp.name_clash")


def test_a_silent_server_stalls_nobody_else(ground):
    gateway, liar = ground
    assert "result" in call(gateway, "a__echo").json()
    connection = http.client.HTTPConnection("127.0.0.1", liar.port, timeout=5)
    connection.request("GET", "/silent")
    connection.getresponse().read()
    for _ in range(3):
        began = time.monotonic()
        assert "result" in call(gateway, "a__echo").json()
        assert time.monotonic() - began < 2
