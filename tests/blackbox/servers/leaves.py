"""An MCP server on standard input and output that leaves processes behind, each in a session of its own.

Usage: leaves.py FILE [stays]. It writes the process ids to FILE, one line of words for each that it starts: what it is, and
its id. With `stays` it and they ignore SIGTERM.
"""

import json
import os
import signal
import sys
import time

from parts import line, plain, text_result


READY = os.pipe()


def sleep(file, what):
    note(file, what)
    os.write(READY[1], b".")
    # They hold the server's pipes open, as careless daemons do.
    while True:
        time.sleep(60)


def note(file, what):
    with open(file, "a") as pids:
        pids.write(f"{what} {os.getpid()}\n")


def start(file):
    if os.fork() == 0:
        os.setsid()
        sleep(file, "session")
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            sleep(file, "daemon")
        os._exit(0)
    os.waitpid(first, 0)
    if os.fork() == 0:
        sleep(file, "group")
    # Nothing is served before all of them are known: a server that is asked only once ends at once.
    for _ in range(3):
        os.read(READY[0], 1)


def main():
    file = sys.argv[1]
    if "stays" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    start(file)
    note(file, "server")
    for text in sys.stdin.buffer:
        message = json.loads(text)
        answer = plain(message)
        if answer is None and message.get("method") == "tools/call":
            if message["params"]["name"] == "die":
                os._exit(3)
            answer = text_result(message["id"], "done")
        if answer is not None:
            sys.stdout.buffer.write(line(answer))
            sys.stdout.buffer.flush()


main()
