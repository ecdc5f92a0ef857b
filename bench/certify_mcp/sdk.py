"""A server on standard input and output with the official SDK for Python."""

import asyncio
import json
import sys

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

NAMED = {"echo": "Gives back its text and path.", "forbidden": "A tool that the tests' policy does not permit."}


async def listed(ctx, params):
    schema = json.loads(sys.argv[2])
    return ListToolsResult(tools=[Tool(name=name, description=text, input_schema=schema) for name, text in NAMED.items()])


async def called(ctx, params):
    read = {name: (params.arguments or {}).get(name) for name in ("text", "path")}
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(json.dumps({"ran": params.name, "arguments": read}) + "\n")
    return CallToolResult(content=[TextContent(type="text", text=f"{read['text']} {read['path']}")])


async def main():
    server = Server("python-sdk", version="1", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


asyncio.run(main())
