"""Responses over a WebSocket: the official client and a plain one, what is judged on the way, and how a connection ends."""

import asyncio
import contextlib
import json
import threading

import pytest

from gateway import until
from test_llm import ASK, KEY, ORDER, SECRET, House
from test_stops import change, set_state

openai = pytest.importorskip("openai")
websockets = pytest.importorskip("websockets.sync.client")
closed = pytest.importorskip("websockets.exceptions")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with House(tmp_path_factory.mktemp("llm-socket")) as house:
        yield house


@contextlib.contextmanager
def changed(folder, scan=None, **llm):
    """A gateway with settings of a test's own."""
    house = House(folder)
    path = folder / "weir" / "weir.yaml"
    settings = json.loads(path.read_text())
    settings["llm"].update(llm)
    settings.update({"scan": scan} if scan else {})
    path.write_text(json.dumps(settings))
    with house:
        yield house


class Talk:
    """A connection of a client that knows the protocol and nothing else."""

    def __init__(self, house, agent="dev", **more):
        fields = {"Authorization": f"Bearer {house.key(agent)}", **more}
        address = house.base.replace("http", "ws") + "/v1/responses"
        self.socket = websockets.connect(address, additional_headers=fields, ping_interval=None, max_size=None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, model="main/say", text="the river is low today", **more):
        self.socket.send(json.dumps({"type": "response.create", "model": model, "input": text, **more}))

    def read(self):
        return json.loads(self.socket.recv(timeout=20))

    def events(self):
        """The events of one response, to its end."""
        events = []
        while not events or events[-1]["type"] not in ("response.completed", "response.incomplete", "response.failed", "error"):
            events.append(self.read())
        return events

    def ask(self, *given, **more):
        self.send(*given, **more)
        return self.events()

    def code(self, *given, **more):
        error = self.ask(*given, **more)[-1]
        assert error["type"] == "error", error
        return error["status"], error["error"]["code"]

    def closing(self):
        with pytest.raises(closed.ConnectionClosed) as end:
            while True:
                self.read()
        return end.value.rcvd.code


@pytest.fixture
def talk(house):
    with Talk(house) as talk:
        yield talk


def said(events):
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def items(seen):
    """The texts of a request, one for each item."""
    asked = json.loads(seen["body"])["input"]
    contents = [asked] if isinstance(asked, str) else [item["content"] for item in asked]
    return [content if isinstance(content, str) else content[0]["text"] for content in contents]


# The official client


def test_the_client_of_openai_goes_on_with_its_last_response(house):
    before = len(house.seen())
    with house.openai().responses.connect() as connection:
        connection.response.create(model="main/say", input="mild and dry", store=False)
        for event in connection:
            if event.type == "response.completed":
                break
        assert event.response.output_text == "mild and dry"
        connection.response.create(model="main/say", input="and windy", store=False, previous_response_id=event.response.id)
        for event in connection:
            if event.type == "response.completed":
                break
        assert event.response.output_text == "and windy"
    first, second = house.seen()[before:]
    assert json.loads(first["body"]) == {"model": "say", "input": "mild and dry", "store": False, "stream": True}
    assert items(second) == ["mild and dry", "mild and dry", "and windy"] and "previous_response_id" not in second["body"]
    assert second["fields"]["authorization"] == f"Bearer {KEY}" and house.key() not in json.dumps(house.seen())


def test_the_client_of_openai_reads_tools_and_errors(house):
    async def talk():
        client = openai.AsyncOpenAI(base_url=f"{house.base}/v1", api_key=house.key(), max_retries=0)
        async with client.responses.connect() as connection:
            await connection.response.create(model="main/call", input="date")
            async for event in connection:
                if event.type == "response.completed":
                    break
            await connection.response.create(model="second/other", input="date")
            error = await connection.recv()
            await connection.response.create(model="main/say", input="still here")
            async for last in connection:
                if last.type == "response.completed":
                    return event.response.output[0], error, last.response.output_text

    call, error, last = asyncio.run(talk())
    assert call.name == "run" and json.loads(call.arguments) == {"command": "date"} and last == "still here"
    assert error.type == "error" and error.error.code == "llm.model_unknown" and error.status == 404


def test_a_client_without_the_right_to_connect_or_without_a_key_is_told(house):
    with pytest.raises(closed.InvalidStatus) as refused:
        Talk(house, "guest")
    answer = refused.value.response
    assert answer.status_code == 403 and json.loads(answer.body)["error"]["code"] == "policy.forbidden"
    assert "llm:connect" in answer.body.decode()
    with pytest.raises(closed.InvalidStatus) as refused:
        Talk(house, Authorization="Bearer weir_nobody")
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize("change", [{"upgrade": None}, {"sec-websocket-version": "8"}, {"sec-websocket-key": "short"}, {"connection": "close"}])
def test_an_upgrade_that_is_none_is_refused_in_the_dialect(house, change):
    fields = {"authorization": f"Bearer {house.key()}", "connection": "Upgrade", "upgrade": "websocket",
              "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", **change}
    answer = house.gateway.request("GET", "/v1/responses", None, {name: value for name, value in fields.items() if value})
    assert answer.status == 400 and answer.json()["error"]["code"] == "http.websocket", answer.body
    assert answer.headers["sec-websocket-version"] == "13"


# What goes on


def test_each_message_is_a_call_of_its_own(house):
    with Talk(house) as talk:
        assert said(talk.ask(text="one")) == "one" and said(talk.ask(text="two")) == "two"

    def recorded():
        calls = [r for r in house.judged(method="responses") if r.get("decision") == "pass"]
        sockets = [r for r in house.gateway.records() if r.get("method") == "websocket"]
        ends = {r["call"]: r for r in house.gateway.records() if r["kind"] == "outcome"}
        return len(calls) >= 2 and sockets and sockets[-1]["call"] in ends and (calls, sockets, ends)

    calls, sockets, ends = until(recorded, "the records")
    assert len({r["call"] for r in calls}) == len(calls) and sockets[-1]["action"] == "llm:connect"
    assert ends[calls[-1]["call"]]["usage"]["output"] == 7 and ends[sockets[-1]["call"]]["end"] == "complete"


def test_the_bytes_of_members_go_on_and_the_words_of_the_transport_do_not(house):
    with Talk(house, **{"OpenAI-Beta": "responses_websockets=2026-02-06, other=1", "session_id": "s1"}) as talk:
        talk.socket.send('{ "type":"response.create", "unheard_of":{"z" :[1.50, true]}, "model":"main/say", "input":"d\\u00e9j\\u00e0", "stream":false, "stream_id":"a" }')
        assert {event["stream_id"] for event in talk.events()} == {"a"}
    seen = house.seen()[-1]
    assert seen["body"] == '{"unheard_of":{"z" :[1.50, true]},"model":"say","input":"d\\u00e9j\\u00e0","stream":true}'
    assert seen["fields"]["openai-beta"] == "other=1" and seen["fields"]["session_id"] == "s1"


def test_what_the_provider_keeps_it_is_asked_to_go_on_with(house, talk):
    response = talk.ask("main/stored")[-1]["response"]
    talk.ask("main/stored", "more", previous_response_id=response["id"])
    assert json.loads(house.seen()[-1]["body"])["previous_response_id"] == response["id"]


def test_a_request_is_made_ready_without_asking_anybody(house, talk):
    before = len(house.seen())
    ready = talk.ask(text="the rules of the house", generate=False)
    assert [event["type"] for event in ready] == ["response.created", "response.completed"] and ready[-1]["response"]["output"] == []
    assert len(house.seen()) == before
    talk.ask(text="who makes tea?", previous_response_id=ready[-1]["response"]["id"])
    assert items(house.seen()[-1]) == ["the rules of the house", "who makes tea?"]
    assert talk.code("other/call", "hello", generate=False) == (403, "policy.forbidden")


def test_a_stream_forks_and_a_response_that_failed_is_not_gone_on_with(house, talk):
    first = talk.ask(text="one", stream_id="a")[-1]["response"]["id"]
    talk.ask(text="two", stream_id="b", previous_response_id=first)
    assert items(house.seen()[-1]) == ["one", "one", "two"]
    assert talk.code("main/status-500", "three", stream_id="c", previous_response_id=first)[0] == 500
    # Nobody has it any more: the connection forgot it, and its provider never kept it.
    assert talk.code(text="four", stream_id="a", previous_response_id=first) == (404, "llm.response_unknown")


def test_one_stream_comes_in_order_and_others_beside_it(house, talk):
    talk.send("main/drip", "slow", stream_id="slow")
    assert talk.read()["stream_id"] == "slow"
    for number in range(8):
        talk.send(text=f"number {number}", stream_id="quick")
    texts, text = [], ""
    while len(texts) < 8:
        event = talk.read()
        if event["stream_id"] == "quick":
            text += event.get("delta", "")
            if event["type"] == "response.completed":
                texts, text = [*texts, text], ""
    assert texts == [f"number {number}" for number in range(8)]


# Safe


def test_secrets_and_orders_and_calls_are_judged(house, talk):
    before = len(house.seen())
    end = talk.ask(text=f"my key is {SECRET}")[-1]
    assert SECRET not in json.dumps(house.seen()[before:])
    assert end["type"] == "error" or "[redacted:" in house.seen()[-1]["body"]
    result = [{"role": "user", "content": "go on"}, {"type": "function_call_output", "call_id": "c1", "output": ORDER}]
    assert talk.code(text=result) == (403, "scan.injection")
    events = talk.ask("main/leak", "3")
    assert SECRET not in json.dumps(events) and SECRET[:8] not in said(events)
    events = talk.ask("main/evil", "date")
    assert events[-1]["type"] == "error" and events[-1]["error"]["code"].startswith("scan.")
    assert "169.254.169.254" not in json.dumps(events)
    assert said(talk.ask(text="still here")) == "still here"


def test_a_secret_of_an_early_turn_stays_out_of_every_later_one(tmp_path):
    with changed(tmp_path, scan={"secrets": "redact"}) as house, Talk(house) as talk:
        response = talk.ask(text=f"my key is {SECRET}")[-1]["response"]
        for number in range(5):
            assert SECRET not in house.seen()[-1]["body"] and items(house.seen()[-1])[0].startswith("my key is [redacted:")
            response = talk.ask(text=f"turn {number}", previous_response_id=response["id"])[-1]["response"]
        assert len(items(house.seen()[-1])) == 11


# Bad input and failures


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"type":"response.steer"}', '{"type":"response.create","background":true}',
                                  '{"type":"response.create","model":"a","model":"b"}', '{"type":"response.create","input":"x"}',
                                  '{"type":"response.create","stream_id":7}', '{"type":"response.create","input":' + "[" * 100 + "]" * 100 + "}"])
def test_messages_that_are_none_are_refused_and_the_connection_goes_on(house, talk, text):
    before = len(house.seen())
    talk.socket.send(text)
    error = talk.read()
    assert (error["status"], error["error"]["code"]) == (400, "llm.body_invalid") and error["error"]["call"]
    assert len(house.seen()) == before and said(talk.ask(text="still here")) == "still here"


@pytest.mark.parametrize(("model", "status", "code"), [
    ("dead/say", 503, "llm.none_left"), ("main/garbage", 502, "llm.answer_invalid"), ("second/other", 404, "llm.model_unknown"),
    ("other/call", 403, "policy.forbidden"), ("main/status-400", 400, "asked"),
])
def test_what_cannot_be_is_an_error_event(talk, model, status, code):
    assert talk.code(model) == (status, code)


def test_a_limit_of_a_provider_comes_with_its_time(talk):
    error = talk.ask("weak/status-429")[-1]
    assert error["status"] == 429 and error["error"]["headers"]["retry-after"] == "7"


def test_an_answer_that_breaks_off_is_told(house, talk):
    error = talk.ask("main/cut")[-1]
    assert error["type"] == "error" and error["error"]["code"] == "llm.provider_failed"
    assert said(talk.ask(text="still here")) == "still here"


def test_bytes_close_with_their_code(talk):
    talk.socket.send(b"\x00")
    assert talk.closing() == 1003


def test_bounds_of_messages_turns_and_idleness(tmp_path):
    with changed(tmp_path, body_bytes_max=4096, answer_bytes_max=65536, socket_idle_ms=700) as house:
        with Talk(house) as talk:
            assert talk.code(text="x" * 5000) == (413, "http.body_too_large")
            first = talk.ask(text="x" * 1500)[-1]["response"]["id"]
            # Together with what was said before it is too much.
            assert talk.code(text="y" * 1500, previous_response_id=first) == (413, "http.body_too_large")
            assert talk.closing() == 1000
        with Talk(house) as talk:
            # The provider is asked before the others come: what was never sent cannot be given up.
            talk.send("main/drip")
            assert talk.read()["type"] == "response.created"
            for number in range(20):
                talk.send(text=f"number {number}")
            refused = []
            while len(refused) < 3:
                event = talk.read()
                refused += [event["error"]["code"]] if event["type"] == "error" else []
            assert set(refused) == {"llm.turns"}
        with Talk(house) as talk, pytest.raises(closed.ConnectionClosed):
            talk.socket.send("x" * 500_000)
            talk.read()
        assert talk.socket.close_code == 1009
        until(lambda: {"gone": "drip"} in house.upstream.seen(), "what was on its way is given up")


def test_a_key_that_is_revoked_ends_the_connection_and_what_is_on_its_way(tmp_path):
    with changed(tmp_path) as house, Talk(house) as talk:
        talk.send("main/drip", "one two three four five six")
        assert talk.read()["type"] == "response.created"
        waits = threading.Thread(target=change, args=(house.gateway, set_state("dev", "revoked")))
        waits.start()
        assert talk.closing() == 1008
        waits.join()
        until(lambda: {"gone": "drip"} in house.upstream.seen(), "the provider sees it")
        ends = until(lambda: [r for r in house.gateway.records() if r.get("end") == "cut"], "it is recorded")
        assert "agent.revoked" in json.dumps(ends)


def test_a_client_that_goes_takes_what_is_on_its_way_along(house):
    before = house.upstream.seen().count({"gone": "drip"})
    talk = Talk(house)
    talk.send("main/drip", "one two three four five six")
    talk.read()
    talk.socket.socket.close()
    until(lambda: house.upstream.seen().count({"gone": "drip"}) > before, "the provider sees it")


def test_a_drain_tells_the_client_to_connect_anew(tmp_path):
    with changed(tmp_path) as house, Talk(house) as talk:
        assert said(talk.ask(text=ASK[0]["content"])) == ASK[0]["content"]
        house.gateway.process.terminate()
        assert talk.closing() == 1001


# A change of providers


def test_a_change_of_providers_holds_for_what_is_asked_from_then_on(tmp_path):
    with changed(tmp_path) as house, Talk(house) as talk:
        talk.send("main/drip", "one two three four five six", stream_id="before")
        assert talk.read()["stream_id"] == "before"

        def edit(config):
            config["llm"]["providers"]["main"]["models"] = ["call", "status-400"]
            config["llm"]["providers"]["fresh"] = {"kind": "vllm", "url": f"http://127.0.0.1:{house.upstream.port}/v1", "models": ["say"]}
            config["llm"]["routes"]["smart"] = ["second/say"]
            del config["llm"]["providers"]["weak"], config["llm"]["routes"]["tired"], config["llm"]["routes"]["none"]

        policy = house.gateway.folder / "policy.cedar"
        policy.write_text(policy.read_text() + '@id("fresh") permit (principal, action, resource in Provider::"fresh");\n')
        change(house.gateway, edit)
        asked = house.openai().chat.completions
        assert asked.create(model="fresh/say", messages=ASK).choices and asked.create(model="smart", messages=ASK).choices
        for gone in ("main/say", "weak/status-429"):
            with pytest.raises(openai.NotFoundError):
                asked.create(model=gone, messages=ASK)
        assert set(house.gateway.operator("/health").json()["providers"]) == {"main", "google", "other", "second", "dead", "fresh"}
        # What began before goes on, and the connection asks by what holds now.
        talk.send("fresh/say", "after", stream_id="after")
        events = []
        while not events or events[-1].get("stream_id") != "after" or events[-1]["type"] != "response.completed":
            events.append(talk.read())
        assert any(event["stream_id"] == "before" for event in events[-40:])
        reloads = [r for r in house.gateway.records() if r.get("what") == "reload" and r.get("changed")]
        changed_keys = {key for record in reloads for key in record["changed"]}
        assert {"llm.providers.main", "llm.providers.fresh", "llm.providers.weak", "llm.routes"} <= changed_keys
        assert not any(record.get("waiting") for record in reloads)
        assert KEY not in json.dumps(reloads) + house.gateway.logs.text()


def test_a_change_that_cannot_be_leaves_the_providers_as_they_are(tmp_path):
    with changed(tmp_path) as house:
        path = house.gateway.folder / "weir.yaml"
        config = json.loads(path.read_text())
        config["llm"]["routes"]["smart"] = ["nobody/x"]
        path.write_text(json.dumps(config))
        until(lambda: "not reloaded" in house.gateway.logs.text(), "it is refused")
        assert house.openai().chat.completions.create(model="smart", messages=ASK).choices
