"""Responses that a provider keeps: whose they are, where they are asked for, and what of them is judged."""

import json

import openai
import pytest

from gateway import Gateway, Origin, until

SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"
WORDS = "the river is low today"


class Keeping:
    """A gateway before two providers that keep responses; the first is asked with two keys."""

    def __init__(self, folder):
        self.origins = {name: Origin(program="provider.py") for name in ("first", "second")}
        place = folder / "weir"
        place.mkdir()
        for name in ("one", "two"):
            (place / name).write_text(f"sk-provider-{name}" * 3)
            (place / name).chmod(0o600)
        providers = {name: {"kind": "vllm", "url": f"http://127.0.0.1:{origin.port}/v1"} for name, origin in self.origins.items()}
        providers["first"]["keys"] = ["file:one", "file:two"]
        providers["claude"] = {"kind": "anthropic", "url": providers["second"]["url"]}
        routes = {"any": ["second/stored", "first/stored"]}
        self.gateway = Gateway(place, {}, {"dev": {}, "other": {}}, None, llm={"providers": providers, "routes": routes})

    def __enter__(self):
        self.gateway.start()
        self.base = f"http://127.0.0.1:{self.gateway.port}"
        return self

    def __exit__(self, *_):
        try:
            self.gateway.verify()
            self.gateway.stop()
        finally:
            for origin in self.origins.values():
                origin.stop()

    def client(self, agent="dev"):
        return openai.OpenAI(base_url=f"{self.base}/v1", api_key=self.gateway.keys[agent], max_retries=0)

    def seen(self, name="first"):
        return [seen for seen in self.origins[name].seen() if "path" in seen]

    def ask(self, method, path, agent="dev"):
        return self.gateway.request(method, path, headers=self.gateway.headers(agent))


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    with Keeping(tmp_path_factory.mktemp("stored")) as keeping:
        yield keeping


@pytest.mark.parametrize("stream", [False, True])
def test_the_client_of_openai_reads_cancels_and_deletes(keeping, stream):
    responses = keeping.client().responses
    if stream:
        with responses.stream(model="first/stored", input=WORDS) as events:
            made = events.get_final_response()
    else:
        made = responses.create(model="first/stored", input=WORDS)
    key = keeping.seen()[-1]["fields"]["authorization"]
    assert responses.retrieve(made.id).output_text == WORDS
    # With the key that it was made with, whichever that is.
    asked = keeping.seen()[-1]
    assert asked["path"] == f"/v1/responses/{made.id}" and asked["fields"]["authorization"] == key
    events = list(responses.retrieve(made.id, stream=True, starting_after=3))
    assert events[-1].type == "response.completed" and set(keeping.seen()[-1]["path"].split("?")[1].split("&")) == {"stream=true", "starting_after=3"}
    assert responses.cancel(made.id).status == "cancelled"
    items = responses.input_items.list(made.id, limit=5, order="asc")
    # What comes back is judged as any answer is.
    assert items.data[0].id == "msg_0" and SECRET not in items.data[0].content[0].text
    responses.delete(made.id)
    assert keeping.seen()[-1]["method"] == "DELETE"
    with pytest.raises(openai.NotFoundError) as gone:
        responses.retrieve(made.id)
    assert gone.value.code == "llm.response_unknown"


def test_another_agent_finds_nothing(keeping):
    made = keeping.client().responses.create(model="first/stored", input=WORDS)
    before = len(keeping.seen())
    other = keeping.client("other").responses
    for ask in (lambda: other.retrieve(made.id), lambda: other.delete(made.id), lambda: other.cancel(made.id),
                lambda: other.input_items.list(made.id), lambda: other.create(model="first/stored", input="more", previous_response_id=made.id)):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        assert refused.value.code == "llm.response_unknown"
    unknown = keeping.client()
    with pytest.raises(openai.NotFoundError) as never:
        unknown.responses.retrieve("resp_987654")
    with pytest.raises(openai.NotFoundError) as theirs:
        other.retrieve(made.id)
    # It says the same of what was never there.
    assert never.value.body["message"].split("(call")[0] == theirs.value.body["message"].split("(call")[0]
    assert len(keeping.seen()) == before


def test_a_conversation_stays_with_the_provider_that_has_it(keeping):
    responses = keeping.client().responses
    for name in ("first", "second"):
        made = responses.create(model=f"{name}/stored", input=WORDS)
        key = keeping.seen(name)[-1]["fields"].get("authorization")
        for _ in range(3):
            before = {of: len(keeping.seen(of)) for of in keeping.origins}
            made = responses.create(model="any", input="and then?", previous_response_id=made.id)
            last = keeping.seen(name)[-1]
            assert len(keeping.seen(name)) == before[name] + 1 and last["fields"].get("authorization") == key
            assert json.loads(last["body"])["previous_response_id"]
            assert all(len(keeping.seen(of)) == before[of] for of in keeping.origins if of != name)
    with pytest.raises(openai.NotFoundError) as elsewhere:
        responses.create(model="first/stored", input="and then?", previous_response_id=made.id)
    assert "second" in elsewhere.value.body["message"]
    # Where nothing is kept the reason is that of the conversion.
    with pytest.raises(openai.BadRequestError) as converted:
        responses.create(model="claude/say", input="and then?", previous_response_id=made.id)
    assert converted.value.code == "llm.unconvertible"


def test_what_is_not_kept_is_not_found(keeping):
    made = keeping.client().responses.create(model="first/say", input=WORDS)
    assert keeping.ask("GET", f"/v1/responses/{made.id}").status == 404


@pytest.mark.parametrize("method, path, status, code", [
    ("GET", "/v1/responses/resp_none/other", 404, "llm.response_unknown"),
    ("PUT", "/v1/responses/resp_none", 404, "llm.response_unknown"),
    ("GET", "/v1/responses/resp_..%2Fx", 404, "llm.response_unknown"),
    ("GET", "/v1/responses/", 404, None),
])
def test_paths_that_are_none(keeping, method, path, status, code):
    answer = keeping.ask(method, path)
    assert answer.status == status, answer.body
    assert code is None or answer.json()["error"]["code"] == code


def test_a_query_that_says_more_than_it_may_goes_nowhere(keeping):
    made = keeping.client().responses.create(model="first/stored", input=WORDS)
    assert keeping.ask("GET", f"/v1/responses/{made.id}?after=../../files").status == 400
    assert keeping.ask("GET", f"/v1/responses/{made.id}?after={SECRET}").status in (400, 403)
    assert keeping.ask("GET", f"/v1/responses/{made.id}?other=x&limit=3").status == 200
    assert keeping.seen()[-1]["path"].endswith("?limit=3")
    assert all(SECRET not in seen["path"] for seen in keeping.seen())
    assert keeping.ask("PATCH", f"/v1/responses/{made.id}").status == 405
    assert keeping.ask("POST", f"/v1/responses/{made.id}/compact").status == 405


def test_reading_costs_nothing_and_is_recorded(keeping):
    made = keeping.client().responses.create(model="first/stored", input=WORDS)
    keeping.client().responses.retrieve(made.id)
    list(keeping.client().responses.retrieve(made.id, stream=True))

    def recorded():
        calls = [r for r in keeping.gateway.records() if r.get("method") == "responses.get" and r["kind"] != "outcome"][-2:]
        ends = {r["call"]: r for r in keeping.gateway.records() if r["kind"] == "outcome"}
        return len(calls) == 2 and all(call["call"] in ends for call in calls) and [ends[call["call"]] for call in calls]

    for end in until(recorded, "both are recorded"):
        assert end["end"] == "complete" and not end.get("usage"), end


# What is kept of answers, and routes beside these


class Caching(Keeping):
    def __init__(self, folder):
        super().__init__(folder)
        config = json.loads((self.gateway.folder / "weir.yaml").read_text())
        config["llm"]["cache"] = {"agents": ["dev", "other"], "keep_ms": 600_000}
        config["llm"]["routes"] = {"long": ["first/too-long", "second/say"], "short": ["first/too-long"]}
        (self.gateway.folder / "weir.yaml").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def caching(tmp_path_factory):
    with Caching(tmp_path_factory.mktemp("cached")) as caching:
        yield caching


def chat(house, words, agent="dev", model="first/say", **more):
    body = {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": words}], **more}
    return house.gateway.request("POST", "/v1/chat/completions", json.dumps(body), house.gateway.headers(agent))


def test_the_same_request_of_the_same_agent_is_answered_by_what_was_kept(caching):
    before = len(caching.seen())
    first, second = chat(caching, "cached?"), chat(caching, "cached?")
    assert first.status == second.status == 200 and first.body == second.body
    assert "weir-cache" not in first.headers and second.headers["weir-cache"] == "hit"
    assert len(caching.seen()) == before + 1
    # One byte more, another model, another agent: each is asked anew.
    for again in (chat(caching, "cached? "), chat(caching, "cached?", top_p=1), chat(caching, "cached?", model="second/say"),
                  chat(caching, "cached?", agent="other")):
        assert again.status == 200 and "weir-cache" not in again.headers
    assert chat(caching, "cached?", agent="other").headers["weir-cache"] == "hit"
    for _ in range(2):
        assert "weir-cache" not in chat(caching, "cached?", stream=True).headers

    def recorded():
        ends = [r for r in caching.gateway.records() if r["kind"] == "outcome"]
        return len(ends) >= 9 and ends

    ends = until(recorded, "all are recorded")
    # What was kept is not counted a second time.
    assert sum(1 for end in ends if (end.get("usage") or {}).get("output") == 7) == 7, ends


def test_what_was_kept_is_judged_anew(caching):
    leak = [chat(caching, "3", model="first/leak") for _ in range(2)]
    assert leak[1].headers.get("weir-cache") == "hit" and all(SECRET not in answer.body.decode() for answer in leak)
    # What no agent may see is not kept as something that one may.
    for _ in range(2):
        assert chat(caching, "x", model="first/evil").json()["error"]["code"].startswith("scan.")


def test_a_route_goes_on_where_the_request_is_too_long(caching):
    assert chat(caching, WORDS, model="long").json()["choices"][0]["message"]["content"] == WORDS
    assert caching.seen()[-1]["path"] == "/v1/chat/completions"
    # Where nothing else is left the provider's own words go back.
    alone = chat(caching, WORDS, model="short")
    assert alone.status == 400 and alone.json()["error"]["code"] == "context_length_exceeded"


def test_no_cache_where_no_agent_is_named(keeping):
    for _ in range(2):
        assert "weir-cache" not in chat(keeping, "cached?").headers


def test_older_and_smaller_paths(keeping):
    client = keeping.client()
    assert client.completions.create(model="first/say", prompt=WORDS, max_tokens=20).choices[0].text == WORDS
    pieces = client.completions.create(model="first/say", prompt=WORDS, max_tokens=20, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == WORDS
    assert SECRET not in "".join(p.choices[0].text for p in client.completions.create(model="first/leak", prompt="3", stream=True) if p.choices)
    assert client.moderations.create(model="first/say", input=WORDS).results[0].flagged is False
    assert client.images.generate(model="first/say", prompt=WORDS).data[0].b64_json == "aGk="
    ask = {"model": "first/say", "query": WORDS, "documents": ["a", "b"]}
    said = keeping.gateway.request("POST", "/v1/rerank", json.dumps(ask), keeping.gateway.headers())
    assert said.json()["results"][0]["index"] == 1
    for path, member in [("completions", "prompt"), ("moderations", "input"), ("images/generations", "prompt"), ("rerank", "query")]:
        body = json.dumps({"model": "first/say", member: f"the key is {SECRET}"})
        answer = keeping.gateway.request("POST", f"/v1/{path}", body, keeping.gateway.headers())
        assert SECRET not in keeping.seen()[-1]["body"], answer.body


def test_a_conversation_is_made_short(keeping):
    made = keeping.client().responses.create(model="first/stored", input=WORDS)
    ask = {"model": "any", "input": [{"role": "user", "content": WORDS}], "previous_response_id": made.id}

    def compact(agent="dev", **more):
        body = json.dumps({**ask, **more})
        return keeping.gateway.request("POST", "/v1/responses/compact", body, keeping.gateway.headers(agent))

    answer = compact()
    assert answer.status == 200 and answer.json()["object"] == "response.compaction", answer.body
    asked = keeping.seen()[-1]
    # It goes where the response is, and is judged on its way.
    assert asked["path"] == "/v1/responses/compact" and json.loads(asked["body"])["previous_response_id"] == made.id
    before = len(keeping.seen())
    assert compact(input=[{"role": "user", "content": f"the key is {SECRET}"}]).json()["error"]["code"] == "scan.secret"
    assert compact("other").json()["error"]["code"] == "llm.response_unknown" and len(keeping.seen()) == before
    said = compact(model="first/leak", previous_response_id=None)
    assert said.status != 200 or SECRET not in said.body.decode()
    assert keeping.ask("GET", "/v1/responses/compact").status == 405

    def counted():
        calls = {r["call"] for r in keeping.gateway.records() if r.get("method") == "compact" and r["kind"] == "judgement"}
        ends = [r for r in keeping.gateway.records() if r["kind"] == "outcome" and r["call"] in calls]
        return any((end.get("usage") or {}).get("output") == 7 for end in ends)

    until(counted, "what it took is recorded")


def test_the_paths_of_cullis(keeping):
    body = json.dumps({"model": "first/say", "messages": [{"role": "user", "content": WORDS}]})
    assert keeping.gateway.request("POST", "/v1/llm/chat", body, keeping.gateway.headers()).json()["choices"][0]["message"]["content"] == WORDS
    assert keeping.seen()[-1]["path"] == "/v1/chat/completions"
    assert keeping.ask("GET", "/v1/egress/models").json()["object"] == "list"
