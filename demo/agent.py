"""The scripted agent: calls tools through the gateway with the official Python client, as any agent would.

It reads WEIR_URL, WEIR_CODE_URL, WEIR_FLOW_URL and WEIR_KEY, prints one line for each thing that it tried, and exits 1 if the gateway did
not do what the demo says it does.
"""

import asyncio
import os
import sys

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from show import check, failed, step

FILES = os.environ["WEIR_FILES"]
# Both are made up here. They are put together at run time, so that no scanner takes this file for a leak.
LEAKED_KEY = "AKIA" + "Z7QWERTYUIOPLK2M"
TOKEN = "ghp_" + "kX9vB2nM4qW7eR1tY6uI3oP8aS5dF0" + os.environ["WEIR_TOKEN_END"]


async def refused_code(call):
    """The code of the refusal that a call meets, or nothing if it passed."""
    try:
        await call
    except MCPError as error:
        return (error.data or {}).get("code"), error.message
    return None, "it passed"


def text_of(result):
    return "".join(getattr(part, "text", "") for part in result.content)


async def act(client):
    step("a call passes")
    result = await client.call_tool("read_text_file", {"path": f"{FILES}/weather.txt"})
    check("read_text_file weather.txt", "0.84 m" in text_of(result), text_of(result).strip())

    step("a forbidden tool is not listed, and cannot be called")
    names = [tool.name for tool in (await client.list_tools()).tools]
    allowed = "read_text_file" in names and "write_file" not in names
    check("tools/list", allowed, f"{', '.join(sorted(names))}")
    call = client.call_tool("write_file", {"path": f"{FILES}/x.txt", "content": "x"})
    code, message = await refused_code(call)
    untouched = not os.path.exists(f"{FILES}/x.txt")
    check("write_file", code == "policy.forbidden" and untouched, message)

    step("a leaked key is refused before it leaves")
    call = client.call_tool("search_files", {"path": FILES, "pattern": LEAKED_KEY})
    code, message = await refused_code(call)
    check("search_files <an AWS key>", code == "scan.secret" and LEAKED_KEY not in message, message)

    step("a secret in an answer is taken out")
    result = await client.call_tool("read_text_file", {"path": f"{FILES}/notes.txt"})
    text = text_of(result)
    check("read_text_file notes.txt", TOKEN not in text and "deploy" in text, text.strip())

    step("an injected answer is not passed on")
    call = client.call_tool("read_text_file", {"path": f"{FILES}/page.txt"})
    code, message = await refused_code(call)
    check("read_text_file page.txt", code == "scan.injection", message)


async def find(client):
    step("the agent finds code in this repository, with the server that weir ships")
    names = [tool.name for tool in (await client.list_tools()).tools]
    check("tools/list", "search_code" in names and "remove_repository" not in names, ", ".join(sorted(names)))
    job = (await client.call_tool("index_repository", {"wait_s": 50})).structured_content or {}
    told = f"{job.get('files_seen')} files in {job.get('took_ms')} ms"
    check("index_repository", job.get("state") == "done", told)
    asked = {"query": "start a child process and kill its group in the end", "languages": ["rust"], "limit": 5}
    found = (await client.call_tool("search_code", asked)).structured_content or {}
    paths = [hit["path"] for hit in found.get("hits", [])]
    right = any(path.startswith("crates/net/src/children") for path in paths)
    check(f"search_code \"{asked['query']}\"", right, f"{', '.join(paths)} ({found.get('took_ms', 0):.1f} ms)")


async def track(client):
    step("the agent tracks its work, with the other server that weir ships; each write names it")
    names = [tool.name for tool in (await client.list_tools()).tools]
    check("tools/list", "claim" in names and "work_item_delete" not in names, ", ".join(names))

    async def ask(tool, /, **arguments):
        return (await client.call_tool(tool, arguments)).structured_content or {}

    first = [project["name"] for project in (await ask("project", action="list")).get("projects", [])]
    if "demo" not in first:
        await ask("project", action="create", name="demo")
    made = (await ask("work_item_create", project="demo", title="Show what weir does", priority=1)).get("item", {})
    check("work_item_create", made.get("created_by") == "demo", f"#{made.get('number')} by {made.get('created_by')}")
    taken = await ask("claim", project="demo", id=made.get("id", ""))
    done = await ask("work_item_update", project="demo", id=made.get("id", ""), version=taken.get("item", {}).get("version", 0),
                     lease_token=taken.get("token", 0), status="completed")
    check("claim, work_item_update", done.get("item", {}).get("status") == "completed", f"token {taken.get('token')}")


async def main():
    headers = {"authorization": f"Bearer {os.environ['WEIR_KEY']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(os.environ["WEIR_URL"], http_client=http)
        async with Client(transport) as client:
            await act(client)
        transport = streamable_http_client(os.environ["WEIR_CODE_URL"], http_client=http)
        async with Client(transport) as client:
            await find(client)
        transport = streamable_http_client(os.environ["WEIR_FLOW_URL"], http_client=http)
        async with Client(transport) as client:
            await track(client)
    sys.exit(1 if failed() else 0)


asyncio.run(main())
