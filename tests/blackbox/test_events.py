"""Servers over HTTP+SSE of 2024-11-05, behind the clients of today: an official one, and some that lie."""

import asyncio
import http.client
import json
import subprocess
import sys

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CreateMessageResult, TextContent

from gateway import LEGACY_PYTHON, SERVERS, Gateway, Origin, until

EVENTS = "2024-11-05"
TOKEN = "of-the-server-5fG7hJ9kL1mN3pQ5"


class EventsOrigin(Origin):
    def __init__(self, mode, port=0):
        command = [sys.executable, str(SERVERS / "events.py"), mode, str(port)]
        if mode == "official":
            command = [str(LEGACY_PYTHON), str(SERVERS / "official_events.py")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[-1])
        self.url = f"http://127.0.0.1:{self.port}" + ("/sse" if mode == "official" else "/a/sse")

    def end_streams(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("POST", "/end")
        assert connection.getresponse().status == 200

    def calls(self):
        """The calls that reached it."""
        messages = [seen for seen in self.seen() if isinstance(seen, dict)]
        return [seen for seen in messages if seen["message"].get("method") == "tools/call"]


MODES = ("official", "good", "relative", "elsewhere", "none", "late", "twice", "huge", "foreign", "refuses")


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    origins = {mode: EventsOrigin(mode) for mode in MODES}
    servers = {mode: {"url": origin.url} for mode, origin in origins.items()}
    servers["good"]["token"] = "env:EVENTS_TOKEN"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENTS_TOKEN", TOKEN)
        with Gateway(tmp_path_factory.mktemp("events"), servers, limits={"answer_ms": 3000}) as gateway:
            def found():
                spoken = gateway.request("GET", "/health").json()["revisions"]
                return all(spoken[mode] == [EVENTS] for mode in MODES if mode not in ("none", "late"))
            until(found, "that the servers speak HTTP+SSE")
            yield gateway, origins
            gateway.verify()
            assert gateway.rss_peak_kb() < 64 << 10
    for origin in origins.values():
        origin.stop()


def test_the_official_client_of_today_before_the_official_server_of_then(ground):
    gateway, _ = ground

    async def answer(context, params):
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="me"), model="none")

    async def script():
        seen = []

        async def progress(done, total, message):
            seen.append(done)
        headers = {"authorization": f"Bearer {gateway.keys['dev']}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as web:
            transport = streamable_http_client(gateway.url("official"), http_client=web)
            async with Client(transport, mode="auto", sampling_callback=answer) as client:
                assert {tool.name for tool in (await client.list_tools()).tools} == {"echo", "steps", "ask"}
                said = await client.call_tool("echo", {"text": "hello"})
                assert said.content[0].text == "hello"
                said = await client.call_tool("steps", {}, progress_callback=progress)
                assert said.content[0].text == "stepped" and seen == [0, 1, 2]
                # The server asks on its stream, and is answered by a POST.
                said = await client.call_tool("ask", {})
                assert said.content[0].text == "me"
    asyncio.run(script())


def test_a_session_has_a_stream_of_its_own_and_only_that_server_gets_its_token(ground):
    gateway, origins = ground
    before = origins["good"].seen().count("GET")
    one, two = gateway.session("good"), gateway.session("good")
    for session in (one, two):
        assert b"hello" in session.call("echo", "hello").body
    assert origins["good"].seen().count("GET") == before + 2
    assert {call["authorization"] for call in origins["good"].calls()} == {f"Bearer {TOKEN}"}
    assert b"hello" in gateway.session("relative").call("echo", "hello").body
    assert origins["relative"].calls()[-1]["authorization"] is None
    # A session that ends closes its stream.
    ended = gateway.request("DELETE", "/mcp/good", None, gateway.headers(**one.extra))
    assert ended.status == 200
    assert one.call("echo").status == 404
    assert b"still" in two.call("echo", "still").body


def test_a_stream_that_ends_takes_its_calls_along_and_is_opened_again(ground):
    gateway, origins = ground
    session = gateway.session("good")
    assert session.call("end").refusal()[0] == "mcp.server_down"

    def again():
        return b"again" in session.call("echo", "again").body
    until(again, "the session goes on")
    said = [seen["message"]["method"] for seen in origins["good"].seen()[-4:] if isinstance(seen, dict)]
    assert said[-3:] == ["initialize", "notifications/initialized", "tools/call"], said


def test_messages_go_nowhere_else(ground):
    gateway, origins = ground
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}
    answer = gateway.post("elsewhere", hello)
    assert answer.refusal()[0] == "mcp.endpoint_elsewhere", answer.body
    assert "mcp-session-id" not in answer.headers
    assert [seen for seen in origins["elsewhere"].seen() if isinstance(seen, dict)] == []


@pytest.mark.parametrize("mode, codes", [
    ("twice", {"mcp.server_down"}),
    ("huge", {"mcp.answer_too_large", "mcp.server_down"}),
    ("foreign", {"mcp.server_down"}),
    ("refuses", {"mcp.server_down"}),
])
def test_a_server_that_lies_ends_its_call(ground, mode, codes):
    gateway, _ = ground
    answer = gateway.session(mode).call("never")
    assert answer.refusal()[0] in codes, answer.body[:500]


def test_a_server_without_an_endpoint_is_none_of_these(ground):
    """It works, as far as anybody can say, and what it answers is passed on."""
    gateway, _ = ground
    for mode in ("none", "late"):
        until(lambda: gateway.request("GET", "/health").json()["servers"][mode] == "works", f"{mode} was asked")
        answer = gateway.post(mode, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status == 405, answer.body


def test_a_client_of_2026_07_28_is_told_what_is_spoken(ground):
    gateway, _ = ground
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    answer = gateway.request("POST", "/mcp/good", json.dumps(message),
                             gateway.headers(mcp_protocol_version="2026-07-28", mcp_method="tools/list"))
    assert answer.status == 400 and answer.json()["error"]["data"]["supported"] == [EVENTS], answer.body
