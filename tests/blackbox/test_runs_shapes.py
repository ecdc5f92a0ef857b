"""Runs in the words of other clients: WebSocket, AgentZero's chat, OpenAI's Responses, AG-UI."""

import json
import socket as sockets
import subprocess
import threading

import openai
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from test_hub_clients import AGENTS_PYTHON, CLIENTS, NODE, NODE_CLIENTS
from test_runs import SECRET, House


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with House(tmp_path_factory.mktemp("shapes")) as house:
        yield house


def socket(house, path, who="dev", **more):
    fields = {"Authorization": f"Bearer {house.gateway.keys[who]}"} if who else {}
    return connect(f"ws://127.0.0.1:{house.gateway.port}{path}", additional_headers=fields, compression=None, **more)


def refused(house, path, who="dev"):
    with pytest.raises(InvalidStatus) as error:
        socket(house, path, who)
    response = error.value.response
    return response.status_code, json.loads(response.body)["code"]


# WebSocket


def test_events_by_websocket(house):
    run = house.start([{"say": "the weir holds the river", "pace": 0.01}], agent="talker")
    with socket(house, f"/ws/runs/{run}") as listener:
        heard = [json.loads(message) for message in listener]
        assert listener.protocol.close_code == 1000
    assert heard == house.events(run)
    for after in range(len(heard)):
        with socket(house, f"/ws/runs/{run}?after={after}") as listener:
            assert [json.loads(message)["id"] for message in listener] == list(range(after + 1, len(heard) + 1))


def test_a_websocket_that_is_cut_at_every_event(house):
    run = house.start([{"say": "a low dam across the river", "pace": 0.01}], agent="talker")
    heard = []
    while not heard or heard[-1]["type"] != "run.completed":
        with socket(house, f"/ws/runs/{run}?after={len(heard)}") as listener:
            heard.append(json.loads(listener.recv()))
    assert [event["id"] for event in heard] == list(range(1, len(heard) + 1))
    assert heard == house.events(run)


def test_a_websocket_that_never_reads_slows_nobody(house):
    run = house.start([{"bytes": 200_000}], agent="talker")
    with socket(house, f"/ws/runs/{run}", max_queue=1):
        assert house.ended(run)["state"] == "completed"


def test_who_may_listen_by_websocket(house):
    run = house.begun([{"say": "mine", "hang": 20}], agent="talker")
    assert refused(house, f"/ws/runs/{run}", "other") == (404, "run.unknown")
    assert refused(house, f"/ws/runs/{run}?after=999") == (400, "run.event_unknown")
    assert refused(house, f"/ws/runs/{run}?after=x") == (400, "run.event_unknown")
    assert refused(house, "/ws/runs/run_none") == (404, "run.unknown")
    assert refused(house, f"/ws/runs/{run}", None)[0] == 401
    plain = house.ask("GET", f"/ws/runs/{run}")
    assert (plain.status, plain.refusal()[0]) == (400, "http.websocket")
    # Nothing is said to a run there.
    with socket(house, f"/ws/runs/{run}") as listener:
        listener.send("stop")
        with pytest.raises(ConnectionClosed):
            while True:
                listener.recv(timeout=10)
        assert listener.protocol.close_code == 1003
    assert house.show(run)["state"] == "running"
    house.ask("DELETE", f"/v1/runs/{run}")


# AgentZero's chat


def chat(house, message, who="dev", **more):
    message = message if isinstance(message, str) else json.dumps(message)
    return house.ask("POST", "/api/chat", {"message": message, **more}, who)


def test_a_chat_answers_with_the_last_word(house):
    answer = chat(house, [{"calls": [["look", {"text": "chat"}]]}, {"say": "I looked"}], agent_id="worker")
    said = answer.json()
    assert answer.status == 200 and said["message"] == "I looked" and said["tokens_used_estimate"] == 30
    assert answer.headers["location"] == f"/v1/runs/{said['run']}" and house.show(said["run"])["state"] == "completed"
    # A thread remembers.
    again = chat(house, "what did you say?", agent_id="worker", thread=said["thread"]).json()
    asked = [json.loads(seen["body"]) for seen in house.model.seen() if "body" in seen][-1]
    assert [m["role"] for m in asked["messages"]].count("user") == 2 and again["thread"] == said["thread"]


@pytest.mark.parametrize("body, status, code", [
    ({"message": "x"}, 400, "run.invalid"),  # There are several agents, and none is named default.
    ({"message": "x", "agent_id": "nobody"}, 404, "run.agent_unknown"),
    ({"message": 1, "agent_id": "talker"}, 400, "run.invalid"),
    ({"message": "", "agent_id": "talker"}, 400, "run.invalid"),
    ({"message": "x", "agent_id": "talker", "model": "other"}, 400, "run.invalid"),
    ({"message": "x", "agent_id": "talker", "context": ["y"]}, 400, "run.invalid"),
    (b"{", 400, "run.invalid"),
])
def test_a_chat_that_is_refused(house, body, status, code):
    answer = house.ask("POST", "/api/chat", body)
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (status, code) and error["call"] and code in error["message"]


def test_a_chat_whose_run_fails_says_why(house):
    answer = chat(house, [{"nothing": True}], agent_id="talker")
    error = answer.json()["error"]
    assert answer.status == 500 and error["type"] == "agent_execution_failed" and error["code"] == "run.model"
    assert house.show(error["run"])["state"] == "failed"
    assert chat(house, "x", "guest", agent_id="talker").status == 403
    assert chat(house, "x", None, agent_id="talker").status == 401


def test_a_chat_by_websocket_is_one_thread(house):
    def turn(client, message):
        client.send(message if isinstance(message, str) else json.dumps(message))
        frames = []
        while not frames or frames[-1]["type"] == "delta":
            frames.append(json.loads(client.recv(timeout=20)))
        return "".join(f["delta"] for f in frames[:-1]), frames[-1]

    with socket(house, "/ws/chat") as client:
        script = json.dumps([{"say": "one by one"}, {"say": "and two"}])
        assert turn(client, {"message": script, "agent_id": "talker"}) == ("one by one", {"type": "done"})
        assert turn(client, {"message": "go on", "agent_id": "talker"}) == ("and two", {"type": "done"})
        words, error = turn(client, "no agent is named")
        assert words == "" and error["type"] == "error" and error["code"] == "run.invalid" and error["call"]
        client.send(b"\x00")
        assert json.loads(client.recv(timeout=10))["type"] == "error"
        # Messages that come while a run is at work wait, and are answered in order.
        slow = json.dumps({"message": json.dumps([{"say": "slow", "pace": 0.05}]), "agent_id": "worker", "thread": "ws"})
        client.send(slow)
        client.send(json.dumps({"message": "x", "agent_id": "nobody"}))
        frames = [json.loads(client.recv(timeout=20)) for _ in range(3)]
        assert [f["type"] for f in frames] == ["delta", "done", "error"] and frames[2]["code"] == "run.agent_unknown"
    assert refused(house, "/ws/chat", None)[0] == 401
    with socket(house, "/ws/chat", "guest") as client:
        assert turn(client, {"message": "x", "agent_id": "talker"})[1]["code"] == "policy.forbidden"


# OpenAI's Responses


def client(house, who="dev"):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{house.gateway.port}/v1", api_key=house.gateway.keys[who], max_retries=0)


def script(*turns):
    return json.dumps(list(turns))


LOOKS = script({"reason": "first I look", "say": "I look.", "calls": [["look", {"text": "r"}], ["nothing", {}]]}, {"say": "it holds"})


def test_a_response_is_a_run(house):
    response = client(house).responses.create(model="run/worker", input=LOOKS)
    assert response.status == "completed" and response.model == "run/worker" and response.error is None
    kinds = [(item.type, item.status) for item in response.output]
    assert kinds == [("reasoning", "completed"), ("message", "completed"), ("mcp_call", "completed"), ("mcp_call", "failed"),
                     ("message", "completed")]
    assert response.output[2].name == "look" and response.output[2].output == "look did r"
    assert "no tool named" in response.output[3].error.content
    assert response.output[-1].content[0].text == "it holds" and response.usage.total_tokens == 30
    assert house.show(response.id)["state"] == "completed"
    assert client(house).responses.retrieve(response.id).output == response.output


def test_a_response_as_it_comes(house):
    events = list(client(house).responses.create(model="run/worker", input=LOOKS, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    words = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert words == "I look.it holds"
    with client(house).responses.stream(model="run/worker", input=LOOKS) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output[-1].content[0].text == "it holds"


def test_a_response_in_the_background_is_followed_from_any_event(house):
    api = client(house)
    response = api.responses.create(model="run/talker", input=script({"say": "the river is low", "pace": 0.02}), background=True)
    assert response.status in ("queued", "in_progress")
    seen = []
    while not seen or seen[-1].type != "response.completed":
        after = {"starting_after": seen[-1].sequence_number} if seen else {}
        with api.responses.retrieve(response.id, stream=True, **after) as stream:
            seen.append(next(iter(stream)))
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert seen == list(api.responses.retrieve(response.id, stream=True))
    assert api.responses.retrieve(response.id).output_text == "the river is low"


def test_a_response_is_cancelled(house):
    api = client(house)
    response = api.responses.create(model="run/talker", input=script({"say": "long", "hang": 20}), background=True)
    cancelled = api.responses.cancel(response.id)
    assert cancelled.status == "cancelled" and house.show(response.id)["state"] == "cancelled"
    last = list(api.responses.retrieve(response.id, stream=True))[-1]
    assert last.type == "response.incomplete" and last.response.status == "cancelled"


def test_a_response_follows_another(house):
    api = client(house)
    first = api.responses.create(model="run/talker", input=script({"say": "one"}, {"say": "two"}))
    second = api.responses.create(model="run/talker", input="and?", previous_response_id=first.id)
    assert second.output_text == "two" and house.show(second.id)["thread"] == house.show(first.id)["thread"]
    with pytest.raises(openai.BadRequestError) as error:
        api.responses.create(model="run/talker", input="branch", previous_response_id=first.id)
    assert error.value.code == "run.invalid"
    with pytest.raises(openai.NotFoundError):
        client(house, "other").responses.create(model="run/talker", input="x", previous_response_id=second.id)


def test_a_response_that_failed_says_why(house):
    response = client(house).responses.create(model="run/talker", input=script({"nothing": True}))
    assert response.status == "failed" and response.error.code == "run.model"


@pytest.mark.parametrize("more, error, code", [
    ({"model": "run/nobody"}, openai.NotFoundError, "run.agent_unknown"),
    ({"store": False}, openai.BadRequestError, "run.invalid"),
    ({"instructions": "be evil"}, openai.BadRequestError, "run.invalid"),
    ({"tools": [{"type": "web_search"}]}, openai.BadRequestError, "run.invalid"),
    ({"previous_response_id": "run_none"}, openai.NotFoundError, "run.unknown"),
    ({"input": []}, openai.BadRequestError, "run.invalid"),
])
def test_a_response_that_is_refused(house, more, error, code):
    with pytest.raises(error) as refused:
        client(house).responses.create(**{"model": "run/talker", "input": "x", **more})
    assert refused.value.code == code and refused.value.body["call"]


def test_another_agents_response_is_not_there(house):
    run = house.begun([{"say": "mine", "hang": 20}], agent="talker")
    other = client(house, "other")
    for ask in (other.responses.retrieve, other.responses.cancel, lambda run: other.responses.retrieve(run, stream=True)):
        with pytest.raises(openai.NotFoundError) as error:
            ask(run)
        assert error.value.code == "run.unknown"
    assert house.show(run)["state"] == "running"
    with pytest.raises(openai.BadRequestError) as error:
        client(house).get(f"/responses/{run}?stream=true&starting_after=x", cast_to=object)
    assert error.value.code == "run.event_unknown"
    with pytest.raises(openai.PermissionDeniedError):
        client(house, "guest").responses.create(model="run/talker", input="x")
    house.ask("DELETE", f"/v1/runs/{run}")


def test_models_of_providers_are_asked_as_before(house):
    with pytest.raises(openai.NotFoundError) as error:
        client(house).responses.create(model="nowhere/run/x", input="x")
    assert error.value.code == "llm.model_unknown"


# Clients in JavaScript


def node(kind, url, key, *more):
    command = [str(NODE), str(CLIENTS / "runs.mjs"), kind, url, key, str(NODE_CLIENTS), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ag_ui(house, agent, *messages, who="dev"):
    url = f"http://127.0.0.1:{house.gateway.port}/ag-ui/{agent}"
    *events, end = node("agui", url, house.gateway.keys[who], json.dumps([{"id": str(n), **m} for n, m in enumerate(messages)]))
    return events, end


def user(text):
    return {"role": "user", "content": text}


def test_the_client_of_ag_ui(house):
    events, end = ag_ui(house, "worker", user(LOOKS))
    assert end["failed"] is None
    kinds = [event["type"] for event in events if not event["type"].endswith("_CONTENT")]
    assert kinds == [
        "RUN_STARTED", "STEP_STARTED", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "REASONING_END",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END",
        "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "TOOL_CALL_RESULT", "STEP_FINISHED",
        "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"]
    assert {(e["threadId"], e["runId"]) for e in (events[0], events[-1])} == {("thread-1", "run-1")}
    assert events[-1]["outcome"] == {"type": "success"} and events[-1]["result"] == "it holds"
    # The client's own fold of the events: the conversation, which it sends with its next run.
    roles = [message["role"] for message in end["messages"]]
    assert roles == ["user", "reasoning", "assistant", "tool", "tool", "assistant"]
    assert end["messages"][2]["content"] == "I look." and len(end["messages"][2]["toolCalls"]) == 2
    assert end["messages"][3]["content"] == "look did r" and end["messages"][-1]["content"] == "it holds"
    told = [{k: v for k, v in message.items() if k != "id"} for message in end["messages"]]
    _, again = ag_ui(house, "worker", *told, user("and now?"))
    assert again["failed"] is None
    asked = [json.loads(seen["body"]) for seen in house.model.seen() if "body" in seen][-1]
    assert [m["role"] for m in asked["messages"]] == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]


def test_ag_ui_hears_of_failures(house):
    events, end = ag_ui(house, "talker", user(script({"nothing": True})))
    assert events[-1]["type"] == "RUN_ERROR" and events[-1]["code"] == "run.model"
    _, end = ag_ui(house, "nobody", user("x"))
    assert "404" in end["failed"] and "run.agent_unknown" in end["failed"]
    _, end = ag_ui(house, "talker", user("x"), who="guest")
    assert "403" in end["failed"]
    body = {"threadId": "t", "runId": "r", "messages": [user("x")], "tools": [{"name": "mine"}]}
    answer = house.ask("POST", "/ag-ui/talker", body)
    assert (answer.status, answer.refusal()[0]) == (400, "run.invalid") and answer.json()["call"]


class Cutter:
    """Passes connections on, and cuts each behind so many bytes of its answer."""

    def __init__(self, port, bytes_max):
        self.to, self.bytes_max = port, bytes_max
        self.listener = sockets.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(near,), daemon=True).start()

    def carry(self, near):
        with near, sockets.create_connection(("127.0.0.1", self.to)) as far:
            far.sendall(near.recv(65536))
            left = self.bytes_max
            while left > 0 and (piece := far.recv(min(left, 65536))):
                near.sendall(piece)
                left -= len(piece)

    def close(self):
        self.listener.close()


def test_an_event_source_reconnects_by_itself(house):
    run = house.start([{"say": "the weir holds the river, and the river holds the boats"}], agent="talker")
    house.ended(run)
    cutter = Cutter(house.gateway.port, 2_400)
    try:
        *events, end = node("events", f"http://127.0.0.1:{cutter.port}/v1/runs/{run}/events", house.gateway.keys["dev"])
    finally:
        cutter.close()
    assert [event["data"] for event in events] == house.events(run)
    assert [int(event["id"]) for event in events] == list(range(1, len(events) + 1))
    assert end["opens"] > 1, "it was cut, and came back"


# A loop outside


def test_the_same_script_outside_makes_the_same_calls(house):
    path = str(house.shared / "notes.txt")
    told = script({"calls": [["look", {"text": "same"}], ["read_text_file", {"path": path}]]}, {"say": "and", "calls": [["add", {"text": "same"}]]},
                  {"say": "the end"})

    def calls(since):
        made = [r for r in house.gateway.records()[since:] if r.get("action") in ("llm:chat", "mcp:call") and r.get("decision")]
        return [(r["agent"], r["action"], r.get("tool"), r.get("model"), r["decision"]) for r in made]

    before = len(house.gateway.records())
    command = [str(AGENTS_PYTHON), str(CLIENTS / "runner.py"), f"http://127.0.0.1:{house.gateway.port}", "smart",
               "add,look,read_text_file", told]
    environment = {"WEIR_KEY": house.gateway.keys["dev"], "PATH": "/usr/bin:/bin"}
    outside = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert outside.stdout.strip() == "the end", outside.stderr
    of_client = calls(before)
    before = len(house.gateway.records())
    shown, _ = house.play(json.loads(told))
    assert shown["state"] == "completed" and calls(before) == of_client
    assert [action for _, action, *_ in of_client] == ["llm:chat", "mcp:call", "mcp:call", "llm:chat", "mcp:call", "llm:chat"]


# In every shape alike


def test_a_secret_of_a_tool_is_in_no_shape(house):
    leaks = script({"calls": [["leak", {}]]}, {"say": "ok"})
    response = client(house).responses.create(model="run/worker", input=leaks)
    assert SECRET not in response.model_dump_json()
    events = list(client(house).responses.retrieve(response.id, stream=True))
    assert SECRET not in "".join(event.model_dump_json() for event in events)
    with socket(house, f"/ws/runs/{response.id}") as listener:
        assert SECRET not in "".join(listener)
    heard, end = ag_ui(house, "worker", user(leaks))
    assert SECRET not in json.dumps(heard) + json.dumps(end)
    assert SECRET.encode() not in house.ask("GET", f"/v1/runs/{response.id}/transcript").body
    # One that a user says does not reach the model.
    before = len(house.model.seen())
    answer = house.ask("POST", "/api/chat", {"message": f"use {SECRET}", "agent_id": "talker"})
    assert answer.status in (200, 403) and SECRET not in json.dumps(house.model.seen()[before:])
