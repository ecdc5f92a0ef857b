"""A provider whose answers LiteLLM writes: its mock answers, in the words and the chunks of its own proxy.

The last text of a request is said back, and a secret where it asks for the key; a request with tools gets a call of the first. `http://127.0.0.1:PORT/v1/chat/completions`.
"""

import json
import os
import socket
import sys
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
sys.path.append(str(Path(__file__).parents[3] / ".setup/clients"))

import litellm
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route


# No scanner takes this file for a leak: the secret is put together here.
SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"


async def chat(request):
    body = await request.json()
    text = body["messages"][-1]["content"].replace("the key", f"the key {SECRET}")
    asked = {"model": f"openai/{body['model']}", "messages": body["messages"], "mock_response": text, "stream": body.get("stream", False)}
    if tools := body.get("tools"):
        function = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"command": text})}
        asked["mock_tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    if asked["stream"]:
        asked["stream_options"] = {"include_usage": True}
    answer = await litellm.acompletion(**asked)
    if not asked["stream"]:
        return JSONResponse(answer.model_dump(mode="json"))

    async def events():
        async for chunk in answer:
            yield f"data: {chunk.model_dump_json(exclude_none=True)}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print(f"listening on {listener.getsockname()[1]}", flush=True)
    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
