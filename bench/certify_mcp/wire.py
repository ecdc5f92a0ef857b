"""Starts a server and writes each line that it gets to a file: `wire.py FILE COMMAND…`."""

import json
import subprocess
import sys

file, *command = sys.argv[1:]
with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
    for line in sys.stdin.buffer:
        with open(file, "a", encoding="utf-8") as log:
            log.write(json.dumps({"got": line.decode().strip()}) + "\n")
        server.stdin.write(line)
        server.stdin.flush()
