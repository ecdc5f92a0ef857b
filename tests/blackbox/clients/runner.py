"""A run outside of weir: openai-agents plays the loop, with weir for model and tools. Arguments: the gateway's URL, the model, the
tools that the agent is shown, and what it is told. WEIR_KEY has the key. Standard output is the last word."""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp, create_static_tool_filter
from openai import AsyncOpenAI


async def main(url, model, tools, told):
    key = os.environ["WEIR_KEY"]
    params = {"url": f"{url}/mcp", "headers": {"authorization": f"Bearer {key}"}}
    shown = create_static_tool_filter(allowed_tool_names=tools.split(","))
    async with MCPServerStreamableHttp(params=params, tool_filter=shown) as server:
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        model = OpenAIChatCompletionsModel(model=model, openai_client=client)
        agent = Agent(name="worker", instructions="You work.", model=model, mcp_servers=[server])
        done = Runner.run_streamed(agent, told)
        async for _ in done.stream_events():
            pass
        print(done.final_output)


set_tracing_disabled(True)
asyncio.run(main(*sys.argv[1:]))
