"""`/mcp`: all servers behind one URL, to official clients of both eras."""

import asyncio
import json

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from gateway import Gateway, everything, filesystem, until
from test_conformance import started

POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list", Action::"mcp:read", Action::"mcp:prompt"], resource);
@id("all-of") permit (principal, action == Action::"mcp:call", resource in Server::"everything");
@id("fixture") permit (principal, action == Action::"mcp:call", resource in Server::"fixture");
@id("readers") permit (principal in Group::"readers", action == Action::"mcp:call", resource in Server::"files")
  when { ["read_text_file", "list_directory"].contains(resource.name) };
@id("named") permit (principal, action == Action::"mcp:call", resource == Tool::"named/echo");
@id("twin") permit (principal in Group::"writers", action == Action::"mcp:call", resource);
"""
AGENTS = {"reader": {"groups": ["readers"]}, "writer": {"groups": ["writers"]}}
MODES = {"auto": "2026-07-28", "legacy": "2025-11-25", "2026-07-28": "2026-07-28"}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    files = folder / "files"
    files.mkdir()
    (files / "a.txt").write_text("mild and dry")
    fixture, url = started("--port", 0)
    servers = {
        "files": filesystem(files),
        "twin": filesystem(files),
        "everything": everything(),
        "fixture": {"url": url},
        "dead": {"url": "http://127.0.0.1:9/mcp"},
    }
    toolsets = {
        "desk": {"servers": ["files", "named"], "tools": ["files/read_*", "named/echo"]},
        "many": {"servers": ["everything", "files"], "search": True},
    }
    words = {"description": "Says it again.", "annotations": {"readOnlyHint": True}}
    servers["named"] = {**everything(), "names": {"echo": "say"}, "items": {"echo": words}}
    try:
        with Gateway(folder / "weir", servers, AGENTS, POLICY, toolsets=toolsets) as gateway:
            until(lambda: all(health(gateway).get(name) == "works" for name in servers if name != "dead"), "all work")
            yield gateway, files
            gateway.verify()
    finally:
        fixture.kill()
        fixture.wait()
        fixture.stdout.close()


def health(gateway):
    answer = gateway.request("GET", "/health").json()
    return {name: state for name, state in answer["servers"].items()}


class connected:
    """A client of today at `/mcp`, through the gateway."""

    def __init__(self, gateway, agent, mode="auto", path="/mcp"):
        headers = {"authorization": f"Bearer {gateway.keys[agent]}"}
        self.http = httpx2.AsyncClient(headers=headers, timeout=30)
        url = f"http://127.0.0.1:{gateway.port}{path}"
        self.client = Client(streamable_http_client(url, http_client=self.http), mode=mode)

    async def __aenter__(self):
        await self.http.__aenter__()
        return await self.client.__aenter__()

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)
        await self.http.__aexit__(*error)


def text_of(result):
    return "".join(getattr(part, "text", "") for part in result.content)


@pytest.mark.parametrize("mode", MODES)
def test_all_servers_at_one_url(house, mode):
    gateway, files = house

    async def script():
        async with connected(gateway, "reader", mode) as client:
            assert client.protocol_version == MODES[mode]
            listed = await client.list_tools()
            names = {tool.name for tool in listed.tools}
            # Of the server of another era, of a child, and only what policy lets this agent call.
            assert {"echo", "get-sum", "test_simple_text", "read_text_file"} <= names
            assert "write_file" not in names and not any(name.startswith("twin__") for name in names)
            assert listed.meta["weir/missing"] == ["dead"]
            assert "hello" in text_of(await client.call_tool("echo", {"message": "hello"}))
            said = await client.call_tool("read_text_file", {"path": str(files / "a.txt")})
            assert text_of(said) == "mild and dry"
            assert "simple text" in text_of(await client.call_tool("test_simple_text", {}))
            # The long name is good as well.
            assert "hi" in text_of(await client.call_tool("everything__echo", {"message": "hi"}))
            prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
            assert "test_simple_prompt" in prompts
            assert (await client.get_prompt("test_simple_prompt")).messages
            uris = {str(one.uri) for one in (await client.list_resources()).resources}
            assert "test://static-text" in uris
            assert (await client.read_resource("test://static-text")).contents
            with pytest.raises(MCPError) as refused:
                await client.call_tool("no_such_tool", {})
            assert refused.value.data["code"] == "mcp.item_unknown"
            assert "dead" in str(refused.value)

    asyncio.run(script())


def test_names_that_clash(house):
    gateway, files = house

    async def script():
        async with connected(gateway, "writer") as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"files__read_text_file", "twin__read_text_file"} <= names and "read_text_file" not in names
            with pytest.raises(MCPError) as refused:
                await client.call_tool("read_text_file", {"path": str(files / "a.txt")})
            assert refused.value.data["code"] == "mcp.name_clash"
            assert "files__read_text_file or twin__read_text_file" in str(refused.value)
            said = await client.call_tool("twin__read_text_file", {"path": str(files / "a.txt")})
            assert text_of(said) == "mild and dry"
        records = [record for record in gateway.records() if record.get("tool") == "read_text_file"]
        assert records[-1]["server"] == "twin" and records[-1]["agent"] == "writer"

    asyncio.run(script())


@pytest.mark.parametrize("mode", MODES)
def test_progress_comes_under_the_clients_token(house, mode):
    gateway, _ = house

    async def script():
        seen = []

        async def progress(done, total, message):
            seen.append(done)

        async with connected(gateway, "reader", mode) as client:
            long = {"duration": 1, "steps": 4}
            await client.call_tool("trigger-long-running-operation", long, progress_callback=progress)
            assert len(seen) == 4, seen
            seen.clear()
            await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
            assert len(seen) >= 2, seen

    asyncio.run(script())


def test_a_set_of_its_own(house):
    gateway, files = house

    async def script():
        async with connected(gateway, "reader", path="/mcp/@desk") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"read_text_file", "say"}
            assert tools["say"].description == "Says it again."
            assert tools["say"].annotations.read_only_hint is True
            assert "hello" in text_of(await client.call_tool("say", {"message": "hello"}))
            with pytest.raises(MCPError) as refused:
                await client.call_tool("list_directory", {"path": str(files)})
            assert refused.value.data["code"] == "mcp.item_unknown"

    asyncio.run(script())
    missing = gateway.request("POST", "/mcp/@other", b"{}", gateway.headers("reader"))
    assert missing.status == 404 and missing.json()["error"]["data"]["code"] == "mcp.server_unknown"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_tools_are_found_by_search(house, mode):
    gateway, files = house

    async def script():
        async with connected(gateway, "reader", mode, path="/mcp/@many") as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert tools == ["find_tools", "describe_tool", "call_tool"]
            found = (await client.call_tool("find_tools", {"query": "add two numbers", "limit": 3})).structured_content
            assert found["tools"][0]["name"] == "get-sum" and found["of"] > 10
            described = (await client.call_tool("describe_tool", {"name": "get-sum"})).structured_content
            assert set(described["inputSchema"]["properties"]) == {"a", "b"}
            said = await client.call_tool("call_tool", {"name": "get-sum", "arguments": {"a": 2, "b": 3}})
            assert "5" in text_of(said)
            # What policy hides is not found, and not called.
            found = (await client.call_tool("find_tools", {"query": "write file", "limit": 50})).structured_content
            assert "write_file" not in {tool["name"] for tool in found["tools"]}
            with pytest.raises(MCPError):
                inner = {"path": str(files / "b.txt"), "content": "x"}
                await client.call_tool("call_tool", {"name": "write_file", "arguments": inner})
            assert not (files / "b.txt").exists()
            nothing = await client.call_tool("describe_tool", {"name": "zebra"})
            assert nothing.is_error and "find_tools" in text_of(nothing)

    asyncio.run(script())
    sums = [record for record in gateway.records() if record.get("tool") == "get-sum"]
    assert sums and all(record["action"] == "mcp:call" and record["server"] == "everything" for record in sums)
    assert not [record for record in gateway.records() if record.get("tool") == "call_tool"]


def rpc(method, params=None, id=1):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def begin(gateway, agent="reader"):
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = gateway.request("POST", "/mcp", json.dumps(rpc("initialize", hello)), gateway.headers(agent))
    assert answer.status == 200, answer.body
    return answer.headers["mcp-session-id"]


def test_a_session_is_its_agents_and_of_this_process(house):
    gateway, _ = house
    session = begin(gateway)
    ask = lambda agent, session: gateway.request(
        "POST", "/mcp", json.dumps(rpc("ping")), {**gateway.headers(agent), "mcp-session-id": session})
    assert ask("reader", session).json()["result"] == {}
    for agent, given in [("writer", session), ("reader", session[:-2]), ("reader", "x")]:
        refused = ask(agent, given)
        assert refused.status == 404 and refused.json()["error"]["data"]["code"] == "mcp.session_unknown"


def test_refusals_at_one_url(house):
    gateway, _ = house
    headers = gateway.headers("reader")
    post = lambda body, **more: gateway.request("POST", "/mcp", body, {**headers, **more})
    for body, status, code in [
        (b"{", 400, "mcp.json_invalid"),
        (b"[]", 400, "mcp.batch_invalid"),
        (json.dumps([rpc("initialize")]), 400, "mcp.batch_invalid"),
        (json.dumps(rpc("tools/calls")), 404, "mcp.method_gone"),
        (json.dumps(rpc("Tools/Call")), 400, "mcp.message_invalid"),
        (json.dumps(rpc("tools/call")), 400, "mcp.message_invalid"),
        (json.dumps(rpc("tools/call", {"name": "echo "})), 200, "mcp.item_unknown"),
        (json.dumps(rpc("resources/read", {"uri": "none://x"})), 200, "mcp.item_unknown"),
    ]:
        answer = post(body)
        assert (answer.status, answer.json()["error"]["data"]["code"]) == (status, code), body
    # An answer to nothing is taken, and is for nobody.
    assert post(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}})).status == 202
    later = post(json.dumps([rpc("ping")]), **{"mcp-protocol-version": "2025-06-18"})
    assert later.json()["error"]["data"]["code"] == "mcp.batch"
    nobody = gateway.request("POST", "/mcp", json.dumps(rpc("ping")), {"content-type": "application/json"})
    assert nobody.status == 401
    modern = {"mcp-protocol-version": "2026-07-28"}
    refused = gateway.request("GET", "/mcp", None, {**headers, **modern, "accept": "text/event-stream"})
    assert refused.status == 405 and refused.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/fixture"])
def test_a_batch_is_its_messages(house, path):
    gateway, _ = house
    headers = {**gateway.headers("reader"), "mcp-session-id": begin(gateway)}
    if path != "/mcp":
        hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = gateway.request("POST", path, json.dumps(rpc("initialize", hello)), gateway.headers("reader"))
        headers["mcp-session-id"] = answer.headers["mcp-session-id"]
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    forbidden = rpc("tools/call", {"name": "write_file", "arguments": {}}, 3)
    batch = [rpc("ping", id=1), told, rpc("tools/call", {"name": "test_simple_text", "arguments": {}}, 2), forbidden]
    answer = gateway.request("POST", path, json.dumps(batch), headers)
    assert answer.status == 200, answer.body
    body = answer.body.decode()
    if answer.headers["content-type"] == "text/event-stream":
        answers = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and line[5:].strip()]
    else:
        answers = json.loads(body)
    by_id = {said["id"]: said for said in answers if "id" in said}
    assert set(by_id) == {1, 2, 3}
    assert by_id[1]["result"] == {} and "simple text" in json.dumps(by_id[2]["result"])
    assert "error" in by_id[3] or by_id[3]["result"].get("isError")
    only_told = gateway.request("POST", path, json.dumps([told]), headers)
    assert (only_told.status, only_told.body) == (202, b"")
    # Each is a call of its own in the log.
    def seen():
        calls = [record for record in gateway.records() if record.get("tool") == "test_simple_text"]
        return len(calls) >= 1
    until(seen, "the call of the batch is recorded")


def test_a_policy_on_the_set_holds_for_its_calls(tmp_path):
    policy = """
    permit (principal, action, resource);
    forbid (principal == Agent::"eve", action, resource == Toolset::"one");
    """
    fixture, url = started("--port", 0)
    toolsets = {"one": {"servers": ["fixture"], "tools": ["fixture/test_simple_text"]}}
    try:
        with Gateway(tmp_path / "weir", {"fixture": {"url": url}}, {"dev": {}, "eve": {}}, policy, toolsets=toolsets) as gateway:
            until(lambda: gateway.request("GET", "/health").json()["revisions"]["fixture"], "what the fixture speaks")
            def ask(agent, method, params):
                return gateway.request("POST", "/mcp/@one", json.dumps(rpc(method, params)), gateway.headers(agent)).body
            call = ("tools/call", {"name": "test_simple_text", "arguments": {}})
            assert b"simple text" in ask("dev", *call)
            assert b"policy.forbidden" in ask("eve", *call)
            # Of a set, what is not named is not there: resources too.
            read = ("resources/read", {"uri": "test://static-text"})
            assert b"mcp.item_unknown" in ask("dev", *read)
            assert b"mcp.item_unknown" in ask("dev", "tools/call", {"name": "test_image_content", "arguments": {}})
            gateway.verify()
    finally:
        fixture.kill()
        fixture.wait()
        fixture.stdout.close()
