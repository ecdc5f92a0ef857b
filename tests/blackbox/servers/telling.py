"""An MCP server that tells of changes: of its lists, and of resources that were subscribed to.

    telling.py ERA PORT     over HTTP; prints `listening on PORT` once it can be called
    telling.py ERA          over standard input and output

ERA is `legacy` or `modern`. Its tools: `change` tells that the lists `kinds` changed; `update` tells that the resource `uri`
was updated, also to those that did not subscribe to it; `state` says what is open and subscribed; `never` is not answered
until it is cancelled. In the legacy era all of it is of the session of the call.
"""

import json
import queue
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
era = sys.argv[1]
lock = threading.Lock()


class Session:
    """What the server keeps of one session; of all clients, in the modern era."""

    def __init__(self):
        self.streams, self.subscribed, self.seen, self.never = {}, [], [], {}

    def tell(self, method, **params):
        for id, (say, _) in list(self.streams.items()):
            meta = {"_meta": {SUBSCRIPTION: id}} if era == "modern" else {}
            say({"jsonrpc": "2.0", "method": method, "params": {**params, **meta}})


sessions = {}


def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}


def result(id, value):
    modern = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private"} if era == "modern" else {}
    return {"jsonrpc": "2.0", "id": id, "result": {**value, **modern}}


def call(session, id, params):
    name, given = params["name"], params.get("arguments") or {}
    if name == "never":
        session.never[id] = threading.Event()
        return None
    if name == "change":
        for kind in given["kinds"]:
            session.tell(f"notifications/{kind}/list_changed")
    if name == "update":
        session.tell("notifications/resources/updated", uri=given["uri"])
    state = {"streams": len(session.streams), "subscribed": session.subscribed, "seen": session.seen,
             "filters": [filter for _, filter in session.streams.values()]}
    return result(id, {"content": [{"type": "text", "text": json.dumps(state)}]})


def answer(session, message):
    """The answer to a message; nothing where there is none now."""
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    session.seen.append(method)
    if method == "notifications/cancelled":
        waiting = session.never.pop(params["requestId"], None)
        session.seen.append("cancelled" if waiting else "cancelled what is not under way")
        return waiting.set() if waiting else None
    if id is None or method is None:
        return None
    if (VERSION in (params.get("_meta") or {})) != (era == "modern"):
        data = {"data": {"supported": [MODERN]}} if era == "modern" else {}
        return {"jsonrpc": "2.0", "id": id, "error": {"code": -32022 if data else -32600, "message": "no", **data}}
    if method == "initialize":
        return result(id, {"protocolVersion": "2025-11-25", "serverInfo": {"name": "telling", "version": "1"},
                           "capabilities": {"resources": {"subscribe": True}, "tools": {"listChanged": True}}})
    if method == "server/discover":
        return result(id, {"supportedVersions": [MODERN], "capabilities": {"tools": {}}})
    if method == "tools/list":
        return result(id, {"tools": [tool(name) for name in ("change", "update", "state", "never")]})
    if method == "resources/list":
        return result(id, {"resources": [{"uri": f"test://{name}", "name": name} for name in ("one", "two", "refused")]})
    if method == "tools/call":
        return call(session, id, params)
    if method == "resources/subscribe" and params["uri"] == "test://refused":
        return {"jsonrpc": "2.0", "id": id, "error": {"code": -32002, "message": "no such resource"}}
    if method == "resources/subscribe" and params["uri"] not in session.subscribed:
        session.subscribed.append(params["uri"])
    if method == "resources/unsubscribe" and params["uri"] in session.subscribed:
        session.subscribed.remove(params["uri"])
    if method in ("ping", "resources/subscribe", "resources/unsubscribe"):
        return result(id, {})
    return {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}


def listen(session, message, say):
    filter = message["params"]["notifications"]
    session.streams[message["id"]] = say, filter
    say({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
         "params": {"notifications": filter, "_meta": {SUBSCRIPTION: message["id"]}}})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def session(self):
        name = "all" if era == "modern" else self.headers.get("mcp-session-id")
        with lock:
            return sessions.setdefault(name, Session())

    def do_GET(self):
        if era == "modern" or "mcp-session-id" not in self.headers:
            return self.say(405, b"")
        said = queue.Queue()
        self.stream(said, self.session(), "stream", lambda: self.session().streams.update(stream=(said.put, {})))

    def do_DELETE(self):
        self.say(200, b"")

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        session, begins = self.session(), None
        if message.get("method") == "initialize":
            with lock:
                begins = str(len(sessions) + 1)
                sessions[begins] = session = Session()
        if message.get("method") == "subscriptions/listen" and era == "modern":
            said = queue.Queue()
            return self.stream(said, session, message["id"], lambda: listen(session, message, said.put))
        said = answer(session, message)
        waiting = session.never.get(message.get("id"))
        if said is None and waiting:
            waiting.wait()
            # The gateway has time to end the call by itself.
            time.sleep(1)
        if said is None:
            return self.say(202, b"")
        self.say(200, json.dumps(said).encode(), begins)

    def stream(self, said, session, id, begin):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        begin()
        try:
            while True:
                try:
                    data = b"data: " + json.dumps(said.get(timeout=0.2)).encode()
                except queue.Empty:
                    data = b":"
                self.wfile.write(data + b"\n\n")
                self.wfile.flush()
        except OSError:
            # Another stream may have taken its place.
            if session.streams.get(id, (None,))[0] == said.put:
                del session.streams[id]

    def say(self, status, body, begins=None):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if begins:
            self.send_header("mcp-session-id", begins)
        self.end_headers()
        self.wfile.write(body)


def stdio():
    session = Session()

    def say(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    if era == "legacy":
        session.streams["stream"] = say, {}
    for text in sys.stdin:
        message = json.loads(text)
        if message.get("method") == "notifications/cancelled":
            session.streams.pop(message["params"]["requestId"], None)
        if message.get("method") == "subscriptions/listen" and era == "modern":
            listen(session, message, say)
            continue
        said = answer(session, message)
        if said is not None:
            say(said)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        stdio()
    else:
        server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
        print(f"listening on {server.server_address[1]}", flush=True)
        server.serve_forever()
