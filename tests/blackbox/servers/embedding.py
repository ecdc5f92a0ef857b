"""An endpoint that makes vectors, with the wire of Ollama and that of OpenAI. A vector says which words a text has.

Prints its port. POST /fail?times=N makes it refuse so often; GET /seen says what was asked.
"""

import json
import math
import re
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSIONS = 96
# Words that mean the same, so that likeness is more than the same letters.
SAME = {"automobile": "car", "vehicle": "car", "fee": "price", "charge": "price", "cost": "price"}
seen, failing = [], [0]


def vector(text):
    numbers = [0.001] * DIMENSIONS
    for word in re.findall(r"[a-z]+", text.lower()):
        word = SAME.get(word, word)
        numbers[zlib.crc32(word.encode()) % DIMENSIONS] += 1
    length = math.sqrt(sum(x * x for x in numbers))
    return [x / length for x in numbers]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, status, body, **headers):
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.say(200, seen)

    def do_POST(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        if self.path.startswith("/fail"):
            failing[0] = int(self.path.rsplit("=")[1])
            return self.say(200, {})
        asked = json.loads(data)
        seen.append({"path": self.path, "key": self.headers.get("authorization"), **asked})
        if failing[0]:
            failing[0] -= 1
            return self.say(503, {"error": "loading"}, retry_after="0")
        made = [vector(text) for text in asked["input"]]
        if self.path == "/api/embed":
            return self.say(200, {"model": asked["model"], "embeddings": made, "total_duration": 1})
        if self.path == "/v1/embeddings":
            if self.headers.get("authorization") != "Bearer hush":
                return self.say(401, {"error": {"message": "no key"}})
            # Any order: the index says which is which.
            made = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(made)][::-1]
            return self.say(200, {"object": "list", "data": made, "model": asked["model"], "usage": {}})
        self.say(404, {"error": "no such path"})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
