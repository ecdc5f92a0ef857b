"""`stop:` and the state of agents: a reload refuses what comes, ends what runs, and the log says so."""

import http.client
import json

import pytest

from gateway import Gateway, Origin, child_server, until
from test_wrap import CHILD, Raw, outcomes

AGENTS = {"dev": {"groups": ["engineers"]}, "eve": {"groups": ["guests"]}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def running(tmp_path):
    origin = Origin(program="answers.py")
    servers = {"web": {"url": origin.url}, "child": child_server()}
    with Gateway(tmp_path, servers, AGENTS) as gateway:
        yield gateway
        gateway.verify()
    origin.stop()


def change(gateway, edit):
    """Changes the configuration, and returns once it is in force."""
    before = gateway.logs.text().count('"reloaded"')
    path = gateway.folder / "weir.yaml"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config))
    until(lambda: gateway.logs.text().count('"reloaded"') > before, "it is reloaded")


def set_stop(*stops):
    return lambda config: config.update(stop=list(stops))


def set_state(agent, state):
    return lambda config: config["agents"][agent].update(state=state)


def open_streams(gateway, session):
    """A stream of a server over HTTP, one of a child's session, and a call of the child that sends progress for ten
    seconds."""
    streams = []
    mcp = {"mcp-session-id": session.extra["mcp_session_id"]}
    call = {"jsonrpc": "2.0", "id": 99, "method": "tools/call",
            "params": {"name": "stream", "arguments": {}, "_meta": {"progressToken": "p"}}}
    for server, method, extra, body in (("web", "GET", {}, None), ("child", "GET", mcp, None),
                                        ("child", "POST", mcp, json.dumps(call))):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)
        headers = {**gateway.headers(session.agent), **extra}
        if method == "GET":
            headers["accept"] = "text/event-stream"
        connection.request(method, f"/mcp/{server}", body=body, headers=headers)
        streams.append(connection.getresponse())
        assert streams[-1].status == 200
    return streams


def read_to_the_end(stream):
    """What came; a stream that stays open runs into the connection's deadline."""
    try:
        return stream.read()
    except http.client.IncompleteRead as cut:
        return cut.partial
    except ConnectionError:
        return b""


def codes(gateway, agent):
    """The codes that the agent's calls were refused with, as the log has them."""
    refused = [r for r in gateway.records() if r["kind"] == "judgement" and r.get("refusal")]
    return {r["refusal"] for r in refused if r.get("agent") == agent}


ENDED_BY = {
    "agent stopped": (set_stop("agent:eve"), "gate.stopped", 200, ["stop"]),
    "lane stopped": (set_stop("lane:mcp"), "gate.stopped", 200, ["stop"]),
    "all stopped": (set_stop("all"), "gate.stopped", 200, ["stop"]),
    "suspended": (set_state("eve", "suspended"), "agent.suspended", 403, ["agents.eve"]),
    "revoked": (set_state("eve", "revoked"), "agent.revoked", 403, ["agents.eve"]),
}


@pytest.mark.parametrize("by", ENDED_BY)
def test_a_reload_ends_what_runs_and_refuses_what_comes(running, by):
    edit, code, status, changed = ENDED_BY[by]
    session = running.session("child", "eve")
    streams = open_streams(running, session)
    change(running, edit)
    for stream in streams:
        said = read_to_the_end(stream)
        assert b"streamed" not in said, "the call went on to its end"
        assert code.encode() in said, said[-300:]
    refused = running.post("web", PING, "eve")
    # A judged message is refused as JSON-RPC, with 200; a key that is not taken, by the status of HTTP.
    assert (refused.refusal()[0], refused.status) == (code, status), refused.body
    others = running.post("web", PING, "dev")
    if by in ("lane stopped", "all stopped"):
        assert others.refusal()[0] == code
    else:
        assert "result" in others.messages()[-1]
    # What ended stays ended when the agent may call again.
    change(running, lambda config: (set_stop()(config), set_state("eve", "active")(config)))
    assert session.ask("ping", {}).status == 404
    assert "result" in running.session("child", "eve").ask("ping", {}).messages()[-1]
    assert ("was revoked and may call again" in running.logs.text()) == (by == "revoked")
    reloads = [r for r in running.records() if r["kind"] == "admin"]
    assert reloads[0]["changed"] == changed
    assert code in codes(running, "eve")
    (call,) = [r["call"] for r in running.records() if r["kind"] == "judgement" and r.get("tool") == "stream"]
    (end,) = [r["end"] for r in running.records() if r["kind"] == "outcome" and r["call"] == call]
    assert end != "complete"


def test_a_stop_holds_from_the_start(tmp_path):
    with Gateway(tmp_path, {"child": child_server()}, AGENTS, stop="agent:eve") as gateway:
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "blackbox", "version": "1"}}}
        assert gateway.post("child", hello, "eve").refusal()[0] == "gate.stopped"
        gateway.session("child", "dev")


def test_the_log_has_the_state_of_agents_that_are_not_active(running):
    change(running, set_state("eve", "suspended"))
    snapshots = [r for r in running.records() if r["kind"] == "snapshot" and r["of"] == "directory"]
    agents = {agent["name"]: agent for agent in json.loads(snapshots[-1]["text"])["agents"]}
    assert agents["eve"]["state"] == "suspended" and "state" not in agents["dev"]


def test_a_stop_of_nobody_is_refused_and_changes_nothing(running):
    running.session("child", "eve")
    path = running.folder / "weir.yaml"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "stop": ["agent:evee"]}))
    until(lambda: "not reloaded" in running.logs.text(), "it is refused")
    assert "did you mean eve?" in running.logs.text()
    assert "result" in running.post("web", PING, "eve").messages()[-1]


def half_sent(gateway, message):
    """A connection on which the head and the first bytes of a request were sent, and the rest."""
    body = json.dumps(message).encode()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)
    connection.putrequest("POST", "/mcp/web")
    for name, value in {**gateway.headers("eve"), "content-length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(body[:10])
    return connection, body[10:]


@pytest.mark.parametrize("by", ["agent stopped", "revoked"])
def test_who_calls_is_asked_again_when_the_body_is_whole(running, by):
    edit, code, _, _ = ENDED_BY[by]
    connection, rest = half_sent(running, PING)
    # The head was read before: a whole request on another connection is answered.
    assert "result" in running.post("web", PING, "eve").messages()[-1]
    change(running, edit)
    connection.send(rest)
    answer = json.loads(connection.getresponse().read())
    assert answer["error"]["data"]["code"] == code, answer


@pytest.mark.parametrize("by", ["agent stopped", "revoked"])
def test_a_call_that_a_server_works_on_ends(tmp_path, by):
    edit, code, _, _ = ENDED_BY[by]
    origin = Origin()
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "never", "arguments": {"text": ""}}}
    with Gateway(tmp_path, {"web": {"url": origin.url}}, AGENTS) as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
        connection.request("POST", "/mcp/web", json.dumps(call), gateway.headers("eve"))
        until(lambda: origin.seen().get("tools/call never", 0) > 0, "the server works on it")
        change(gateway, edit)
        answer = json.loads(connection.getresponse().read())
        assert answer["error"]["data"]["code"] == code, answer
        end = until(lambda: [r for r in gateway.records() if r["kind"] == "outcome" and r.get("why")], "it is recorded")[0]
        assert (end["end"], end["why"]) == ("failed", code)
        gateway.verify()
    origin.stop()


@pytest.mark.parametrize("by", ENDED_BY)
def test_a_call_that_a_child_works_on_ends(running, by):
    edit, code, status, _ = ENDED_BY[by]
    session = running.session("child", "eve")
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "never", "arguments": {"text": ""}}}
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.request("POST", "/mcp/child", json.dumps(call), running.headers("eve", **session.extra))
    judged = lambda: [r["call"] for r in running.records() if r["kind"] == "judgement" and r.get("tool") == "never"]
    (id,) = until(judged, "the server works on it")
    change(running, edit)
    answer = json.loads(connection.getresponse().read())
    assert (answer["id"], answer["error"]["data"]["code"]) == (5, code), answer
    (end,) = until(lambda: [r for r in running.records() if r["kind"] == "outcome" and r["call"] == id], "it is recorded")
    assert (end["end"], end["why"]) == ("failed", code)
    # The session is gone, and what ended it is said of it for as long as it is in force.
    later = session.ask("ping", {})
    assert (later.refusal()[0], later.status) == (code, status), later.body
    change(running, lambda config: (set_stop()(config), set_state("eve", "active")(config)))
    again = session.ask("ping", {})
    assert (again.refusal()[0], again.status) == ("mcp.session_unknown", 404), again.body


@pytest.mark.parametrize("by", ENDED_BY)
def test_a_call_that_a_wrapped_server_works_on_ends(tmp_path, by):
    edit, code, _, _ = ENDED_BY[by]
    path, state = tmp_path / "weir.yaml", tmp_path / "state"
    config = {"agents": {"eve": {"key": "sha256:" + "0" * 64}}, "policy": "policy.cedar", "state": "elsewhere"}
    (tmp_path / "policy.cedar").write_text("permit (principal, action, resource);")
    path.write_text(json.dumps(config))
    with Raw(state, CHILD, "--config", str(path), "--agent", "eve") as weir:
        weir.begin().call(1, "never")
        weir.call(2, "echo", "before")
        assert weir.next()["id"] == 2
        edit(config)
        path.write_text(json.dumps(config))
        assert weir.code() == (1, code)
        weir.call(3, "echo", "after")
        assert weir.code() == (3, code)
        set_stop()(config)
        set_state("eve", "active")(config)
        path.write_text(json.dumps(config))
        # The server was not ended: the session goes on when the agent may call again.
        ids = iter(range(4, 10_000))

        def passes():
            weir.call(next(ids), "echo", "again")
            return "result" in weir.next()
        until(passes, "calls pass again")
        assert weir.end() == 0
    assert outcomes(state, "never") == ["failed"]
