"""A misbehaving MCP server over streamable HTTP. `GET /seen` says what reached it, as JSON.

It prints `listening on PORT` once it can be called.
"""

import json
import os
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from parts import FLOOD_BYTES_MAX, HUGE_BYTES, noise, plain, text_result

SEEN = Counter()
LOCK = threading.Lock()
NEVER = threading.Event()


def saw(what):
    with LOCK:
        SEEN[what] += 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path != "/seen":
            return self.empty(405)
        with LOCK:
            body = json.dumps(SEEN).encode()
        self.answer(body)

    def do_DELETE(self):
        saw("delete")
        self.empty(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        message = json.loads(body)
        params = message.get("params") or {}
        saw(" ".join(filter(None, [message.get("method"), params.get("name")])))
        for header in self.headers.keys():
            if header.lower() == "authorization":
                saw("authorization")
        answer = plain(message)
        if answer is not None:
            self.answer(json.dumps(answer).encode())
        elif message.get("method") == "tools/call":
            self.misbehave(message, params)
        else:
            self.empty(202)

    def empty(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def answer(self, body, length=None):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def misbehave(self, message, params):
        name, id = params["name"], message["id"]
        self.close_connection = True
        try:
            if name == "die":
                os._exit(3)
            if name == "cut":
                self.answer(b'{"jsonrpc": "2.0", "id', length=1000)
            if name == "garbage":
                self.answer(b"\xff\xfe this is not JSON {]")
            if name == "never":
                NEVER.wait(120)
            if name == "huge":
                self.answer(json.dumps(text_result(id, "x" * HUGE_BYTES)).encode())
            if name == "flood":
                self.events(params, FLOOD_BYTES_MAX // 1000, None)
            if name == "stream":
                self.events(params, 2000, 0.005)
                self.event(text_result(id, "streamed"))
        except (BrokenPipeError, ConnectionResetError):
            saw(f"gone {name}")

    def events(self, params, count, pace):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for _ in range(count):
            self.event(noise(params))
            if pace:
                NEVER.wait(pace)

    def event(self, message):
        self.wfile.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    print(f"listening on {server.server_address[1]}", flush=True)
    server.serve_forever()


main()
