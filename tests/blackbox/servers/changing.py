"""An MCP server on standard input and output whose tools stand in a file, read anew for each list."""

import json
import sys
from pathlib import Path

from parts import initialized, line, result, text_result

TOOLS = Path(sys.argv[1])


def answer(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "initialize":
        return initialized(id, params)
    if method == "tools/list":
        return result(id, {"tools": json.loads(TOOLS.read_text())})
    if method == "tools/call":
        return text_result(id, f"called {params.get('name')}")
    return result(id, {}) if id is not None else None


for text in sys.stdin.buffer:
    said = answer(json.loads(text))
    if said is not None:
        sys.stdout.buffer.write(line(said))
        sys.stdout.buffer.flush()
