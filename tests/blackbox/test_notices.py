"""What the gateway says while it serves: refusals, tools that are held, what changed, and how its servers are."""

import asyncio
import http.client
import json
import os
import re
import socket
import subprocess
import sys

import pytest

from gateway import SERVERS, WEIR, Gateway, child_server, until
from test_clients import connected, text_of
from test_hub import health
from test_pins import POISON, Changing, add, called, listed, subtract, waits

FORBIDS = """
permit (principal, action, resource);
forbid (principal, action == Action::"mcp:call", resource == Tool::"child/forbidden");
"""


def warnings(gateway, text):
    """The warnings whose message begins so, as the log has them."""
    lines = [json.loads(line) for line in gateway.logs.text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["level"] == "WARN" and line["message"].startswith(text)]


def told(gateway, text, count=1):
    return until(lambda: len(found := warnings(gateway, text)) >= count and found, f"{count} of {text!r}")


def test_refusals_are_told_with_a_bound(tmp_path):
    with Gateway(tmp_path, {"child": child_server()}, policy=FORBIDS) as gateway:
        session = gateway.session("child")
        refused = [session.call("forbidden").refusal() for _ in range(5)]
        assert {code for code, _, _ in refused} == {"policy.forbidden"}
        line = told(gateway, "refused")[0]
        assert (line["agent"], line["server"], line["tool"], line["code"]) == \
            ("dev", "child", "forbidden", "policy.forbidden")
        assert line["call"] == refused[0][2]
        # An answer that the scan stops is another refusal, by its rule; it passed first.
        stopped = session.call("inject").refusal()
        line = told(gateway, "refused", 2)[1]
        assert (line["agent"], line["server"], line["tool"], line["code"]) == ("dev", "child", "inject", stopped[0])
        assert line["rule"] and line["call"] == stopped[2], line
        assert "Ignore all" not in gateway.logs.text()
        # A stranger has no name.
        gateway.post("child", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, None)
        assert told(gateway, "refused", 3)[2]["agent"] == "(unknown)"
    # What was only counted is told at the end.
    rest = warnings(gateway, "refused, and 4 more")
    assert [(line["agent"], line["code"]) for line in rest] == [("dev", "policy.forbidden")], gateway.logs.text()


def test_held_and_new_tools_are_told(tmp_path):
    server = Changing(tmp_path / "tools", "calc", add())
    with Gateway(tmp_path / "weir", {"calc": server.command()}) as gateway:
        assert listed(gateway, "calc") == ["add"]
        server.set(add(POISON), subtract())
        assert listed(gateway, "calc") == ["subtract"]
        line = told(gateway, "a tool is held")[0]
        assert (line["server"], line["name"], line["why"]) == ("calc", "add", "it is not what was approved")
        assert called(gateway, "calc", "add") == "scan.tool"
        waits(gateway, "calc", "add", "changed")
        # The command that is told does it.
        gateway.weir(*line["approve"].split()[1:])
        until(lambda: listed(gateway, "calc") == ["add", "subtract"], "the tool is listed again")
    with gateway:
        server.set(add(POISON), subtract(), {**subtract(), "name": "multiply"})
        assert "multiply" in listed(gateway, "calc")
        line = told(gateway, "a server has a new tool")[0]
        assert (line["server"], line["name"]) == ("calc", "multiply")


SLOW = """
import os, sys
sys.path.insert(0, {servers!r})
open({begun!r}, "a").write("x\\n")
with open({gate!r}) as gate:  # Until the test lets it begin.
    gate.read()
os.execv(sys.executable, [sys.executable, {child!r}])
"""


def test_a_server_that_starts_is_not_down(tmp_path):
    gate, begun, script = tmp_path / "gate", tmp_path / "begun", tmp_path / "slow.py"
    os.mkfifo(gate)
    names = {"servers": str(SERVERS), "gate": str(gate), "begun": str(begun), "child": str(SERVERS / "child.py")}
    script.write_text(SLOW.format(**names))
    # One that accepts and says nothing.
    silent = socket.create_server(("127.0.0.1", 0))
    servers = {
        "slow": {"command": [sys.executable, str(script)]},
        "silent": {"url": f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"},
    }
    with Gateway(tmp_path / "weir", servers) as gateway:
        until(begun.exists, "the server is started")
        assert health(gateway) == {"slow": "starting", "silent": "starting"}
        ready = gateway.request("GET", "/health/ready")
        assert (ready.status, ready.json()["status"]) == (503, "starting")
        page = gateway.operator("/metrics").body.decode()
        starting = dict(re.findall(r'weir_server_starting\{server="(\w+)"\} (\d)', page))
        assert starting == {"slow": "1", "silent": "1"}
        assert dict(re.findall(r'weir_server_up\{server="(\w+)"\} (\d)', page)) == {"slow": "0", "silent": "0"}
        # Each of its starts is let through.
        silent.close()

        def works():
            try:
                os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                pass  # Nothing of it waits now.
            return health(gateway)["slow"] == "works"
        until(works, "the server works")
        until(lambda: health(gateway)["silent"] == "down", "the other was seen to fail")
        assert gateway.request("GET", "/health/ready").json()["status"] == "degraded"


def test_a_server_that_comes_back_is_told(tmp_path):
    broken = tmp_path / "broken"
    script = tmp_path / "server.py"
    script.write_text(f"import os, sys\nif os.path.exists({str(broken)!r}): sys.exit(3)\n"
                      f"os.execv(sys.executable, [sys.executable, {str(SERVERS / 'child.py')!r}])\n")
    broken.touch()
    with Gateway(tmp_path / "weir", {"child": {"command": [sys.executable, str(script)]}}) as gateway:
        assert told(gateway, "a server does not work")[0]["server"] == "child"
        broken.unlink()
        assert told(gateway, "a server works again")[0]["server"] == "child"


def test_a_child_that_ends_takes_its_server_from_nobody(tmp_path):
    agents, toolsets = {"one": {}, "other": {}}, {"desk": {"servers": ["child"]}}
    with Gateway(tmp_path, {"child": child_server()}, agents, toolsets=toolsets) as gateway:
        until(lambda: health(gateway)["child"] == "works", "the server works")
        other = gateway.session("@desk", "other")
        one = gateway.session("child", "one")
        assert one.call("die").refusal()[0] == "mcp.server_down"
        until(lambda: "a server's child ended" in gateway.logs.text(), "it ended")
        # Neither the health page nor who lists the tools of all servers hears of it.
        assert health(gateway) == {"child": "works"}
        listed = other.ask("tools/list", {}).messages()[-1]["result"]
        assert any("echo" in tool["name"] for tool in listed["tools"]), listed
        assert "weir/missing" not in json.dumps(listed), listed


def test_a_server_that_cannot_run_is_started_ever_less_often_by_all_sessions(tmp_path):
    starts, script = tmp_path / "starts", tmp_path / "ends.py"
    script.write_text(f"open({str(starts)!r}, 'a').write('x')\n")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    agents = {f"agent-{i}": {} for i in range(5)}
    servers = {"ends": {"command": [sys.executable, str(script)]}}
    with Gateway(tmp_path / "weir", servers, agents) as gateway:
        until(lambda: health(gateway)["ends"] == "down", "it was asked")
        before = len(starts.read_text())
        answers = [gateway.post("ends", message, agent) for _ in range(8) for agent in agents]
        assert {answer.refusal()[0] for answer in answers} == {"mcp.server_down"}
        # Forty sessions were begun: the server was started a few times, as its back-off had it, or was asked again.
        assert len(starts.read_text()) - before <= 12
        assert any("retry" in answer.body.decode() for answer in answers), answers[-1].body


def test_a_client_of_a_newer_revision_is_not_refused(tmp_path):
    """It asks in its own revision first, and goes on in the server's."""
    with Gateway(tmp_path, {"child": child_server()}) as gateway:
        until(lambda: health(gateway)["child"] == "works", "the server works")

        async def work():
            async with connected(gateway, "child", "dev") as client:
                assert client.protocol_version == "2025-11-25"
                assert text_of(await client.call_tool("echo", {"text": "hello"})) == "hello"
        asyncio.run(work())
        # One that is newer than the gateway.
        meta = {f"io.modelcontextprotocol/{name}": value for name, value in
                (("protocolVersion", "2031-01-01"), ("clientCapabilities", {}), ("clientInfo", {"name": "n", "version": "1"}))}

        def ask(method):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
            return gateway.post("child", message, mcp_protocol_version="2031-01-01", mcp_method=method)
        answer = ask("server/discover")
        assert answer.status == 400 and answer.json()["error"]["data"]["supported"] == ["2026-07-28"], answer.body
        def ends():
            records = gateway.records()
            assert [record["refusal"] for record in records if record.get("decision") == "refuse"] == []
            asked = [record["call"] for record in records if record.get("method") == "server/discover"
                     and record["agent"] == "dev"]
            ends = [record for record in records if record["kind"] == "outcome" and record["call"] in asked]
            return len(ends) == 2 and {(end["end"], end["why"], end["status"]) for end in ends}
        # Its outcome is written after it is answered.
        assert until(ends, "both were asked") == {("complete", "mcp.revision", 400)}
        # What asks for something else in such a revision is refused, and told of.
        assert ask("tools/list").refusal()[0] == "mcp.revision"
        assert told(gateway, "refused")[0]["code"] == "mcp.revision"


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_client_that_sends_before_it_reads_hears_the_refusal(tmp_path, framing):
    """As Python's own client and those made of it do."""
    piece, pieces = b"x" * (1 << 20), 40
    with Gateway(tmp_path, {"child": child_server()}) as gateway:
        for agent, wanted in (("dev", (413, "http.body_too_large")), (None, (401, "agent.key_missing"))):
            connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
            headers = gateway.headers(agent)
            if framing == "length":
                headers["content-length"] = str(len(piece) * pieces)
            connection.request("POST", "/mcp/child", iter([piece] * pieces), headers,
                               encode_chunked=framing == "chunks")
            answer = connection.getresponse()
            code = json.loads(answer.read())["error"]["data"]["code"]
            assert (answer.status, code) == wanted
            connection.close()


def test_a_port_is_not_shared(tmp_path):
    """The kernel would let two programs of one user listen on one port, and give each half of the connections."""
    with Gateway(tmp_path / "weir", {"child": child_server()}) as gateway:
        def fails(*command):
            done = subprocess.run([str(WEIR), *command], cwd=tmp_path, capture_output=True, text=True, timeout=20)
            assert done.returncode == 2, done
            return done.stderr
        taken = f"127.0.0.1:{gateway.port}"
        assert f"{taken} is in use" in fails("lab", "target", "--listen", taken)
        config = json.loads((tmp_path / "weir/weir.yaml").read_text())
        other = {**config, "listen": taken, "state": "other", "policy": "weir/policy.cedar"}
        (tmp_path / "weir.yaml").write_text(json.dumps(other))
        assert f"{taken} is in use" in fails("serve")
    target = subprocess.Popen([str(WEIR), "lab", "target", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        at = re.search(r"127\.0\.0\.1:\d+", target.stdout.readline())[0]
        (tmp_path / "weir.yaml").write_text(json.dumps({**other, "listen": at}))
        assert f"{at} is in use" in fails("serve")
        assert f"{at} is in use" in fails("lab", "target", "--listen", at)
    finally:
        target.kill()
        target.wait()
        target.stdout.close()
