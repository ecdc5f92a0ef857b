"""An MCP server that speaks the eras that it is told to, and answers the others as servers do that do not know them.

    eras.py MODE PORT     over HTTP; prints `listening on PORT` once it can be called
    eras.py MODE          over standard input and output

Modes: `legacy`, `modern`, `dual`; `silent` (legacy, and says nothing to what it does not know), `leaves` (legacy, and ends
when its first message is not `initialize`), `html` (404 with a page), `none` (405), `garbage`, `refused` (401). Over HTTP,
`POST /mode` with a mode changes it.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
mode = sys.argv[1]
SEEN = []


def error(id, code, **more):
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", **more}}


def result(id, **more):
    return {"jsonrpc": "2.0", "id": id, "result": more}


def is_modern(message):
    return VERSION in ((message.get("params") or {}).get("_meta") or {})


def answer(message):
    """The status and the answer; no answer where there is none to give."""
    id, method = message.get("id"), message.get("method")
    if id is None:
        return 202, None
    if is_modern(message) and mode in ("modern", "dual"):
        if method == "server/discover":
            return 200, result(id, resultType="complete", supportedVersions=[MODERN], capabilities={}, ttlMs=0,
                               cacheScope="private")
        if method == "tools/list":
            return 200, result(id, resultType="complete", tools=[], ttlMs=0, cacheScope="private")
        return 404, error(id, -32601)
    if mode == "modern":
        return 400, error(id, -32022, data={"supported": [MODERN], "requested": "2025-11-25"})
    if method == "initialize":
        return 200, result(id, protocolVersion="2025-06-18", capabilities={},
                           serverInfo={"name": "eras", "version": "1"})
    if method == "ping":
        return 200, result(id)
    return 200, error(id, -32601)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/seen":
            return self.say(200, json.dumps(SEEN).encode())
        self.say(404 if mode == "html" else 405, b"")

    def do_DELETE(self):
        SEEN.append("DELETE")
        self.say(200, b"")

    def do_POST(self):
        global mode
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/mode":
            mode = raw.decode()
            return self.say(200, b"")
        message = json.loads(raw)
        SEEN.append(message)
        if mode == "html":
            return self.say(404, b"<!doctype html><title>Not found</title>", "text/html")
        if mode == "none":
            return self.say(405, b"")
        if mode == "refused":
            return self.say(401, b"")
        if mode == "garbage":
            return self.say(200, b"\xff\xfe{]")
        status, said = answer(message)
        self.say(status, json.dumps(said).encode() if said else b"", begins=message.get("method") == "initialize")

    def say(self, status, body, kind="application/json", begins=False):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if begins and status == 200:
            self.send_header("mcp-session-id", "of-the-probe")
        self.end_headers()
        self.wfile.write(body)


def stdio():
    era = None
    for raw in sys.stdin.buffer:
        message = json.loads(raw)
        era = era or ("modern" if is_modern(message) else "legacy")
        begins = message.get("method") == "initialize"
        if mode == "leaves" and era == "modern":
            os._exit(1)
        if mode == "silent" and not begins and era == "modern":
            era = None
            continue
        # Like the official SDKs, a process is of the era of its first request.
        if mode == "dual" and era == "modern" and not is_modern(message):
            said = error(message.get("id"), -32022, data={"supported": [MODERN]})
        else:
            _, said = answer(message)
        if said:
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


if len(sys.argv) == 2:
    stdio()
else:
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    print(f"listening on {server.server_address[1]}", flush=True)
    server.serve_forever()
