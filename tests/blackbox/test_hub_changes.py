"""Changes that servers tell without being asked, at `/mcp`: lists, and resources that clients subscribed to."""

import contextlib
import json
import queue
import subprocess
import sys
import threading

import pytest

from gateway import SERVERS, Gateway, Origin, until
from test_reload_servers import reload

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
AGENTS = {name: {"groups": ["engineers"]} for name in ("dev", "eve", "blind")}
POLICY = """
@id("all") permit (principal, action, resource);
@id("blind") forbid (principal == Agent::"blind", action == Action::"mcp:read", resource);
"""
ERAS = ("legacy", "modern")
KINDS = ("http", "stdio")
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


class Telling(Origin):
    """`telling.py` over HTTP."""

    def __init__(self, era):
        command = [sys.executable, str(SERVERS / "telling.py"), era, "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[-1])
        self.url = f"http://127.0.0.1:{self.port}/mcp"


@pytest.fixture(scope="module", params=[(kind, era) for kind in KINDS for era in ERAS], ids="-".join)
def gateway(request, tmp_path_factory):
    kind, era = request.param
    with contextlib.ExitStack() as stack:
        if kind == "http":
            origin = Telling(era)
            stack.callback(origin.stop)
            server = {"url": origin.url}
        else:
            server = {"command": [sys.executable, str(SERVERS / "telling.py"), era]}
        folder = tmp_path_factory.mktemp("changes")
        gateway = stack.enter_context(Gateway(folder, {"telling": server}, AGENTS, POLICY))
        state = lambda: gateway.request("GET", "/health").json()["revisions"]["telling"]
        until(lambda: state() == [MODERN if era == "modern" else "2025-11-25"], "what the server speaks")
        gateway.era = era
        gateway.ends = (kind, era) != ("stdio", "legacy")
        # Without sessions the server counts the streams of all agents; each has a child of its own.
        gateway.streams_of_two = 2 if (kind, era) == ("http", "modern") else 1
        yield gateway
        gateway.verify()


def rpc(method, params=None, id=1):
    message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return message if id is None else {**message, "id": id}


class Client:
    """A client of the legacy era at `/mcp`, with one session."""

    def __init__(self, gateway, agent):
        self.gateway, self.agent, self.next, self.session = gateway, agent, 0, None
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = self.send(rpc("initialize", hello))
        self.session = answer.headers["mcp-session-id"]

    def headers(self, **more):
        session = {"mcp-session-id": self.session} if self.session else {}
        return {**self.gateway.headers(self.agent, **more), **session}

    def send(self, message):
        return self.gateway.request("POST", "/mcp", json.dumps(message), self.headers())

    def ask(self, method, params=None):
        self.next += 1
        return self.send(rpc(method, params, self.next)).messages()[-1]

    def call(self, name, **arguments):
        said = self.ask("tools/call", {"name": name, "arguments": arguments})
        return json.loads(said["result"]["content"][0]["text"])

    def stream(self):
        return Stream(self.gateway, "GET", None, self.headers(accept="text/event-stream"))

    def end(self):
        assert self.gateway.request("DELETE", "/mcp", headers=self.headers()).status == 200


def listen(gateway, agent, id="s1", **filter):
    """The stream of a client of the modern era."""
    message = rpc("subscriptions/listen", {"notifications": filter, "_meta": META}, id)
    headers = gateway.headers(agent, mcp_protocol_version=MODERN, mcp_method="subscriptions/listen")
    return Stream(gateway, "POST", json.dumps(message), headers)


class Stream:
    """An event stream of the gateway, read until it is closed."""

    def __init__(self, gateway, method, body, headers):
        self.connection = gateway.connect()
        self.connection.request(method, "/mcp", body=body, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.said = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            for line in self.response:
                if line.startswith(b"data:"):
                    self.said.put(json.loads(line[5:]))

    def next(self, seconds=10):
        return self.said.get(timeout=seconds)

    def rest(self, seconds=1.5):
        """All that comes until it is silent."""
        said = []
        with contextlib.suppress(queue.Empty):
            while True:
                said.append(self.said.get(timeout=seconds))
        return said

    def silent(self, seconds=1.5):
        with pytest.raises(queue.Empty):
            self.said.get(timeout=seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The reader holds the response; the socket is what ends it.
        self.connection.sock and self.connection.sock.close()
        with contextlib.suppress(OSError):
            self.response.fp.raw._sock.shutdown(2)
        self.response.close()


def open_streams(client):
    return client.call("state")["streams"]


def heard(client, count=1):
    """The server has the stream that weir opened for the client's agent."""
    until(lambda: open_streams(client) == count, "the server has weir's stream")


def updated(uri):
    return "notifications/resources/updated", uri


def told(message):
    return message["method"], message["params"].get("uri")


def changed(kind):
    return f"notifications/{kind}/list_changed", None


def test_lists_that_changed(gateway):
    client, other = Client(gateway, "dev"), Client(gateway, "eve")
    with client.stream() as all_lists, listen(gateway, "dev", toolsListChanged=True) as tools:
        honoured = tools.next()
        assert honoured["method"] == "notifications/subscriptions/acknowledged"
        assert honoured["params"] == {"notifications": {"toolsListChanged": True}, "_meta": {SUBSCRIPTION: "s1"}}
        heard(client, 1)
        with other.stream() as others:
            heard(other, gateway.streams_of_two)
            client.call("change", kinds=["prompts"])
            assert told(all_lists.next()) == changed("prompts")
            tools.silent()
            # Many changes within a second are told as one.
            for _ in range(20):
                client.call("change", kinds=["tools", "resources"])
            said = [told(message) for message in all_lists.rest()]
            assert set(said) == {changed("tools"), changed("resources")} and len(said) <= 8, said
            said = tools.rest()
            assert {told(message) for message in said} == {changed("tools")} and len(said) <= 4, said
            assert said[0]["params"]["_meta"] == {SUBSCRIPTION: "s1"}
            # Without sessions the server tells all who listen; with them, another agent's is another session.
            if gateway.streams_of_two == 1:
                others.silent(0.5)
    # Its own stream ends with the last one of the agent's clients; a child of the legacy era has but its output.
    if gateway.ends:
        until(lambda: open_streams(client) == 0, "weir's stream ended")


def test_a_list_is_asked_for_again(gateway):
    client = Client(gateway, "dev")
    with client.stream() as stream:
        heard(client)
        client.ask("tools/list")
        lists = client.call("state")["seen"].count("tools/list")
        client.ask("tools/list")
        assert client.call("state")["seen"].count("tools/list") == lists
        client.call("change", kinds=["tools"])
        until(lambda: told(stream.next()) == changed("tools"), "the change is told")
        client.ask("tools/list")
        assert client.call("state")["seen"].count("tools/list") == lists + 1


def test_subscriptions_of_sessions(gateway):
    one, two, eve = Client(gateway, "dev"), Client(gateway, "dev"), Client(gateway, "eve")
    with one.stream() as first, two.stream() as second, eve.stream() as others:
        heard(one, gateway.streams_of_two)
        subscribed = lambda client: (
            client.call("state")["subscribed"] if gateway.era == "legacy" else
            sorted({uri for filter in client.call("state")["filters"] for uri in filter.get("resourceSubscriptions", [])}))
        assert one.ask("resources/subscribe", {"uri": "test://one"})["result"] == {}
        assert two.ask("resources/subscribe", {"uri": "test://one"})["result"] == {}
        assert two.ask("resources/subscribe", {"uri": "test://two"})["result"] == {}
        until(lambda: subscribed(one) == ["test://one", "test://two"], "the server knows")
        one.call("update", uri="test://one")
        assert told(first.next()) == told(second.next()) == updated("test://one")
        one.call("update", uri="test://two")
        assert told(second.next()) == updated("test://two")
        first.silent()
        # Nobody subscribed to it, and another agent hears of nothing.
        one.call("update", uri="test://canary")
        second.silent()
        others.silent(0.1)
        # The last one out ends the subscription.
        assert one.ask("resources/unsubscribe", {"uri": "test://one"})["result"] == {}
        assert subscribed(one) == ["test://one", "test://two"]
        one.call("update", uri="test://one")
        assert told(second.next()) == updated("test://one")
        first.silent(0.5)
        assert two.ask("resources/unsubscribe", {"uri": "test://one"})["result"] == {}
        until(lambda: subscribed(one) == ["test://two"], "the server knows that it ended")
        two.end()
        until(lambda: subscribed(one) == [], "the end of a session ends its subscriptions")


def test_subscriptions_of_streams(gateway):
    client = Client(gateway, "dev")
    with listen(gateway, "dev", resourceSubscriptions=["test://one", "test://two"], toolsListChanged=False) as stream:
        honoured = stream.next()["params"]["notifications"]
        assert honoured == {"resourceSubscriptions": ["test://one", "test://two"]}
        heard(client)
        if gateway.era == "legacy":
            until(lambda: client.call("state")["subscribed"] == ["test://one", "test://two"], "the server knows")
        client.call("update", uri="test://two/part")
        said = stream.next()
        assert told(said) == updated("test://two/part") and said["params"]["_meta"] == {SUBSCRIPTION: "s1"}
        client.call("update", uri="test://twofold")
        client.call("change", kinds=["tools"])
        stream.silent()
    if gateway.era == "legacy":
        until(lambda: client.call("state")["subscribed"] == [], "the end of the stream ends its subscriptions")


def test_what_may_not_be_read_is_not_subscribed_to(gateway):
    with listen(gateway, "blind", resourceSubscriptions=["test://one"], toolsListChanged=True) as stream:
        honoured = stream.next()["params"]["notifications"]
        assert honoured == {"toolsListChanged": True, "resourceSubscriptions": []}
    blind, dev = Client(gateway, "blind"), Client(gateway, "dev")
    refused = blind.ask("resources/subscribe", {"uri": "test://one"})["error"]
    assert refused["data"]["code"] == "policy.forbidden", refused
    with dev.stream() as stream:
        heard(dev)
        if gateway.era == "legacy":
            assert dev.ask("resources/subscribe", {"uri": "test://refused"})["error"]["code"] == -32002
            dev.call("update", uri="test://refused")
            stream.silent()
    for params, code in [({"uri": 7}, "mcp.message_invalid"), ({}, "mcp.message_invalid"),
                         ({"uri": "test://" + "x" * 4096}, "mcp.message_invalid")]:
        answer = dev.ask("resources/subscribe", params)
        assert answer["error"]["data"]["code"] == code
    message = rpc("resources/subscribe", {"uri": "test://one"})
    bare = gateway.request("POST", "/mcp", json.dumps(message), gateway.headers("dev"))
    assert bare.json()["error"]["data"]["code"] == "mcp.session_missing"


def test_a_session_has_a_thousand_subscriptions(gateway):
    client = Client(gateway, "dev")
    for number in range(1000):
        assert client.ask("resources/subscribe", {"uri": f"test://{number}"})["result"] == {}
    refused = client.ask("resources/subscribe", {"uri": "test://one"})["error"]
    assert refused["data"]["code"] == "mcp.session_busy"
    # One that it has is no new one.
    assert client.ask("resources/subscribe", {"uri": "test://7"})["result"] == {}
    client.end()


def test_a_cancelled_call_ends(gateway):
    client, state = Client(gateway, "dev"), Client(gateway, "dev")
    said = queue.Queue()
    message = rpc("tools/call", {"name": "never", "arguments": {}}, "mine")
    thread = threading.Thread(target=lambda: said.put(client.send(message).messages()[-1]))
    thread.start()
    if gateway.era == "legacy":
        until(lambda: state.call("state")["seen"].count("tools/call") > 1, "the call is under way")
    before = state.call("state")["seen"].count("cancelled")
    cancel = rpc("notifications/cancelled", {"requestId": "mine", "reason": "enough"}, None)

    def is_over():
        assert client.send(cancel).status == 202
        return not said.empty()
    until(is_over, "the call ended")
    assert said.get()["error"]["data"]["code"] == "mcp.cancelled"
    thread.join()
    if gateway.era == "legacy":
        seen = state.call("state")["seen"]
        assert seen.count("cancelled") == before + 1 and "cancelled what is not under way" not in seen


def test_a_server_that_is_added_is_heard(tmp_path):
    origins = [Telling("legacy"), Telling("legacy")]
    try:
        with Gateway(tmp_path, {"first": {"url": origins[0].url}}, AGENTS, POLICY) as gateway:
            works = lambda: gateway.request("GET", "/health").json()["servers"]
            until(lambda: works() == {"first": "works"}, "it works")
            client = Client(gateway, "dev")
            with client.stream() as stream:
                heard(client)
                reload(gateway, lambda mcp: mcp.update(second={"url": origins[1].url}))
                until(lambda: works().get("second") == "works", "the second works")
                state = lambda name: client.call(f"{name}__state")["streams"]
                until(lambda: [state("first"), state("second")] == [1, 1], "both are listened to")
                stream.rest()
                for name in ("first", "second"):
                    client.call(f"{name}__change", kinds=["prompts"])
                    assert told(stream.next()) == changed("prompts")
            gateway.verify()
    finally:
        for origin in origins:
            origin.stop()
