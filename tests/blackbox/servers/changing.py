"""An MCP server on standard input and output whose tools stand in a file, read anew for each list.

Where the file holds an object, its members are the lists of tools, prompts, resources and templates.
"""

import json
import sys
from pathlib import Path

from parts import initialized, line, result, text_result

FILE = Path(sys.argv[1])
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def listed(member):
    lists = json.loads(FILE.read_text())
    return lists if isinstance(lists, list) else lists.get(member, [])


def answer(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "initialize":
        return initialized(id, params)
    if method in LISTS:
        return result(id, {LISTS[method]: listed(LISTS[method])})
    if method == "prompts/get":
        said = {"type": "text", "text": f"got {params.get('name')}"}
        return result(id, {"messages": [{"role": "user", "content": said}]})
    if method == "resources/read":
        return result(id, {"contents": [{"uri": params.get("uri"), "text": "read"}]})
    if method == "completion/complete":
        return result(id, {"completion": {"values": ["one"]}})
    if method == "tools/call":
        return text_result(id, f"called {params.get('name')}")
    return result(id, {}) if id is not None else None


for text in sys.stdin.buffer:
    said = answer(json.loads(text))
    if said is not None:
        sys.stdout.buffer.write(line(said))
        sys.stdout.buffer.flush()
