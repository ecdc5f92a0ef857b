"""An MCP server of 2025-11-25 over HTTP that lies, for clients of many servers. `GET /seen` gives how often each tool ran.

`lying.py PORT`; the tool decides: `gone` runs and answers 404, `echo` is good. After `GET /silent` it answers no list.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOLS = ["echo", "gone", "a__read"]
ran = {}
silent = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value=None, **fields):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, field in fields.items():
            self.send_header(name.replace("_", "-"), field)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/silent":
            silent.set()
        self.answer(200 if self.path in ("/seen", "/silent") else 405, ran)

    def do_DELETE(self):
        self.answer(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = message.get("method"), message.get("params", {})
        say = lambda result, **fields: self.answer(200, {"jsonrpc": "2.0", "id": message.get("id"), "result": result}, **fields)
        if "id" not in message:
            self.answer(202)
        elif method == "initialize":
            known = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "l", "version": "1"}}
            say(known, mcp_session_id=f"s{len(ran)}")
        elif method == "tools/list":
            if silent.is_set():
                threading.Event().wait(20)
            say({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
        elif method == "tools/call":
            ran[params["name"]] = ran.get(params["name"], 0) + 1
            if params["name"] == "gone":
                return self.answer(404)
            say({"content": [{"type": "text", "text": params["name"]}]})
        elif method == "ping":
            say({})
        else:
            self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on {server.server_address[1]}", flush=True)
server.serve_forever()
