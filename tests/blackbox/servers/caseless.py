"""An MCP server on standard input and output that reads members as Go's encoding/json reads them into a struct.

A member matches a field without regard to case, by Unicode's simple folding (so `ſ` is an s and `K`, the Kelvin sign,
is a k), and the last member that matches counts, whether or not it is exact. Each line that it gets, and each tool that
it runs, goes to the file that is named as its argument.
"""

import json
import sys

FOLDS = str.maketrans({"\u017f": "s", "\u212a": "k"})
TEXT = {"type": "string"}
SCHEMA = {"type": "object", "properties": {
    "text": TEXT,
    "path": TEXT,
    "env": {"type": "object", "additionalProperties": TEXT},
    "options": {"type": "object", "properties": {"path": TEXT}},
}}
TOOLS = {"echo": "Gives back its text and path.", "forbidden": "A tool that the tests' policy does not permit."}


class Members(list):
    """An object's members in their order, as pairs."""

    def __init__(self, pairs=()):
        super().__init__(pairs)

    def field(self, name):
        """The value of the last member that a struct's field of this name takes."""
        alike = [value for key, value in self if folded(key) == folded(name)]
        return alike[-1] if alike else None


def folded(name):
    return name.translate(FOLDS).lower()


def log(**what):
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def members(value):
    return value if isinstance(value, Members) else Members()


def call(params):
    name, arguments = params.field("name"), members(params.field("arguments"))
    if name not in TOOLS:
        return {"error": {"code": -32602, "message": "no such tool"}}
    read = {field: arguments.field(field) for field in ("text", "path")}
    token = members(params.field("_meta")).field("progressToken")
    log(ran=name, arguments=read, token=token)
    return {"result": {"content": [{"type": "text", "text": f"{read['text']} {read['path']}"}]}}


def answered(method, params):
    if method == "initialize":
        return {"result": {"protocolVersion": params.field("protocolVersion"), "capabilities": {"tools": {}},
                           "serverInfo": {"name": "caseless", "version": "1"}}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": name, "description": text, "inputSchema": SCHEMA}
                                     for name, text in TOOLS.items()]}}
    if method == "tools/call":
        return call(params)
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": "no such method"}}


def main():
    for line in sys.stdin.buffer:
        log(got=line.decode().strip())
        message = json.loads(line, object_pairs_hook=Members)
        id, method, params = message.field("id"), message.field("method"), members(message.field("params"))
        if method is None:
            continue
        answer = answered(method, params)
        if id is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, **answer}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
