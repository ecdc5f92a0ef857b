"""An MCP server whose answers are written in a file, over HTTP or over standard input and output.

    scripted.py FOLDER PORT     over HTTP; prints `listening on PORT` once it can be called
    scripted.py FOLDER          over standard input and output

For each message it reads FOLDER/script.json anew: a list of lines to answer with, in which `$ID` stands for the id of the
message. What it got is appended to FOLDER/got, one line a message. What no script answers it answers as servers do:
`initialize` with what it can do, every other request with an empty result.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[1])
CAN = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
       "serverInfo": {"name": "scripted", "version": "1"}}


def answers(raw):
    """The lines that answer a message."""
    message = json.loads(raw)
    id = json.dumps(message.get("id"))
    script = json.loads((FOLDER / "script.json").read_text())
    if script.get("method") == message.get("method"):
        with (FOLDER / "got").open("ab") as got:
            got.write(raw.replace(id.encode(), b'"$ID"') + b"\n")
        return [line.replace('"$ID"', id).encode() for line in script["answers"]]
    if "id" not in message:
        return []
    result = CAN if message["method"] == "initialize" else {}
    return [json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        lines = answers(raw)
        if not lines:
            return self.answer(202, "text/plain", b"")
        if len(lines) == 1:
            return self.answer(200, "application/json", lines[0])
        events = b"".join(b"data: " + line + b"\n\n" for line in lines)
        return self.answer(200, "text/event-stream", events)

    def do_GET(self):
        self.answer(405, "text/plain", b"")

    def do_DELETE(self):
        self.answer(200, "text/plain", b"")

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def stdio():
    for raw in sys.stdin.buffer:
        for line in answers(raw.rstrip(b"\n")):
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        stdio()
    else:
        server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
        print(f"listening on {server.server_address[1]}", flush=True)
        server.serve_forever()
