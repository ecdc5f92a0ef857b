"""`/mcp`: all servers behind one URL, to official clients of both eras."""

import asyncio
import json
import subprocess
import sys

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from gateway import LEGACY_PYTHON, SERVERS, Gateway, everything, filesystem, until
from test_conformance import started

POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list", Action::"mcp:read", Action::"mcp:prompt"], resource);
@id("all-of") permit (principal, action == Action::"mcp:call", resource in Server::"everything");
@id("fixture") permit (principal, action == Action::"mcp:call", resource in Server::"fixture");
@id("readers") permit (principal in Group::"readers", action == Action::"mcp:call", resource in Server::"files")
  when { ["read_text_file", "list_directory"].contains(resource.name) };
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
    try:
        with Gateway(folder / "weir", servers, AGENTS, POLICY) as gateway:
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
