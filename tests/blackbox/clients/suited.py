"""The client that the official conformance suite starts: it does what a scenario asks of a client, by the official SDK.

Arguments: the binary of weir, or `direct`, then the URL of the suite's server. With a binary, weir is started before that
server and the SDK speaks to weir, so that the suite sees what weir sends. The suite gives the scenario, the revision and
what to call in environment variables.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


async def calls(client, tools):
    """Each tool that is listed, with the arguments that its schema wants."""
    given = {"a": 5, "b": 3}
    for tool in tools:
        wanted = tool.input_schema.get("properties", {})
        await client.call_tool(tool.name, {name: given.get(name, "us-west1") for name in wanted})


async def of_context(client, tools):
    for call in CONTEXT["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def every_method(client, tools):
    await calls(client, tools)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(str(resource.uri))
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def at_once(client, tools):
    """The questions of one call are not those of another. The SDK does not take a result without `resultType`, which one of
    the tools answers with; what it sent is judged all the same."""
    made = [client.call_tool(tool.name, {}) for tool in tools]
    failed = [one for one in await asyncio.gather(*made, return_exceptions=True) if isinstance(one, Exception)]
    if any("resultType" not in str(one) for one in failed):
        raise failed[0]


async def schema_back(client, tools):
    """What was listed goes back as an argument, so that the suite sees what came of it."""
    schemas = {tool.name: tool.input_schema for tool in tools}
    echo = next(name for name in schemas if "echo" in name)
    focal = next(schema for name, schema in schemas.items() if name != echo)
    await client.call_tool(echo, {"schema": focal})


async def nothing(client, tools):
    pass


SCRIPTS = {"http-custom-headers": of_context, "http-standard-headers": every_method, "initialize": nothing,
           "json-schema-2020-12-preservation": schema_back, "json-schema-ref-no-deref": nothing,
           "sep-2322-client-request-state": at_once}


async def answer(context, params):
    """Accepts a question with the defaults of its schema."""
    wanted = getattr(params, "requested_schema", {}).get("properties", {})
    defaults = {name: one["default"] for name, one in wanted.items() if "default" in one}
    return types.ElicitResult(action="accept", content=defaults)


async def script(url, headers):
    mode = "auto" if REVISION >= "2026" else "legacy"
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=answer) as client:
            tools = (await client.list_tools()).tools
            await SCRIPTS.get(SCENARIO, calls)(client, tools)


def main():
    weir, url = sys.argv[1:]
    # The suite ends a client that takes too long; the gateway ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as ending:
        headers = {}
        if weir != "direct":
            os.environ["WEIR_BIN"] = weir
            sys.path.insert(0, str(Path(__file__).parents[1]))
            from gateway import Gateway, until

            folder = ending.enter_context(tempfile.TemporaryDirectory())
            gateway = ending.enter_context(Gateway(folder, {"suite": {"url": url}}))
            until(lambda: gateway.request("GET", "/health").json()["servers"]["suite"] == "works", "the server works")
            url, headers = gateway.url("suite"), {"authorization": f"Bearer {gateway.keys['dev']}"}
        asyncio.run(script(url, headers))


main()
