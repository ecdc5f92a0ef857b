"""A call that is judged is the call that is made: what passes of a message, and whose answer is whose.

The server is `servers/answers.py`, which says what reached it.
"""

import base64
import http.client
import json
import sys
import threading

import pytest

from gateway import SERVERS, Gateway, Origin, child_server, new_key, until

sys.path.insert(0, str(SERVERS))
from parts import BURST  # noqa: E402

AGENTS = {"dev": {"groups": ["engineers"]}, "eve": {"groups": ["engineers"]}}
SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"


class Ground:
    def __init__(self, gateway, origin):
        self.gateway, self.origin = gateway, origin

    def post(self, message, agent="dev", connection=None, **headers):
        return self.gateway.post("web", message, agent, connection, **headers)

    def call(self, tool, id=1, arguments=None, **headers):
        params = {"name": tool, "arguments": arguments or {}}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        return self.post(message, **headers)

    def raw(self, text):
        """Sends a text; gives the refusal's code and whether anything reached the server."""
        before = self.calls()
        answer = self.post(text.encode())
        return answer.refusal()[0], self.calls() > before

    def calls(self):
        """How many messages of agents reached the server; those of the gateway itself are its probe's."""
        own = lambda message: str(message.get("id")).startswith("weir:") or "method" not in message
        return sum(not own(message) for message in self.origin.seen())


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    origin = Origin(program="answers.py")
    with Gateway(tmp_path_factory.mktemp("messages"), {"web": {"url": origin.url}}, AGENTS,
                 limits={"answer_ms": 1500}) as gateway:
        yield Ground(gateway, origin)
        gateway.verify()
    origin.stop()


def request(members, **params):
    params = json.dumps({"name": "echo", "arguments": {}, **params})
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}{members}}}'


@pytest.mark.parametrize("text", [
    request(',"trace":"x"'),
    request(f',"{SECRET}":1'),
    request(',"Method":"tools/list"'),
    request(',"Params":{"name":"twice"}'),
    request(',"result":{}'),
    request("", Name="twice"),
    request("", NAME="twice"),
    request("", **{"argument\u017f": {}}),
    request("", _meta={"ProgressToken": 1}),
    request("", arguments={"text": "a", "Text": "b"}),
    request("", arguments={"deep": [{"a": 1, "A": 2}]}),
    '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}',
    '{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"echo"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call ","params":{"name":"echo"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools//call","params":{"name":"echo"}}',
])
def test_what_two_parsers_may_read_in_two_ways_is_refused(ground, text):
    code, reached = ground.raw(text)
    assert code in ("mcp.message_invalid", "mcp.json_duplicate", "mcp.name_spelling"), code
    assert not reached


def test_names_of_arguments_are_judged_by_the_schema(ground):
    ground.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert ground.call("echo", arguments={"Path": "x"}).refusal()[0] == "mcp.name_spelling"
    assert ground.call("echo", arguments={"headers": {"a": "1", "A": "2"}}).status == 200
    assert "result" in ground.call("echo", arguments={"headers": {"a": "1", "A": "2"}}).json()
    assert "result" in ground.call("echo", arguments={"path": "x", "other": {"y": 1}}).json()
    twice = ground.call("echo", arguments={"other": 1, "Other": 2})
    assert twice.refusal()[0] == "mcp.json_duplicate"


def test_ids_do_not_go_on_and_come_back(ground):
    secret = f"my key is {SECRET}"
    answer = ground.call("echo", id=secret)
    assert answer.json()["id"] == secret
    sent = [m for m in ground.origin.seen() if m.get("method") == "tools/call"][-1]
    assert SECRET not in json.dumps(sent) and isinstance(sent["id"], str)
    before = sent["id"]
    ground.call("echo", id=secret)
    assert ground.origin.seen()[-1]["id"] != before


def test_a_method_and_an_answer_are_scanned_whole(ground):
    for message in [
        {"jsonrpc": "2.0", "id": 1, "method": f"com.example/{SECRET}"},
        {"jsonrpc": "2.0", "id": f"key {SECRET}", "result": {"action": "accept"}},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "no", "data": SECRET}},
    ]:
        assert ground.post(message).refusal()[0] == "scan.secret", message
    assert SECRET not in json.dumps(ground.origin.seen())
    assert ground.post({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}}).status == 202
    assert ground.post({"jsonrpc": "2.0", "id": 7, "method": "com.example/ask"}).json()["result"] == {}


def test_a_tool_whose_description_is_refused_is_held(ground):
    listed = ground.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()["result"]
    assert "poisoned" not in [tool["name"] for tool in listed["tools"]] and "nextCursor" in listed
    code, text, call = ground.call("poisoned").refusal()
    assert code == "scan.tool" and "tool_refused" in text, text
    judged = [r for r in ground.gateway.records() if r.get("call") == call][0]
    assert judged["findings"][0]["rule"] == "tool_refused" and "met" in json.dumps(judged), judged

    def shown():
        rows = json.loads(ground.gateway.weir("pins", "list", "--json").stdout)
        return [row for row in rows if row["tool"] == "poisoned" and row["state"] == "refused"]
    row = until(shown, "the tool is shown as refused")[0]
    assert row["waiting"]["rule"], row


def test_what_stands_beside_the_tools_is_scanned(ground):
    listed = ground.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert SECRET not in listed.body.decode() and "_meta" in listed.json()["result"]


def test_a_stranger_writes_nothing_into_the_log(ground):
    key, _ = new_key("nobody")
    headers = {"authorization": f"Bearer {key}", "x-request-id": "ghp-token-of-a-stranger-1"}
    answer = ground.gateway.request("POST", f"/mcp/{SECRET}", b"{}", headers)
    assert answer.status == 401
    call = answer.refusal()[2]
    judged = [r for r in ground.gateway.records() if r.get("call") == call][0]
    assert "token-of-a-stranger" not in json.dumps(judged) and SECRET not in json.dumps(judged), judged


def test_an_answer_to_another_request_reaches_nobody(ground):
    assert ground.call("wrong", id=7).refusal()[0] == "mcp.answer_invalid"
    assert "first" in ground.call("twice", id=1).body.decode()
    until(lambda: {"answered": "twice"} in ground.origin.seen(), "the second answer is sent")
    for id in (7, "7"):
        answer = ground.call("echo", id=id, agent="eve")
        assert "meant for another" not in answer.body.decode(), answer.body


def test_a_cancelled_call_is_named_as_the_server_knows_it(ground):
    connection = ground.gateway.connect()
    body = {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "comments"}}
    connection.request("POST", "/mcp/web", json.dumps(body), ground.gateway.headers())

    def asked():
        return [m for m in ground.origin.seen() if (m.get("params") or {}).get("name") == "comments"]
    own = until(asked, "the call has arrived")[-1]["id"]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}
    assert ground.post(cancel, agent="eve").status == 202
    assert ground.post(cancel).status == 202
    cancelled = [m["params"]["requestId"] for m in ground.origin.seen()
                 if m.get("method") == "notifications/cancelled"]
    assert cancelled == [own]
    connection.close()


@pytest.mark.parametrize("server", ["web", "child"])
def test_ids_and_cancelling_are_the_same_whatever_the_server_speaks(tmp_path, server):
    origin = Origin(program="answers.py")
    servers = {"web": {"url": origin.url}, "child": child_server()}
    with Gateway(tmp_path, servers, AGENTS) as gateway:
        session = gateway.session(server)
        tool = {"web": "late", "child": "never"}[server]
        call = {"jsonrpc": "2.0", "id": "one", "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(gateway.post(server, call, **session.extra)))
        waiting.start()

        def judged():
            return [r["call"] for r in gateway.records() if r["kind"] == "judgement" and r.get("tool") == tool]
        own = until(judged, "the call is under way")[0]
        assert gateway.post(server, call, **session.extra).refusal()[0] == "mcp.id_in_use"
        other = {**call, "id": "two", "params": {"name": "echo", "arguments": {"text": "other"}}}
        assert "result" in gateway.post(server, other, **session.extra).messages()[-1]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "one"}}
        assert gateway.post(server, cancel, **session.extra).status == 202
        waiting.join()
        assert answers[0].refusal()[0] == "mcp.cancelled", answers[0].body

        def ended():
            return [r for r in gateway.records() if r["kind"] == "outcome" and r["call"] == own]
        outcome = until(ended, "its outcome is recorded")[0]
        assert (outcome["end"], outcome["why"]) == ("cut", "mcp.cancelled"), outcome
        # The id is free again, and so is the session.
        assert "result" in gateway.post(server, {**other, "id": "one"}, **session.extra).messages()[-1]
    origin.stop()


def test_the_id_of_an_event_tells_the_agent_nothing(ground):
    body = ground.call("named", id="n1").body.decode()
    assert '"named"' in body
    token = [line[3:].strip() for line in body.splitlines() if line.startswith("id:")][0]
    parts = [token, *token.split(".")]
    decoded = b"".join(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts)
    assert SECRET not in body and SECRET.encode() not in decoded


def test_a_refused_answer_says_what_to_do_about_the_answer(tmp_path):
    scan = {"secrets": {"incoming": "refuse"}}
    with Gateway(tmp_path, {"child": child_server()}, AGENTS, scan=scan) as gateway:
        session = gateway.session("child")
        code, answer, _ = session.call("leak").refusal()
        assert code == "scan.secret" and "the server's answer holds a secret" in answer.lower(), answer
        code, call, _ = session.call("echo", f"the key {SECRET}").refusal()
        assert code == "scan.secret" and "Take the secret out of the call" in call, call


def test_a_burst_before_an_answer_is_heard_whole(tmp_path):
    with Gateway(tmp_path, {"child": child_server()}, AGENTS) as gateway:
        session = gateway.session("child")
        params = {"name": "burst", "arguments": {}, "_meta": {"progressToken": "p"}}
        messages = session.ask("tools/call", params).messages()
        told = [m for m in messages if m.get("method") == "notifications/progress"]
        assert (len(told), messages[-1]["result"]["content"][0]["text"]) == (BURST, "burst")


def test_comments_do_not_keep_a_call_open(ground):
    answer = ground.call("comments", id=3)
    assert answer.refusal()[0] == "mcp.server_slow", answer.body
    until(lambda: {"gone": "comments"} in ground.origin.seen(), "the server's stream is closed")


def test_an_error_without_an_id_keeps_its_status(ground):
    answer = ground.call("unread", id=3)
    assert answer.status == 400 and answer.json()["id"] is None
    assert answer.json()["error"]["message"] == "the server does not like this message"


def test_an_unknown_revision_is_answered_with_the_id_and_what_is_spoken(ground):
    answer = ground.call("echo", id="x1", mcp_protocol_version="1999-01-01")
    error = answer.json()["error"]
    assert (answer.status, answer.json()["id"], error["code"]) == (400, "x1", -32022)
    assert "2025-11-25" in error["data"]["supported"] and error["data"]["requested"] == "1999-01-01"


def test_a_stream_that_is_closed_is_resumed_with_the_answer(ground):
    closed = ground.call("resume", id="r1")
    text = closed.body.decode()
    assert "retry: 100" in text and "error" not in text, text
    token = [line[3:].strip() for line in text.splitlines() if line.startswith("id:")][0]
    assert token != "first"
    headers = {**ground.gateway.headers(), "accept": "text/event-stream", "last-event-id": token}
    # It is of use to no other agent, and an id that weir did not give is of use to nobody.
    other = {**headers, "authorization": f"Bearer {ground.gateway.keys['eve']}"}
    for forged in (other, {**headers, "last-event-id": "first"}, {**headers, "last-event-id": SECRET}):
        assert ground.gateway.request("GET", "/mcp/web", headers=forged).refusal()[0] == "mcp.event_unknown"
    resumed = ground.gateway.request("GET", "/mcp/web", headers=headers)
    answer = resumed.messages()[-1]
    assert (answer["id"], answer["result"]["content"][0]["text"]) == ("r1", "resumed")
    assert [m["last-event-id"] for m in ground.origin.seen() if m.get("http") == "GET"] == ["first"]


def test_an_agent_that_is_taken_out_loses_its_stream(tmp_path):
    origin = Origin(program="answers.py")
    servers = {"web": {"url": origin.url}, "child": child_server()}
    with Gateway(tmp_path, servers, AGENTS) as gateway:
        session = gateway.session("child", "eve")
        streams = []
        for server, extra in (("web", {}), ("child", {"mcp-session-id": session.extra["mcp_session_id"]})):
            connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)
            headers = {**gateway.headers("eve"), "accept": "text/event-stream", **extra}
            connection.request("GET", f"/mcp/{server}", headers=headers)
            streams.append(connection.getresponse())
            assert streams[-1].status == 200
        config = json.loads((tmp_path / "weir.yaml").read_text())
        del config["agents"]["eve"]
        (tmp_path / "weir.yaml").write_text(json.dumps(config))
        for stream in streams:
            # A stream that stays open runs into the connection's deadline here.
            try:
                stream.read()
            except (http.client.IncompleteRead, ConnectionError):
                pass
        assert gateway.post("child", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, "eve").status == 401
    origin.stop()


def test_sessions_of_one_agent_are_bounded_and_the_unused_one_makes_room(tmp_path):
    server = {**child_server(), "sessions_max": 3, "agent_sessions_max": 2}
    with Gateway(tmp_path, {"child": server}, AGENTS, limits={"answer_ms": 20_000}) as gateway:
        first, second = gateway.session("child"), gateway.session("child")
        # Used last, and by some milliseconds.
        for _ in range(50):
            assert "result" in first.ask("tools/list", {}).messages()[-1]
        third = gateway.session("child")
        assert second.ask("ping", {}).status == 404
        # Both are in use now: each has a call under way.
        waiting = [threading.Thread(target=session.call, args=("never",)) for session in (first, third)]
        for thread in waiting:
            thread.start()

        def under_way():
            return sum(r.get("tool") == "never" for r in gateway.records() if r["kind"] == "judgement") == 2
        until(under_way, "two calls are under way")
        hello = {"jsonrpc": "2.0", "id": "h", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}
        refused = gateway.post("child", hello)
        assert (refused.status, refused.refusal()[0], refused.json()["id"]) == (503, "mcp.server_busy", "h")
        assert int(refused.headers["retry-after"]) >= 1
        assert gateway.post("child", hello, "eve").status == 200
        for session in (first, third):
            gateway.request("DELETE", "/mcp/child", headers={
                **gateway.headers(), "mcp-session-id": session.extra["mcp_session_id"]})
        for thread in waiting:
            thread.join()


def test_a_notification_is_no_answer(ground):
    answer = ground.call("notice", id="n1")
    assert (answer.json()["id"], answer.refusal()[0]) == ("n1", "mcp.answer_invalid")


def test_names_of_arguments_are_known_before_anything_is_listed(tmp_path):
    origin = Origin(program="answers.py")
    setting = {"files": ["policy.cedar"], "arguments": {"secret_path": "String", "count": "Long"}}
    with Gateway(tmp_path, {"web": {"url": origin.url}}, policy_setting=setting) as gateway:
        ground = Ground(gateway, origin)
        assert ground.call("echo", arguments={"Secret_Path": "x"}).refusal()[0] == "mcp.name_spelling"
        # Declared, and read by no policy.
        assert ground.call("echo", arguments={"count": "7"}).refusal()[0] == "policy.argument_type"
        assert "result" in ground.call("echo", arguments={"Path": "x"}).json()
        ground.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        until(lambda: ("web", "echo") in [(r["server"], r["tool"]) for r in json.loads(
            gateway.weir("pins", "list", "--json").stdout)], "the tool is pinned")
    with gateway:
        # What was pinned before the restart is known.
        assert ground.call("echo", arguments={"Path": "x"}).refusal()[0] == "mcp.name_spelling"
    origin.stop()


def test_what_is_redacted_is_contents_alone(tmp_path):
    origin = Origin(program="answers.py")
    setting = {"files": ["policy.cedar"], "arguments": {"path": "String"}}
    policy = """permit (principal, action, resource);
    forbid (principal, action == Action::"mcp:call", resource)
      when { context.arguments has path && context.arguments.path like "*redacted*" };"""
    with Gateway(tmp_path, {"web": {"url": origin.url}}, policy=policy, policy_setting=setting,
                 scan={"secrets": {"outgoing": "redact"}}) as gateway:
        ground = Ground(gateway, origin)
        assert "result" in ground.call("echo", arguments={"text": f"key {SECRET}"}).json()
        sent = [m for m in origin.seen() if m.get("method") == "tools/call"]
        assert len(sent) == 1 and "redacted" in sent[0]["params"]["arguments"]["text"]
        for params in [
            {"name": "echo", "arguments": {SECRET: 1}},
            {"name": f"echo {SECRET}", "arguments": {}},
        ]:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            assert ground.post(message).refusal()[0] == "scan.secret", params
        # Policies judge what is sent, too.
        assert ground.call("echo", arguments={"path": SECRET}).refusal()[0] == "policy.forbidden"
        assert len([m for m in origin.seen() if m.get("method") == "tools/call"]) == 1
    origin.stop()
