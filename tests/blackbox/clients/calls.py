"""MCP clients of agent frameworks, each run by the Python that has it: fastmcp, agents (openai-agents) or langchain.

Standard input is a list of {url, calls}: for each URL the tools are listed and the calls made, with the key in WEIR_KEY;
standard output is what came of each. The argument is the framework.
"""

import asyncio
import json
import os
import sys

HEADERS = {"authorization": f"Bearer {os.environ['WEIR_KEY']}"}


def text_of(parts):
    return "".join(getattr(part, "text", "") for part in parts)


async def fastmcp(url, calls):
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    async with Client(StreamableHttpTransport(url, headers=HEADERS)) as client:
        tools = [tool.name for tool in await client.list_tools()]

        async def call(name, arguments):
            answer = await client.call_tool(name, arguments, raise_on_error=False)
            return text_of(answer.content), answer.is_error

        return tools, [await made(call, **one) for one in calls]


async def agents(url, calls):
    from agents.mcp import MCPServerStreamableHttp

    async with MCPServerStreamableHttp(params={"url": url, "headers": HEADERS}) as server:
        tools = [tool.name for tool in await server.list_tools()]

        async def call(name, arguments):
            answer = await server.call_tool(name, arguments)
            return text_of(answer.content), bool(getattr(answer, "is_error", False))

        return tools, [await made(call, **one) for one in calls]


async def langchain(url, calls):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    entry = {"transport": "streamable_http", "url": url, "headers": HEADERS}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"weir": entry}).get_tools()}

    async def call(name, arguments):
        # A model that makes up a name gets no further than the framework.
        answer = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        text = answer.content if isinstance(answer.content, str) else "".join(part["text"] for part in answer.content)
        return text, answer.status == "error"

    return list(tools), [await made(call, **one) for one in calls]


async def made(call, name, arguments):
    try:
        text, error = await call(name, arguments)
        return {"text": text, "error": error}
    except Exception as error:
        return {"refused": str(error)}


async def main():
    framework = {"fastmcp": fastmcp, "agents": agents, "langchain": langchain}[sys.argv[1]]
    seen = []
    for one in json.load(sys.stdin):
        tools, calls = await framework(one["url"], one["calls"])
        seen.append({"tools": tools, "calls": calls})
    print(json.dumps(seen))


asyncio.run(main())
