"""The fixture of the official conformance suite: what its scenarios call by fixed name, with the official Python SDK.

`everything.py --port 0` serves streamable HTTP and prints its URL; `everything.py --stdio` serves standard input and
output. `everything.py --forks PATH` does the second for each process that connects to this Unix socket and sends its
two descriptors, since the SDK takes most of a second to import, and the suite opens a session for each scenario.

Both eras are served: the revisions with a handshake, and 2026-07-28 as far as the SDK offers it. The tasks extension
is absent.

A tool, resource or prompt is one entry in its table. The tests need this server to pass the suite without a warning.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import warnings

import uvicorn
from mcp import MCPError
from mcp.server.caching import CACHEABLE_METHODS, CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, EmptyResult
from mcp_types import ListRootsRequest, ListRootsResult, SamplingMessage, TextContent

NAME = "conformance-fixture"
MODERN = "2026-07-28"
RETRY_MS = 100
STEP_S = 0.02
# The suite polls a stream that was closed in the middle of a call; the result comes once it is back, or later.
RECONNECT_S = 0.2
EVENTS_MAX = 1000
SESSIONS_MAX = 100
# A red pixel, and a silent wave file of no length.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

TOOLS, PROMPTS, SESSIONS = {}, {}, {}
bus = InMemorySubscriptionBus()


def text(value):
    return {"type": "text", "text": value}


def image():
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri, mime, value):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": value}}


def content(*blocks, **more):
    return {"content": list(blocks), **more}


def strings(*names):
    """The schema of an object with these strings, all required."""
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


def tool(description, schema=None):
    def register(run):
        listed = {"name": run.__name__, "description": description, "inputSchema": schema or strings()}
        TOOLS[run.__name__] = listed, run
        return run
    return register


def prompt(description, *arguments):
    def register(run):
        listed = {"name": run.__name__, "description": description,
                  "arguments": [{"name": name, "required": True} for name in arguments]}
        PROMPTS[run.__name__] = listed, run
        return run
    return register


# Content.

@tool("Answers text.")
async def test_simple_text(ctx, params):
    return content(text("This is a simple text response for testing."))


@tool("Answers an image.")
async def test_image_content(ctx, params):
    return content(image())


@tool("Answers audio.")
async def test_audio_content(ctx, params):
    return content({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


@tool("Answers an embedded resource.")
async def test_embedded_resource(ctx, params):
    return content(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool("Answers text, an image and a resource.")
async def test_multiple_content_types(ctx, params):
    data = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return content(text("Multiple content types test:"), image(), data)


@tool("Fails.")
async def test_error_handling(ctx, params):
    return content(text("This tool intentionally returns an error for testing"), isError=True)


@tool("Tool with JSON Schema 2020-12 features", {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                          "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                   "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                   "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
})
async def json_schema_2020_12_tool(ctx, params):
    return content(text(json.dumps(params.arguments)))


# Messages of the server during a call.

@tool("Sends three log messages.")
async def test_tool_with_logging(ctx, params):
    for step in ("started", "processing data", "completed"):
        await ctx.session.send_log_message("info", f"Tool {step}", related_request_id=ctx.request_id)
        await asyncio.sleep(STEP_S)
    return content(text("logged"))


@tool("Reports progress three times.")
async def test_tool_with_progress(ctx, params):
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(STEP_S)
    return content(text("progressed"))


@tool("Closes its stream in the middle of the call.")
async def test_reconnection(ctx, params):
    if ctx.close_sse_stream:
        await ctx.close_sse_stream()
        await asyncio.sleep(RECONNECT_S)
    return content(text("reconnected"))


# Requests of the server during a call, in the eras with a handshake.

@tool("Asks the client's model.", strings("prompt"))
async def test_sampling(ctx, params):
    if is_modern(ctx):
        asked = {"answer": ask_model(params.arguments["prompt"])}
        if not answered(params, asked):
            return wanted(asked)
        said = params.input_responses["answer"].content
        return content(text(f"LLM response: {said.text}"))
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=params.arguments["prompt"]))
    said = await ctx.session.create_message(messages=[asked], max_tokens=100, related_request_id=ctx.request_id)
    return content(text(f"LLM response: {said.content.text}"))


async def elicited(ctx, params, message, schema):
    if is_modern(ctx):
        asked = {"answer": {"method": "elicitation/create",
                            "params": {"mode": "form", "message": message, "requestedSchema": schema}}}
        if not answered(params, asked):
            return wanted(asked)
        said = params.input_responses["answer"]
        return content(text(f"Elicitation completed: action={said.action}, content={json.dumps(said.content)}"))
    said = await ctx.session.elicit_form(message=message, requested_schema=schema, related_request_id=ctx.request_id)
    return content(text(f"Elicitation completed: action={said.action}, content={json.dumps(said.content)}"))


@tool("Asks the client's user.", strings("message"))
async def test_elicitation(ctx, params):
    return await elicited(ctx, params, params.arguments["message"], strings("username", "email"))


@tool("Asks with a default for each primitive type.")
async def test_elicitation_sep1034_defaults(ctx, params):
    return await elicited(ctx, params, "Please check these", {"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }})


def titled(*values):
    return [{"const": value, "title": value.capitalize()} for value in values]


@tool("Asks with each kind of enumeration.")
async def test_elicitation_sep1330_enums(ctx, params):
    options, values = ["option1", "option2", "option3"], titled("value1", "value2", "value3")
    return await elicited(ctx, params, "Please choose", {"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": values},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": values}},
    }})


# 2026-07-28: a result may ask for input; the client sends the call again with it.

def ask_user(name, kind="string"):
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": f"{name}?", "requestedSchema": schema}}


def ask_model(question):
    return {"method": "sampling/createMessage",
            "params": {"messages": [{"role": "user", "content": text(question)}], "maxTokens": 100}}


ASK_ROOTS = {"method": "roots/list"}


def wanted(asked, state=None):
    more = {} if state is None else {"requestState": state}
    return {"resultType": "input_required", "inputRequests": asked, **more}


def answered(params, asked):
    return asked.keys() <= (params.input_responses or {}).keys()


def register_rounds(name, description, asked, state=None):
    """A tool that asks for all of this at once, and ends when it has it."""
    @tool(description)
    async def run(ctx, params):
        if answered(params, asked) and params.request_state == state:
            return content(text("state-ok" if state else "Thank you."))
        return wanted(asked, state)
    listed, run = TOOLS.pop("run")
    TOOLS[name] = {**listed, "name": name}, run


ALL_INPUTS = {"user_name": ask_user("name"), "greeting": ask_model("Generate a greeting"), "client_roots": ASK_ROOTS}
register_rounds("test_input_required_result_elicitation", "Wants a name.", {"user_name": ask_user("name")})
register_rounds("test_input_required_result_sampling", "Wants a completion.",
                {"capital_question": ask_model("What is the capital of France?")})
register_rounds("test_input_required_result_list_roots", "Wants the roots.", {"client_roots": ASK_ROOTS})
register_rounds("test_input_required_result_request_state", "Wants its state back.",
                {"confirm": ask_user("ok", "boolean")}, "confirming")
register_rounds("test_input_required_result_tampered_state", "Refuses a changed state.",
                {"confirm": ask_user("ok", "boolean")}, "confirming")
register_rounds("test_input_required_result_multiple_inputs", "Wants three things.", ALL_INPUTS, "three")


@tool("Wants a name, and then a colour.")
async def test_input_required_result_multi_round(ctx, params):
    first, second = {"step1": ask_user("name")}, {"step2": ask_user("color")}
    if params.request_state == "second" and answered(params, second):
        return content(text("done"))
    if params.request_state == "first" and answered(params, first):
        return wanted(second, "second")
    return wanted(first, "first")


@tool("Wants only what the client says that it can give.")
async def test_input_required_result_capabilities(ctx, params):
    can = ctx.session.client_capabilities
    able = {"user_name": can.elicitation, "greeting": can.sampling, "client_roots": can.roots}
    return wanted({name: asked for name, asked in ALL_INPUTS.items() if able[name] is not None})


@tool("Needs a client that samples.")
async def test_missing_capability(ctx, params):
    if ctx.session.client_capabilities is None or ctx.session.client_capabilities.sampling is None:
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs a client that samples",
                       {"requiredCapabilities": {"sampling": {}}})
    return content(text("sampling is there"))


@tool("Wants input, on a stream.")
async def test_streaming_elicitation(ctx, params):
    return wanted({"user_name": ask_user("name")})


@tool("Logs where the client asked for it.")
async def test_logging_tool(ctx, params):
    await ctx.session.send_log_message("info", "logged", related_request_id=ctx.request_id)
    return content(text("logged"))


def remember(ctx):
    """Sessions of the eras with a handshake are told of changes once they have listed something."""
    if not is_modern(ctx):
        SESSIONS.pop(id(ctx.session._connection), None)
        SESSIONS[id(ctx.session._connection)] = ctx.session
        if len(SESSIONS) > SESSIONS_MAX:
            del SESSIONS[next(iter(SESSIONS))]


async def tell_sessions(tell):
    """Tells a change on the event stream of each session; one that has ended hears nothing."""
    for session in list(SESSIONS.values()):
        with contextlib.suppress(Exception):
            await asyncio.wait_for(tell(session), 1)


@tool("Says that the tools changed.")
async def test_trigger_tool_change(ctx, params):
    await bus.publish(ToolsListChanged())
    await tell_sessions(lambda session: session.send_tool_list_changed())
    return content(text("told"))


@tool("Says that the prompts changed.")
async def test_trigger_prompt_change(ctx, params):
    await bus.publish(PromptsListChanged())
    await tell_sessions(lambda session: session.send_prompt_list_changed())
    return content(text("told"))


@tool("Has an argument that a header repeats.", {
    "type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}, "required": ["region"]})
async def test_custom_header(ctx, params):
    return content(text(params.arguments["region"]))


# Prompts.

def said(*blocks):
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


@prompt("A prompt without arguments.")
async def test_simple_prompt(params):
    return said(text("This is a simple prompt for testing."))


@prompt("A prompt with two arguments.", "arg1", "arg2")
async def test_prompt_with_arguments(params):
    one, two = params.arguments["arg1"], params.arguments["arg2"]
    return said(text(f"Prompt with arguments: arg1='{one}', arg2='{two}'"))


@prompt("A prompt with a resource in it.", "resourceUri")
async def test_prompt_with_embedded_resource(params):
    resource = embedded(params.arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
    return said(resource, text("Please process the embedded resource above."))


@prompt("A prompt with an image in it.")
async def test_prompt_with_image(params):
    return said(image(), text("Please analyze the image above."))


@prompt("A prompt that wants input.")
async def test_input_required_result_prompt(params):
    asked = {"user_context": ask_user("context")}
    return said(text("With context.")) if answered(params, asked) else wanted(asked)


# Resources.

RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}
TEMPLATE = "test://template/{id}/data"


def read(uri):
    before, after = TEMPLATE.split("{id}")
    if uri in RESOURCES:
        return RESOURCES[uri]
    if uri.startswith(before) and uri.endswith(after):
        id = uri.removeprefix(before).removesuffix(after)
        found = {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
        return {"mimeType": "application/json", "text": json.dumps(found)}
    raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})


# The handlers that the SDK asks for.

async def list_tools(ctx, params):
    remember(ctx)
    return {"tools": [listed for listed, _ in TOOLS.values()]}


def is_modern(ctx):
    return ctx.session.protocol_version == MODERN


async def answer_to(ctx, asked):
    """What a client of a revision with a handshake says to one question."""
    params, related = asked.get("params", {}), ctx.request_id
    if asked["method"] == "elicitation/create":
        said = await ctx.session.elicit_form(message=params["message"], requested_schema=params["requestedSchema"],
                                             related_request_id=related)
    elif asked["method"] == "sampling/createMessage":
        messages = [SamplingMessage(role="user", content=TextContent(**message["content"])) for message in params["messages"]]
        said = await ctx.session.create_message(messages=messages, max_tokens=params["maxTokens"], related_request_id=related)
    else:
        request = ServerMessageMetadata(related_request_id=related)
        said = await ctx.session.send_request(ListRootsRequest(), ListRootsResult, metadata=request)
    return said.model_dump(mode="json", by_alias=True, exclude_none=True)


async def rounds(ctx, params, handle):
    """A handler's result. What it wants to know first is asked in the middle of the call, where the revision has it so."""
    result = await handle(params)
    while result.get("resultType") == "input_required" and not is_modern(ctx):
        asked = result["inputRequests"]
        said = dict(zip(asked, await asyncio.gather(*(answer_to(ctx, one) for one in asked.values()))))
        state = result.get("requestState")
        params = params.model_copy(update={"input_responses": said, "request_state": state})
        result = await handle(params)
    return result


async def call_tool(ctx, params):
    if params.name not in TOOLS:
        raise MCPError(INVALID_PARAMS, f"No tool is called {params.name}")
    return await rounds(ctx, params, lambda params: TOOLS[params.name][1](ctx, params))


async def list_prompts(ctx, params):
    remember(ctx)
    return {"prompts": [listed for listed, _ in PROMPTS.values()]}


async def get_prompt(ctx, params):
    if params.name not in PROMPTS:
        raise MCPError(INVALID_PARAMS, f"No prompt is called {params.name}")
    return await rounds(ctx, params, PROMPTS[params.name][1])


async def list_resources(ctx, params):
    return {"resources": [{"uri": uri, "name": uri.split("/")[-1], "description": "For testing.",
                           "mimeType": found["mimeType"]} for uri, found in RESOURCES.items()]}


async def list_templates(ctx, params):
    return {"resourceTemplates": [{"uriTemplate": TEMPLATE, "name": "data", "description": "For testing."}]}


async def read_resource(ctx, params):
    return {"contents": [{"uri": params.uri, **read(params.uri)}]}


async def complete(ctx, params):
    return {"completion": {"values": [params.argument.value + "ing"], "total": 1, "hasMore": False}}


async def accept(ctx, params):
    return EmptyResult()


def whole(handle):
    """A handler's result with what 2026-07-28 asks of each; the SDK leaves it out in the revisions before."""
    async def run(ctx, params):
        return {"resultType": "complete", **await handle(ctx, params)}
    return run


def input_schema(name):
    return TOOLS[name][0]["inputSchema"] if name in TOOLS else None


def make():
    # Logging is deprecated in 2026-07-28; the revisions before it are tested too.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    hints = {method: CacheHint(ttl_ms=1000, scope="private") for method in CACHEABLE_METHODS}
    server = Server(
        NAME, version="1", get_tool_input_schema=input_schema, cache_hints=hints,
        on_list_tools=whole(list_tools), on_call_tool=whole(call_tool),
        on_list_prompts=whole(list_prompts), on_get_prompt=whole(get_prompt),
        on_list_resources=whole(list_resources), on_list_resource_templates=whole(list_templates),
        on_read_resource=whole(read_resource), on_completion=whole(complete),
        on_subscribe_resource=accept, on_unsubscribe_resource=accept,
        on_set_logging_level=accept, on_subscriptions_listen=ListenHandler(bus))
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


class Events(EventStore):
    """Remembers the last events of all streams, so that a stream can be taken up again."""

    def __init__(self):
        self.events, self.next = {}, 0

    async def store_event(self, stream_id, message):
        self.next += 1
        self.events[str(self.next)] = stream_id, message
        self.events.pop(str(self.next - EVENTS_MAX), None)
        return str(self.next)

    async def replay_events_after(self, last_event_id, send_callback):
        if last_event_id not in self.events:
            return None
        stream = self.events[last_event_id][0]
        for id, (its_stream, message) in list(self.events.items()):
            if its_stream == stream and int(id) > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, id))
        return stream


def of_one_era(app, era):
    """The server as one that knows the revisions of one era only; what it says of the others is what such servers say."""
    async def only(scope, receive, send):
        if scope["type"] != "http":
            return await app(scope, receive, send)
        is_modern = dict(scope["headers"]).get(b"mcp-protocol-version") == MODERN.encode()
        if is_modern == (era == "modern"):
            return await app(scope, receive, send)
        error = {"code": -32600, "message": f"Bad Request: Unsupported protocol version: {MODERN}"}
        if not is_modern:
            data = {"supported": [MODERN], "requested": ""}
            error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
        body = json.dumps({"jsonrpc": "2.0", "id": "server-error", "error": error}).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 400, "headers": head})
        await send({"type": "http.response.body", "body": body})
    return only


async def serve_http(port, era=None):
    listener = socket.create_server(("127.0.0.1", port))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = make().streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
    app = of_one_era(app, era) if era else app
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


async def serve_stdio():
    server = make()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def serve_forks(path):
    """A process for each connection. It ends with its standard input, and the connection with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print(path, flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                _, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
                if os.fork() == 0:
                    listener.close()
                    for number, descriptor in enumerate(descriptors):
                        os.dup2(descriptor, number)
                        os.close(descriptor)
                    asyncio.run(serve_stdio())
                    return
                for descriptor in descriptors:
                    os.close(descriptor)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--port", type=int, help="streamable HTTP on this port of the loopback interface; 0 takes any")
    how.add_argument("--stdio", action="store_true", help="standard input and output")
    how.add_argument("--forks", metavar="PATH", help="standard input and output of others, on this Unix socket")
    parser.add_argument("--era", choices=["legacy", "modern"], help="with --port: the revisions of one era only")
    asked = parser.parse_args()
    if asked.forks:
        return serve_forks(asked.forks)
    asyncio.run(serve_stdio() if asked.stdio else serve_http(asked.port, asked.era))


main()
