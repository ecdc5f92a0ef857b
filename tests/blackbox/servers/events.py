"""A server over HTTP+SSE (MCP 2024-11-05) that tells the truth or lies about where it is. `GET /seen` says what reached it.

    events.py MODE PORT     prints `listening on PORT` once it can be called

Modes: `good`; `relative` (a reference without a path); `elsewhere` (another port, which `events.py` listens on, too); `none` (no
endpoint); `late` (a message before it); `twice` (another endpoint with the first answer); `huge` (an event of 100 MB); `foreign`
(answers what it was not asked); `refuses` (POSTs get 500). `POST /end` ends every stream, and a tool `end` its own.
"""

import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from parts import plain, text_result

mode = sys.argv[1]
# Bounded: what nobody takes is lost.
streams, seen, lock = {}, [], threading.Lock()
other = None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/seen":
            return self.say(200, json.dumps(seen).encode())
        if self.path != "/a/sse":
            return self.say(404)
        with lock:
            name = str(len(streams))
            events = streams[name] = queue.Queue(1000)
            seen.append("GET")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        place = {"relative": f"messages?of={name}", "elsewhere": f"http://127.0.0.1:{other}/a/messages?of={name}"}
        if mode == "late":
            self.event("message", json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}))
        if mode != "none":
            self.event("endpoint", place.get(mode, f"/a/messages?of={name}"))
        while True:
            event = events.get()
            if event is None:
                return
            try:
                self.event(*event)
            except OSError:
                seen.append("gone")
                return

    def event(self, name, data):
        self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/end":
            for events in list(streams.values()):
                events.put_nowait(None)
            return self.say(200)
        if not self.path.startswith("/a/messages?of="):
            return self.say(405)
        message = json.loads(body)
        with lock:
            seen.append({"message": message, "port": self.server.server_address[1],
                         "authorization": self.headers.get("authorization")})
        if mode == "refuses" and message.get("method") == "tools/call":
            return self.say(500)
        self.say(202, b"Accepted")
        self.answer(message, streams[self.path.split("=")[1]])

    def answer(self, message, events):
        id, params = message.get("id"), message.get("params") or {}
        if message.get("method") == "tools/call":
            if params["name"] == "end":
                return events.put_nowait(None)
            if mode == "twice":
                events.put_nowait(("endpoint", "/a/messages?of=0"))
            if mode == "huge":
                events.put_nowait(("message", "x" * (100 << 20)))
            if mode == "foreign":
                events.put_nowait(("message", json.dumps(text_result("of another", "x"))))
        said = plain(message) or (text_result(id, "said") if id is not None else None)
        if said is not None:
            events.put_nowait(("message", json.dumps(said)))

    def say(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True


if mode == "elsewhere":
    second = Server(("127.0.0.1", 0), Handler)
    other = second.server_address[1]
    threading.Thread(target=second.serve_forever, daemon=True).start()
server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
print(f"listening on {server.server_address[1]}", flush=True)
server.serve_forever()
