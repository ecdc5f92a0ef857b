"""An A2A agent by the official SDK, of the version that PYTHONPATH holds: a2a-sdk 1.x, which answers 0.3 too, or 0.3.x.

    a2a_agent.py FOLDER     prints `listening on PORT` once it can be called

What FOLDER/description says is its card's description, read for each request. It does what a message's first word says:
`hello` answers with a message; `work` begins a task, says the rest of the text in an artifact, in two pieces, and completes it;
`halves` says the halves of that rest in two events; `wait` begins a task that goes on until it is cancelled; `ask` asks for
more. GET /seen tells the head of the last requests, and which of them reached a handler.
"""

import asyncio
import importlib.metadata
import socket
import sys
from pathlib import Path

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

FOLDER = Path(sys.argv[1])
IS_OLD = importlib.metadata.version("a2a-sdk").startswith("0.3.")
listener = socket.create_server(("127.0.0.1", 0))
PORT = listener.getsockname()[1]
URL = f"http://127.0.0.1:{PORT}/rpc"
seen, cancelled = [], []

if IS_OLD:
    from a2a.server.apps import A2AStarletteApplication
    from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
    from a2a.utils import new_agent_text_message, new_task

    def text_part(text):
        return Part(root=TextPart(text=text))

    def task_of(message):
        return new_task(message)

    def card():
        return AgentCard(
            name="Tester", description=(FOLDER / "description").read_text(), version="1", url=URL,
            capabilities=AgentCapabilities(streaming=True, push_notifications=True),
            default_input_modes=["text"], default_output_modes=["text"],
            skills=[AgentSkill(id="work", name="Work", description="Works.", tags=["work"])])
else:
    from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message, new_text_part
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role

    def text_part(text):
        return new_text_part(text)

    def new_agent_text_message(text):
        return new_text_message(text, role=Role.ROLE_AGENT)

    def task_of(message):
        return new_task_from_user_message(message)

    def card():
        interfaces = [AgentInterface(url=URL, protocol_binding="JSONRPC", protocol_version=version)
                      for version in ("1.0", "0.3")]
        return AgentCard(
            name="Tester", description=(FOLDER / "description").read_text(), version="1",
            supported_interfaces=interfaces,
            capabilities=AgentCapabilities(streaming=True, push_notifications=True),
            default_input_modes=["text"], default_output_modes=["text"],
            skills=[AgentSkill(id="work", name="Work", description="Works.", tags=["work"])])


class Executor(AgentExecutor):
    async def execute(self, context, event_queue):
        word, _, rest = context.get_user_input().partition(" ")
        if word == "hello":
            await event_queue.enqueue_event(new_agent_text_message(f"hello {rest}"))
            return
        task = context.current_task
        if task is None:
            task = task_of(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if word == "ask":
            await updater.requires_input(new_agent_text_message("and then?"))
            return
        if word == "wait":
            while task.id not in cancelled:
                await asyncio.sleep(0.02)
            return
        if word == "halves":
            middle = len(rest) // 2
            pieces = [rest[:middle], rest[middle:]]
        else:
            pieces = [f"did {rest}", " and is done"]
        for i, piece in enumerate(pieces):
            await updater.add_artifact([text_part(piece)], artifact_id="a", name="result", append=i > 0,
                                       last_chunk=i == len(pieces) - 1)
        await updater.complete()

    async def cancel(self, context, event_queue):
        cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def told(_request):
    return JSONResponse(seen)


def routes():
    common = {"agent_executor": Executor(), "task_store": InMemoryTaskStore()}
    if IS_OLD:
        handler = DefaultRequestHandler(**common)
        app = A2AStarletteApplication(agent_card=card(), http_handler=handler, card_modifier=lambda _: card())
        return app.routes(rpc_url="/rpc")

    async def modified(_card):
        return card()

    handler = DefaultRequestHandler(**common, agent_card=card())
    return [*create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_agent_card_routes(card(), card_modifier=modified)]


class Seeing:
    """Keeps the head and the body of each request."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] == "/seen":
            return await self.app(scope, receive, send)
        request = {"path": scope["path"], "body": "",
                   "headers": {name.decode(): value.decode() for name, value in scope["headers"]}}
        seen.append(request)
        del seen[:-50]

        async def read():
            message = await receive()
            request["body"] += message.get("body", b"").decode()
            return message

        await self.app(scope, read, send)


app = Seeing(Starlette(routes=[*routes(), Route("/seen", told)]))
print(f"listening on {PORT}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)).run([listener])
