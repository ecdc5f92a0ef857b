"""A misbehaving MCP server on standard input and output."""

import json
import os
import sys
import threading

from parts import BURST, FLOOD_BYTES_MAX, HUGE_BYTES, line, noise, plain, text_result

OUT = sys.stdout.buffer
LOCK = threading.Lock()


def write(data):
    with LOCK:
        OUT.write(data)
        OUT.flush()


def misbehave(message):
    id, params = message["id"], message["params"]
    name = params["name"]
    if name == "die":
        os._exit(3)
    if name == "cut":
        write(line(text_result(id, "half"))[:20])
        os._exit(4)
    if name == "flood":
        piece = line(noise(params)) * 64
        for _ in range(FLOOD_BYTES_MAX // len(piece)):
            write(piece)
    if name == "burst":
        # All at once, and the answer behind it.
        write(b"".join(line(noise(params)) for _ in range(BURST)) + line(text_result(id, "burst")))
    if name == "garbage":
        write(b"\xff\xfe this is not JSON {]\n")
    if name == "huge":
        write(line(text_result(id, "x" * HUGE_BYTES)))
    if name == "stream":
        # A condition that is never met is a wait with a bound, paced so that a reader can keep up.
        pace = threading.Event()
        for _ in range(2000):
            write(line(noise(params)))
            pace.wait(0.005)
        write(line(text_result(id, "streamed")))


def main():
    print("misbehaving server started", file=sys.stderr, flush=True)
    for text in sys.stdin.buffer:
        message = json.loads(text)
        answer = plain(message)
        if answer is not None:
            write(line(answer))
        elif message.get("method") == "tools/call":
            threading.Thread(target=misbehave, args=(message,), daemon=True).start()


main()
