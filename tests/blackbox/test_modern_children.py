"""Children of 2026-07-28: one for all calls of an agent, though each client chooses ids and tokens for itself."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from gateway import SERVERS, WEIR, Gateway, child_server, until
from test_stops import change, set_stop

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
AGENTS = {"dev": {"groups": ["engineers"]}, "eve": {"groups": ["engineers"]}}


def modern_server(**more):
    return {"command": [sys.executable, str(SERVERS / "modern.py")], **more}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    servers = {"new": modern_server(agent_sessions_max=2), "old": child_server()}
    with Gateway(tmp_path_factory.mktemp("modern"), servers, AGENTS, limits={"answer_ms": 2000}) as running:
        def found():
            health = running.request("GET", "/health").json()
            return health["revisions"] == {"new": [MODERN], "old": ["2025-11-25"]}
        until(found, "what the servers speak")
        yield running
        running.verify()


def request(method, id=1, token=None, level=None, **params):
    meta = {**META}
    if token is not None:
        meta["progressToken"] = token
    if level:
        meta["io.modelcontextprotocol/logLevel"] = level
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta, **params}}


def fields(gateway, message, agent="dev"):
    name = message["params"].get("name")
    named = {"mcp_name": name} if name else {}
    return gateway.headers(agent, mcp_protocol_version=MODERN, mcp_method=message["method"], **named)


def send(gateway, message, agent="dev", server="new"):
    return gateway.request("POST", f"/mcp/{server}", json.dumps(message), fields(gateway, message, agent))


def call(gateway, name, agent="dev", server="new", **more):
    return send(gateway, request("tools/call", name=name, arguments={}, **more), agent, server)


def said(answer):
    """What the server says of itself in its answer."""
    return json.loads(answer.messages()[-1]["result"]["content"][0]["text"])


class Stream:
    """An answer that is read event by event."""

    def __init__(self, gateway, message, agent="dev"):
        self.connection = gateway.connect()
        self.connection.request("POST", "/mcp/new", json.dumps(message), fields(gateway, message, agent))
        self.response = self.connection.getresponse()
        assert self.response.headers["content-type"] == "text/event-stream", self.response.read()

    def next(self):
        """The next message; nothing at the end."""
        while line := self.response.readline():
            if line.startswith(b"data:"):
                return json.loads(line[5:])
        return None

    def close(self):
        self.response.close()
        self.connection.close()


def test_no_session_is_needed_and_a_child_is_kept(gateway):
    first, second = said(call(gateway, "echo", id="a")), said(call(gateway, "echo", id="a"))
    assert first["pid"] == second["pid"] and first["id"] != second["id"]
    # Another agent's is another.
    assert said(call(gateway, "echo", agent="eve"))["pid"] != first["pid"]
    answer = call(gateway, "echo", id="mine")
    assert answer.messages()[-1]["id"] == "mine" and "mcp-session-id" not in answer.headers


def test_two_clients_with_the_same_id_and_token(gateway):
    answers = [None, None]

    def one(place, name):
        answers[place] = call(gateway, name, id=7, token="t")
    threads = [threading.Thread(target=one, args=(place, "progress")) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        *told, last = answer.messages()
        assert [message["params"] for message in told] == [
            {"progressToken": "t", "progress": 1}, {"progressToken": "t", "progress": 2}], answer.body
        assert last["id"] == 7
    sent = [said(answer) for answer in answers]
    assert sent[0]["pid"] == sent[1]["pid"]
    assert len({one["progress"] for one in sent}) == 2 and "t" not in {one["progress"] for one in sent}


def test_the_log_is_for_who_asked(gateway):
    assert len(call(gateway, "log").messages()) == 1
    told, _ = call(gateway, "log", level="info").messages()
    assert told["method"] == "notifications/message"


def test_statuses(gateway):
    assert send(gateway, request("tools/list")).status == 404
    assert call(gateway, "wrong").status == 400
    assert call(gateway, "echo").status == 200


def test_a_server_that_does_not_speak_it(gateway):
    answer = call(gateway, "echo", server="old")
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (400, -32022), answer.body
    assert error["data"]["supported"] == ["2025-11-25"], answer.body


def test_a_server_that_asks_is_not_heard(gateway):
    assert len(call(gateway, "ask", token="t").messages()) == 1


@pytest.mark.parametrize("name", ["never", "started"])
def test_a_client_that_leaves(gateway, name):
    """Before the first byte of its answer, and in the middle of it: the server learns that nobody waits."""
    message = request("tools/call", name=name, arguments={}, token="t")
    before = said(call(gateway, "echo"))
    if name == "started":
        stream = Stream(gateway, message)
        assert stream.next()["method"] == "notifications/progress"
        stream.close()
    else:
        connection = gateway.connect()
        connection.request("POST", "/mcp/new", json.dumps(message), fields(gateway, message))
        until(lambda: len(said(call(gateway, "echo"))["waiting"]) > len(before["waiting"]), "the server works on it")
        connection.close()
    def told():
        now = said(call(gateway, "echo"))
        return now["waiting"][-1] in now["cancelled"]
    until(told, "the server is told")


def test_a_call_that_lasts_too_long_is_cancelled(gateway):
    assert call(gateway, "never").refusal()[0] == "mcp.server_slow"
    now = said(call(gateway, "echo"))
    assert now["waiting"][-1] in now["cancelled"]


def listen(gateway, id, agent="dev"):
    stream = Stream(gateway, request("subscriptions/listen", id=id, notifications={"toolsListChanged": True}), agent)
    first = stream.next()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["_meta"][SUBSCRIPTION] == id, first
    return stream


def test_subscriptions(gateway):
    one, two = listen(gateway, 1), listen(gateway, 1)
    # No more than sessions.
    third = send(gateway, request("subscriptions/listen", notifications={}))
    assert third.refusal()[0] == "mcp.server_busy", third.body
    other = listen(gateway, "x", "eve")
    call(gateway, "change")
    for stream in (one, two):
        changed = stream.next()
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"]["_meta"][SUBSCRIPTION] == 1
    # A client that leaves ends its own alone.
    two.close()
    until(lambda: len(said(call(gateway, "echo"))["listening"]) == 1, "the server is told")
    call(gateway, "change")
    assert one.next()["params"]["_meta"][SUBSCRIPTION] == 1
    call(gateway, "finish")
    ended = one.next()
    assert ended["id"] == 1 and ended["result"]["_meta"][SUBSCRIPTION] == 1, ended
    assert one.next() is None
    # The server ends the other one without an answer.
    call(gateway, "end", agent="eve")
    assert other.next() is None
    other.close()


def test_a_child_that_dies_takes_its_calls_along_and_the_next_has_another(gateway):
    stream = listen(gateway, "l")
    before = said(call(gateway, "echo"))["pid"]
    assert call(gateway, "die").refusal()[0] == "mcp.server_down"
    assert stream.next()["error"]["data"]["code"] == "mcp.server_down"
    assert stream.next() is None

    def again():
        answer = call(gateway, "echo")
        return b'"result"' in answer.body and said(answer)
    assert until(again, "another child")["pid"] != before
    listen(gateway, "l").close()


def test_no_session_id_names_a_shared_child(gateway):
    call(gateway, "echo")
    for named in ("new dev ", "new dev"):
        answer = gateway.post("new", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, mcp_session_id=named)
        assert answer.status == 404 and answer.refusal()[0] == "mcp.session_unknown", answer.body


def test_a_stop_ends_what_runs_on_a_shared_child(tmp_path):
    with Gateway(tmp_path, {"new": modern_server()}, AGENTS) as gateway:
        streams = [listen(gateway, 1), listen(gateway, 1, "eve")]
        change(gateway, set_stop("agent:dev"))
        said = streams[0].next()
        assert said["error"]["data"]["code"] == "gate.stopped", said
        assert streams[0].next() is None
        # Another agent's goes on.
        assert "result" in call(gateway, "change", agent="eve").messages()[-1]
        assert streams[1].next()["method"] == "notifications/tools/list_changed"
        streams[1].close()
        gateway.verify()


def test_a_wrapped_server(tmp_path):
    command = [str(WEIR), "mcp", "wrap", "--state", str(tmp_path / "state"), "--", *modern_server()["command"]]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def say(message):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()

    def next_message():
        return json.loads(process.stdout.readline())
    try:
        say(request("server/discover", id="d"))
        assert next_message()["result"]["supportedVersions"] == [MODERN]
        say(request("subscriptions/listen", id="l", notifications={}))
        assert next_message()["params"]["_meta"][SUBSCRIPTION] == "l"
        say(request("tools/call", id=2, name="change", arguments={}))
        assert next_message()["params"]["_meta"][SUBSCRIPTION] == "l"
        # What is of no subscription is the client's all the same: it has the server for itself.
        assert next_message()["method"] == "notifications/tools/list_changed"
        assert next_message()["id"] == 2
        say(request("tools/call", id=3, name="ask", arguments={}))
        assert next_message()["id"] == 3
        say(request("tools/call", id=4, name="end", arguments={}))
        assert next_message() == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}}
        assert next_message()["id"] == 4
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


@pytest.mark.parametrize("mode", ["auto", MODERN])
def test_the_official_client_before_a_wrapped_official_server(tmp_path, mode):
    server = [sys.executable, str(SERVERS / "everything.py"), "--stdio"]
    wrap = StdioServerParameters(command=str(WEIR), args=["mcp", "wrap", "--state", str(tmp_path / "state"), "--", *server])

    async def script():
        async with Client(stdio_client(wrap), mode=mode) as client:
            assert client.protocol_version == MODERN
            assert "test_simple_text" in {tool.name for tool in (await client.list_tools()).tools}
            seen = []

            async def progress(done, total, message):
                seen.append(done)
            said = await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
            assert said.content[0].text == "progressed" and seen == [0, 50, 100]
    asyncio.run(script())
