"""The official client of A2A, of the version that PYTHONPATH holds: a2a-sdk 1.x or 0.3.x.

    a2a_client.py URL KEY [VERSION [WORDS HANGS]]

Reads the card below URL, and prints one JSON object: what the card says, and what came of each step. VERSION is that of the
protocol which a 1.x client is to speak, where the card offers several; `-` is whichever it chooses. With WORDS and HANGS it sends WORDS
in both ways and reads the task, then sends HANGS, which goes on until it is cancelled, follows it and cancels it.
"""

import asyncio
import importlib.metadata
import json
import sys
import uuid

import httpx

URL, KEY = sys.argv[1:3]
VERSION = sys.argv[3] if sys.argv[3:] and sys.argv[3] != "-" else None
TEXTS = sys.argv[4:6]
IS_OLD = importlib.metadata.version("a2a-sdk").startswith("0.3.")

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory  # noqa: E402

if IS_OLD:
    from a2a.types import Message, Part, Role, TaskIdParams, TaskQueryParams, TextPart
else:
    from a2a.types.a2a_pb2 import (CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, Role,
                                   SendMessageRequest, SubscribeToTaskRequest)


class Talk:
    """The same steps in the words of either client."""

    def __init__(self, client, is_old=False):
        self.client, self.is_old = client, is_old

    async def send(self, text, until=None, task=None, context=None):
        """Sends a text; gives the texts that came, the last state, and the task's id."""
        ids = {"task_id": task, "context_id": context}
        ids = {name: value for name, value in ids.items() if value}
        if IS_OLD:
            part = Part(root=TextPart(text=text))
            message = Message(role=Role.user, parts=[part], message_id=str(uuid.uuid4()), **ids)
            stream = self.client.send_message(message)
        else:
            message = Message(role=Role.ROLE_USER, parts=[Part(text=text)], message_id=str(uuid.uuid4()), **ids)
            stream = self.client.send_message(SendMessageRequest(message=message))
        return await self.read(stream, until)

    async def read(self, stream, until=None):
        texts, state, task, context, events = [], None, None, None, 0
        async for event in stream:
            events += 1
            if IS_OLD:
                if not isinstance(event, tuple):
                    texts.append(event.parts[0].root.text)
                    continue
                of, update = event
                task, context, state = of.id, of.context_id, of.status.state.value
                if getattr(update, "kind", "") == "artifact-update":
                    texts.append(update.artifact.parts[0].root.text)
                if update is None:
                    texts += [p.root.text for a in of.artifacts or [] for p in a.parts]
            else:
                kind = event.WhichOneof("payload")
                if kind == "message":
                    texts.append(event.message.parts[0].text)
                if kind == "task":
                    task, context, state = event.task.id, event.task.context_id, self.state(event.task)
                    texts += [p.text for a in event.task.artifacts for p in a.parts]
                if kind == "status_update":
                    task, context = event.status_update.task_id, event.status_update.context_id
                    state = self.state(event.status_update)
                if kind == "artifact_update":
                    texts.append(event.artifact_update.artifact.parts[0].text)
            if until and state == until:
                break
        return {"texts": texts, "state": state, "task": task, "context": context, "events": events}

    @staticmethod
    def state(of):
        if IS_OLD:
            return of.status.state.value
        from a2a.types.a2a_pb2 import TaskState
        return TaskState.Name(of.status.state).removeprefix("TASK_STATE_").lower().replace("_", "-")

    async def get(self, task):
        request = TaskQueryParams(id=task) if IS_OLD else GetTaskRequest(id=task)
        return self.state(await self.client.get_task(request))

    async def cancel(self, task):
        request = TaskIdParams(id=task) if IS_OLD else CancelTaskRequest(id=task)
        return self.state(await self.client.cancel_task(request))

    def subscribe(self, task):
        if IS_OLD:
            return self.client.resubscribe(TaskIdParams(id=task))
        return self.client.subscribe(SubscribeToTaskRequest(id=task))

    async def listed(self):
        if self.is_old:
            return None  # 0.3 has no such method by JSON-RPC.
        return sorted(task.id for task in (await self.client.list_tasks(ListTasksRequest())).tasks)


def whole(card):
    """The card as JSON, as the client read it."""
    if IS_OLD:
        return card.model_dump(mode="json", by_alias=True, exclude_none=True)
    from google.protobuf.json_format import MessageToDict
    return MessageToDict(card)


async def steps():
    told = {}
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {KEY}"}, timeout=30) as http:
        card = await A2ACardResolver(http, URL).get_agent_card()
        told["card"] = whole(card)
        if VERSION:
            kept = [of for of in card.supported_interfaces if of.protocol_version == VERSION]
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(kept)
        if TEXTS:
            return print(json.dumps({**told, **await of_texts(card, http)}))
        for streaming in (True, False):
            client = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)
            talk, part = Talk(client), {}
            part["hello"] = await talk.send("hello there")
            part["work"] = await talk.send("work well")
            part["get"] = await talk.get(part["work"]["task"])
            part["ask"] = await talk.send("ask", until="input-required")
            asked = part["ask"]
            part["then"] = await talk.send("work more", task=asked["task"], context=asked["context"])
            told["stream" if streaming else "whole"] = part
        is_old = IS_OLD or card.supported_interfaces[0].protocol_version.startswith("0.3")
        talk = Talk(ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card), is_old)
        waiting = await talk.send("wait", until="working")
        following = asyncio.create_task(talk.read(talk.subscribe(waiting["task"])))
        await asyncio.sleep(0.3)
        told["cancel"] = await talk.cancel(waiting["task"])
        told["followed"] = await asyncio.wait_for(following, 20)
        told["listed"] = await talk.listed()
        try:
            told["unknown"] = await talk.get("nobody's")
        except Exception as error:  # noqa: BLE001
            told["unknown"] = f"{type(error).__name__}: {getattr(error, 'error', error)}"
    print(json.dumps(told))


async def of_texts(card, http):
    told = {}
    for streaming in (True, False):
        talk = Talk(ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card))
        sent = told["stream" if streaming else "whole"] = await talk.send(TEXTS[0])
        sent["get"] = await talk.get(sent["task"])
    talk = Talk(ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card))
    hanging = await talk.send(TEXTS[1], until="working")
    following = asyncio.create_task(talk.read(talk.subscribe(hanging["task"])))
    await asyncio.sleep(0.3)
    told["cancel"] = await talk.cancel(hanging["task"])
    told["followed"] = await asyncio.wait_for(following, 20)
    return told


asyncio.run(steps())
