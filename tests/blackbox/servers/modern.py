"""An MCP server of 2026-07-28 on standard input and output: what its tools do is in their names.

The text of each answer is JSON: the process, the ids and tokens that the request came with, and what was cancelled so far.
"""

import json
import os
import sys

MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
cancelled, listening, waiting = [], [], []


def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tell(method, **params):
    say(method=method, params=params)


def done(id, meta):
    text = json.dumps({"pid": os.getpid(), "id": id, "progress": meta.get("progressToken"), "cancelled": cancelled,
                       "listening": listening, "waiting": waiting})
    say(id=id, result={"resultType": "complete", "content": [{"type": "text", "text": text}]})


def call(id, name, meta):
    token = meta.get("progressToken")
    if name == "progress":
        for step in (1, 2):
            tell("notifications/progress", progressToken=token, progress=step)
    if name == "log":
        tell("notifications/message", level="info", data="of nobody but who asked")
    if name == "change":
        for of in listening:
            tell("notifications/tools/list_changed", _meta={SUBSCRIPTION: of})
        tell("notifications/tools/list_changed")
    if name == "end":
        for of in listening:
            tell("notifications/cancelled", requestId=of)
    if name == "finish":
        for of in listening:
            say(id=of, result={"resultType": "complete", "_meta": {SUBSCRIPTION: of}})
    if name == "ask":
        say(id="question", method="elicitation/create", params={"mode": "form", "message": "Who?"})
    if name == "die":
        os._exit(3)
    if name in ("never", "started"):
        waiting.append(id)
        if name == "started":
            tell("notifications/progress", progressToken=token, progress=1)
        return
    if name == "wrong":
        return say(id=id, error={"code": -32602, "message": "no such tool"})
    done(id, meta)


def main():
    for text in sys.stdin:
        message = json.loads(text)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        meta = params.get("_meta") or {}
        if method == "notifications/cancelled":
            cancelled.append(params["requestId"])
            if params["requestId"] in listening:
                listening.remove(params["requestId"])
        elif id is None or method is None:
            continue
        elif VERSION not in meta:
            say(id=id, error={"code": -32022, "message": "no", "data": {"supported": [MODERN]}})
        elif method == "server/discover":
            say(id=id, result={"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}},
                               "ttlMs": 0, "cacheScope": "private"})
        elif method == "subscriptions/listen":
            listening.append(id)
            tell("notifications/subscriptions/acknowledged", _meta={SUBSCRIPTION: id}, notifications={})
        elif method == "tools/call":
            call(id, params["name"], meta)
        else:
            say(id=id, error={"code": -32601, "message": "no such method"})


main()
