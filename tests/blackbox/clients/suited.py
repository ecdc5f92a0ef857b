"""What each scenario of the official conformance suite asks of a client, done by the official SDK."""

import asyncio

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def calls(client, tools, context):
    """Each tool that is listed, with the arguments that its schema wants."""
    given = {"a": 5, "b": 3}
    for tool in tools:
        wanted = tool.input_schema.get("properties", {})
        await client.call_tool(tool.name, {name: given.get(name, "us-west1") for name in wanted})


async def of_context(client, tools, context):
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def every_method(client, tools, context):
    await calls(client, tools, context)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(str(resource.uri))
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def at_once(client, tools, context):
    """The questions of one call are not those of another. The SDK does not take a result without `resultType`, which one of
    the tools answers with; what it sent is judged all the same."""
    made = [client.call_tool(tool.name, {}) for tool in tools]
    failed = [one for one in await asyncio.gather(*made, return_exceptions=True) if isinstance(one, Exception)]
    if any("resultType" not in str(one) for one in failed):
        raise failed[0]


async def schema_back(client, tools, context):
    """What was listed goes back as an argument, so that the suite sees what came of it."""
    schemas = {tool.name: tool.input_schema for tool in tools}
    echo = next(name for name in schemas if "echo" in name)
    focal = next(schema for name, schema in schemas.items() if name != echo)
    await client.call_tool(echo, {"schema": focal})


async def nothing(client, tools, context):
    pass


SCRIPTS = {"http-custom-headers": of_context, "http-standard-headers": every_method, "initialize": nothing,
           "json-schema-2020-12-preservation": schema_back, "json-schema-ref-no-deref": nothing,
           "sep-2322-client-request-state": at_once}


async def answer(context, params):
    """Accepts a question with the defaults of its schema."""
    wanted = getattr(params, "requested_schema", {}).get("properties", {})
    defaults = {name: one["default"] for name, one in wanted.items() if "default" in one}
    return types.ElicitResult(action="accept", content=defaults)


async def play(scenario, revision, context, url, headers):
    """Does what a scenario asks. `context` is what the suite tells a client beside the revision and the URL."""
    mode = "auto" if revision >= "2026" else "legacy"
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=answer) as client:
            tools = (await client.list_tools()).tools
            await SCRIPTS.get(scenario, calls)(client, tools, context)
