"""The official clients of both generations against the official servers, through the real binary."""

import asyncio
import json
import subprocess

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from gateway import LEGACY_PYTHON, SERVERS, Gateway, everything, filesystem, until

POLICY = """
@id("all-of-everything") permit (principal, action, resource in Server::"everything");
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);
@id("readers") permit (principal in Group::"readers", action == Action::"mcp:call", resource in Server::"files")
  when { ["read_text_file", "list_directory"].contains(resource.name) };
@id("writers") permit (principal in Group::"writers", action == Action::"mcp:call", resource in Server::"files");
"""
AGENTS = {"reader": {"groups": ["readers"]}, "writer": {"groups": ["writers"]}}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    files = folder / "files"
    files.mkdir()
    (files / "a.txt").write_text("mild and dry")
    servers = {"files": filesystem(files), "everything": everything()}
    with Gateway(folder / "weir", servers, AGENTS, POLICY) as gateway:
        yield gateway, files
        gateway.verify()


class connected:
    """A client of today, through the gateway."""

    def __init__(self, gateway, server, agent, mode="auto"):
        headers = {"authorization": f"Bearer {gateway.keys[agent]}"}
        self.http = httpx2.AsyncClient(headers=headers, timeout=30)
        self.client = Client(streamable_http_client(gateway.url(server), http_client=self.http), mode=mode)

    async def __aenter__(self):
        await self.http.__aenter__()
        return await self.client.__aenter__()

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)
        await self.http.__aexit__(*error)


def text_of(result):
    return "".join(getattr(part, "text", "") for part in result.content)


async def code_of(call):
    with pytest.raises(MCPError) as refused:
        await call
    return refused.value.data["code"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_client_of_today(house, mode):
    gateway, _ = house

    async def script():
        seen = []

        async def progress(done, total, message):
            seen.append(done)

        async with connected(gateway, "everything", "reader", mode) as client:
            assert client.protocol_version == "2025-11-25"
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"echo", "get-sum", "trigger-long-running-operation"} <= set(names)
            assert "hello" in text_of(await client.call_tool("echo", {"message": "hello"}))
            assert "5" in text_of(await client.call_tool("get-sum", {"a": 2, "b": 3}))
            long = {"duration": 1, "steps": 4}
            result = await client.call_tool("trigger-long-running-operation", long, progress_callback=progress)
            assert "completed" in text_of(result).lower()
            assert (await client.list_prompts()).prompts and (await client.list_resources()).resources
        assert seen == sorted(seen) and len(seen) == 4, seen

    asyncio.run(script())


@pytest.mark.parametrize("script", ["everything", "files"])
def test_the_client_of_the_generation_before(house, script):
    gateway, files = house
    command = [str(LEGACY_PYTHON), str(SERVERS.parent / "clients/legacy.py"), gateway.url(script),
               gateway.keys["reader"], script, str(files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["revision"] == "2025-11-25"
    if script == "files":
        assert set(seen["tools"]) == {"read_text_file", "list_directory"}
        assert seen["text"] == "mild and dry" and seen["refused"] == "policy.forbidden"
        assert not (files / "b.txt").exists()
    else:
        assert "echo" in seen["tools"] and len(seen["progress"]) == 4 and "hello" in seen["echo"]
        assert seen["prompts"] and seen["resources"]


def test_two_agents_at_once(house):
    gateway, files = house

    async def read(client, others):
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"read_text_file", "list_directory"}
        for _ in range(others):
            assert text_of(await client.call_tool("read_text_file", {"path": f"{files}/a.txt"})) == "mild and dry"
            refused = client.call_tool("write_file", {"path": f"{files}/reader.txt", "content": "x"})
            assert await code_of(refused) == "policy.forbidden"

    async def write(client, count):
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"read_text_file", "write_file", "edit_file"} <= names
        for i in range(count):
            await client.call_tool("write_file", {"path": f"{files}/writer{i}.txt", "content": str(i)})

    async def script():
        async with connected(gateway, "files", "reader") as reader, connected(gateway, "files", "writer") as writer:
            await asyncio.gather(read(reader, 10), write(writer, 10))

    asyncio.run(script())
    assert not (files / "reader.txt").exists()
    assert [(files / f"writer{i}.txt").read_text() for i in range(10)] == [str(i) for i in range(10)]
    judged = [r for r in gateway.records() if r["kind"] == "judgement" and r.get("tool") == "write_file"]
    assert {(r["agent"], r["decision"]) for r in judged} >= {("reader", "refuse"), ("writer", "pass")}


def test_cancellation(house):
    """A client that gives up a call: the call ends long before its own time, and the session lives on."""
    gateway, _ = house

    async def script():
        async with connected(gateway, "everything", "writer") as client:
            started = anyio.Event()

            async def progress(done, total, message):
                started.set()

            async def long():
                arguments = {"duration": 60, "steps": 600}
                await client.call_tool("trigger-long-running-operation", arguments, progress_callback=progress)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(long)
                with anyio.fail_after(20):
                    await started.wait()
                tasks.cancel_scope.cancel()
            assert "alive" in text_of(await client.call_tool("echo", {"message": "alive"}))

    asyncio.run(script())
    def ended():
        records = gateway.records()
        long = [r["call"] for r in records if r.get("agent") == "writer" and r.get("tool", "").startswith("trigger")]
        return [r for r in records if r["kind"] == "outcome" and r["call"] in long]
    assert until(ended, "the cancelled call's outcome")[0]["end"] in ("cut", "complete", "failed")
    cancelled = [r for r in gateway.records() if r.get("method") == "notifications/cancelled"]
    assert cancelled, "the cancellation is judged and recorded like any other message"
