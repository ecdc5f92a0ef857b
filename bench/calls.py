"""What agents ask in `bench.py` and its kin: keys, messages, sessions, and the rows that the load tool sends.

A way is how a call reaches its server: the revision of MCP that its client speaks, the one that the servers speak, and the
URL. A call of 2026-07-28 has the arguments of one of 2025-11-25; what it has to say of itself comes on top.
"""

import base64
import hashlib
import http.client
import json
import sys
import time
from typing import NamedTuple

LEGACY, MODERN = "2025-11-25", "2026-07-28"
REVISIONS = (LEGACY, MODERN)
# The URL of one server, and that of all.
ONE, ALL = "/mcp/<server>", "/mcp"
AGENTS, SERVERS, TOOLS = 1000, 3, 20
BYTES = 1024
# How long all tools may take to be listed.
LISTED_S = 60
PROSE = ("The quarterly survey lists each station by its distance from the weir, the mean depth of the channel "
         "and the days on which the gauge was read by hand. ")
META = "io.modelcontextprotocol/"


class Way(NamedTuple):
    """How calls reach their servers."""
    client: str = LEGACY
    server: str = LEGACY
    at: str = ONE

    def __str__(self):
        revisions = self.client if self.client == self.server else f"{self.client} to {self.server}"
        return f"{revisions} at `{self.at}`"

    def path(self, number):
        """Where an agent asks."""
        return ALL if self.at == ALL else f"/mcp/s{number % SERVERS}"


def agent_key(number):
    raw = hashlib.sha256(f"weir bench agent {number}".encode()).digest()
    return "weir_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def first_tool(server):
    """The number of a server's first tool: no other server has a tool of that name."""
    return TOOLS * server


def tool_name(number):
    """The tool that an agent calls, of its server."""
    return f"t{first_tool(number % SERVERS) + number % TOOLS:02}"


# Messages

def message(method, params, revision=LEGACY, can=None):
    """A request as a client of that revision sends it."""
    if revision == MODERN:
        meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": can or {},
                META + "clientInfo": {"name": "bench", "version": "1"}}
        params = {**params, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, separators=(",", ":"))


def call_body(number, revision=LEGACY):
    """A tools/call; one of 2025-11-25 has exactly 1,024 bytes, and another has the same arguments."""
    def params(text):
        return {"name": tool_name(number), "arguments": {"text": text, "count": number % 100}}
    room = BYTES - len(message("tools/call", params("")))
    return message("tools/call", params((PROSE * 20)[:room]), revision)


def list_body(revision=LEGACY):
    return message("tools/list", {}, revision)


def headers(body, revision=LEGACY, session=None):
    """The fields of a message, without whose it is."""
    fields = {"content-type": "application/json", "accept": "application/json, text/event-stream",
              "mcp-protocol-version": revision}
    if revision == MODERN:
        said = json.loads(body)
        fields["mcp-method"] = said["method"]
        if said["method"] == "tools/call":
            fields["mcp-name"] = said["params"]["name"]
    elif session:
        fields["mcp-session-id"] = session
    return fields


# Asking

def post(port, path, key, body, revision=LEGACY, session=None):
    """Sends one message on a connection of its own. Gives the status, the session and the body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = body if isinstance(body, str) else json.dumps(body)
    connection.request("POST", path, body, {**headers(body, revision, session), "authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, answer.getheader("mcp-session-id"), data


def result(what, answered):
    """The body of an answer that is a result; anything else ends the benchmark."""
    status, _, data = answered
    if status != 200 or b'"result"' not in data:
        sys.exit(f"bench: {what} was answered {status}: {data[:500]}")
    return data


def open_session(port, number, way=Way()):
    """What a client does first: it begins a session where its revision has them, lists the tools at a URL of many servers,
    and calls. Gives the session's id, where there is one."""
    path, key, session = way.path(number), agent_key(number), None
    if way.client == LEGACY:
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}
        answered = post(port, path, key, hello)
        result("initialize", answered)
        session = answered[1]
        post(port, path, key, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session=session)
    if way.at == ALL:
        list_all(port, key, way, session)
    result("a call", post(port, path, key, call_body(number, way.client), way.client, session))
    return session or ""


def list_all(port, key, way, session):
    """Lists the tools until those of all servers are there: one that has not been heard of yet is waited for less than a
    second, and may take longer under callgrind."""
    until = time.monotonic() + LISTED_S
    while True:
        listed = json.loads(result("tools/list", post(port, ALL, key, list_body(way.client), way.client, session)))
        tools = len(listed["result"]["tools"])
        if tools == SERVERS * TOOLS:
            return
        if time.monotonic() > until:
            sys.exit(f"bench: the list at {ALL} has {tools} tools after {LISTED_S} s")
        time.sleep(0.5)


def write_requests(path, way, sessions, body=call_body):
    """The load tool's table: one row an agent, the same for the gateway and for a proxy."""
    rows = []
    for number, session in enumerate(sessions):
        text = body(number, way.client)
        fields = {**headers(text, way.client, session), "authorization": f"Bearer {agent_key(number)}"}
        lua = ",".join(f"[{json.dumps(name)}]={json.dumps(value)}" for name, value in fields.items())
        rows.append(f"{{{json.dumps(way.path(number))},{{{lua}}},{json.dumps(text)}}}")
    path.write_text("return {\n" + ",\n".join(rows) + "\n}\n")
