"""The official client of the generation before (mcp<2), run by its own Python; prints what it saw as JSON.

Arguments: URL, key, and the name of one script below.
"""

import asyncio
import json
import sys

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client


async def files(session):
    folder = sys.argv[4]
    tools = [tool.name for tool in (await session.list_tools()).tools]
    read = await session.call_tool("read_text_file", {"path": f"{folder}/a.txt"})
    try:
        await session.call_tool("write_file", {"path": f"{folder}/b.txt", "content": "b"})
        refused = None
    except McpError as error:
        refused = error.error.data["code"]
    return {"tools": tools, "text": read.content[0].text, "refused": refused}


async def wrong_name(session):
    try:
        await session.call_tool("made_up", {})
        refused = None
    except McpError as error:
        refused = error.error.data["code"]
    echo = await session.call_tool("echo", {"text": "hello"})
    return {"refused": refused, "echo": echo.content[0].text}


async def everything(session):
    seen = []

    async def progress(done, total, message):
        seen.append(done)

    arguments = {"duration": 1, "steps": 4}
    result = await session.call_tool("trigger-long-running-operation", arguments, progress_callback=progress)
    tools = [tool.name for tool in (await session.list_tools()).tools]
    echo = await session.call_tool("echo", {"message": "hello"})
    prompts = [prompt.name for prompt in (await session.list_prompts()).prompts]
    resources = [str(resource.uri) for resource in (await session.list_resources()).resources]
    return {"tools": tools, "progress": seen, "long": result.content[0].text, "echo": echo.content[0].text,
            "prompts": prompts, "resources": resources}


async def main():
    url, key, script = sys.argv[1:4]
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        async with streamable_http_client(url, http_client=http) as (read, write, _):
            async with ClientSession(read, write) as session:
                hello = await session.initialize()
                seen = await {"files": files, "everything": everything, "wrong_name": wrong_name}[script](session)
    print(json.dumps({"revision": hello.protocolVersion, **seen}))


asyncio.run(main())
