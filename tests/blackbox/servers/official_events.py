"""A server over HTTP+SSE of 2024-11-05, by the official Python SDK of that generation. It prints `listening on PORT`."""

import socket

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

server = FastMCP("official", message_path="/to/messages/")


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
async def steps(ctx: Context) -> str:
    for step in range(3):
        await ctx.report_progress(step, 3)
    return "stepped"


@server.tool()
async def ask(ctx: Context) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="who?"))
    said = await ctx.session.create_message([question], max_tokens=10)
    return said.content.text


listener = socket.create_server(("127.0.0.1", 0))
print(f"listening on {listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(server.sse_app(), log_level="warning")).run(sockets=[listener])
