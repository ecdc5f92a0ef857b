"""Clients of one dialect before providers of another: official clients, streams, calls of tools, what is refused, and what is judged."""

import json

import pytest

from gateway import Gateway, Origin, until

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")
genai = pytest.importorskip("google.genai")

SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"
WORDS = "the river is low today"
# Which dialect a provider speaks, by its kind.
KINDS = {"chat": "mistral", "messages": "anthropic", "google": "gemini"}
CLIENTS = ["openai", "responses", "anthropic", "google"]
PAIRS = [(client, provider) for client in CLIENTS for provider in KINDS
         if (client, provider) not in {("openai", "chat"), ("anthropic", "messages"), ("google", "google")}]


class Mixed:
    """A gateway before three providers, each of one dialect."""

    def __init__(self, folder):
        self.upstream = Origin(program="provider.py")
        base = f"http://127.0.0.1:{self.upstream.port}"
        urls = {"chat": f"{base}/v1", "messages": f"{base}/v1", "google": f"{base}/v1beta"}
        providers = {name: {"kind": kind, "url": urls[name]} for name, kind in KINDS.items()}
        routes = {"both": ["messages/say", "chat/say"]}
        self.gateway = Gateway(folder, {}, {"dev": {}}, None, llm={"providers": providers, "routes": routes})

    def __enter__(self):
        self.gateway.start()
        self.base = f"http://127.0.0.1:{self.gateway.port}"
        self.key = self.gateway.keys["dev"]
        return self

    def __exit__(self, *_):
        try:
            self.gateway.verify()
            self.gateway.stop()
        finally:
            self.upstream.stop()

    def bodies(self):
        return [json.loads(seen["body"]) for seen in self.upstream.seen() if "body" in seen]

    def ask(self, client, model, words, stream, tools=False):
        """What the official client of a dialect makes of the answer: its text, or the arguments of the call."""
        if client in ("openai", "responses"):
            openai_client = openai.OpenAI(base_url=f"{self.base}/v1", api_key=self.key, max_retries=0)
        if client == "openai":
            function = {"name": "run", "description": "Runs", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}
            more = {"tools": [{"type": "function", "function": function}]} if tools else {}
            asked = {"model": model, "max_tokens": 50, "messages": [
                {"role": "system", "content": "Be brief."}, {"role": "user", "content": words}], **more}
            if stream:
                with openai_client.chat.completions.stream(**asked) as events:
                    said = events.until_done().get_final_completion()
            else:
                said = openai_client.chat.completions.create(**asked)
            message = said.choices[0].message
            if tools:
                assert said.choices[0].finish_reason == "tool_calls"
                return json.loads(message.tool_calls[0].function.arguments)
            assert said.choices[0].finish_reason == "stop" and said.usage.completion_tokens == 7 and said.usage.prompt_tokens == 11
            return message.content
        if client == "responses":
            more = {"tools": [{"type": "function", "name": "run", "parameters": {"type": "object"}, "strict": False}]} if tools else {}
            asked = {"model": model, "max_output_tokens": 50, "instructions": "Be brief.", "input": words, **more}
            if stream:
                with openai_client.responses.stream(**asked) as events:
                    said = events.get_final_response()
            else:
                said = openai_client.responses.create(**asked)
            assert said.status == "completed" and said.usage.output_tokens == 7 and said.usage.input_tokens_details.cached_tokens == 3
            return json.loads(said.output[0].arguments) if tools else said.output_text
        if client == "anthropic":
            anthropic_client = anthropic.Anthropic(base_url=self.base, api_key=self.key, max_retries=0)
            more = {"tools": [{"name": "run", "input_schema": {"type": "object"}}]} if tools else {}
            asked = {"model": model, "max_tokens": 50, "system": "Be brief.", "messages": [{"role": "user", "content": words}], **more}
            if stream:
                with anthropic_client.messages.stream(**asked) as events:
                    said = events.get_final_message()
            else:
                said = anthropic_client.messages.create(**asked)
            assert said.usage.output_tokens == 7 and said.usage.cache_read_input_tokens == 3 and said.usage.input_tokens == 8
            assert said.stop_reason == ("tool_use" if tools else "end_turn")
            return said.content[0].input if tools else said.content[0].text
        google = genai.Client(api_key=self.key, http_options={"base_url": self.base})
        run = {"function_declarations": [{"name": "run", "parameters_json_schema": {"type": "object"}}]}
        config = {"max_output_tokens": 50, "system_instruction": "Be brief.", **({"tools": [run]} if tools else {})}
        if stream:
            pieces = list(google.models.generate_content_stream(model=model, contents=words, config=config))
            calls = [call for piece in pieces for call in piece.function_calls or []]
            assert pieces[-1].usage_metadata.prompt_token_count == 11
            return calls[0].args if tools else "".join(piece.text or "" for piece in pieces)
        said = google.models.generate_content(model=model, contents=words, config=config)
        assert said.usage_metadata.cached_content_token_count == 3
        return said.function_calls[0].args if tools else said.text


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    with Mixed(tmp_path_factory.mktemp("convert")) as mixed:
        yield mixed


@pytest.mark.parametrize("client, provider", PAIRS)
def test_a_client_talks_to_a_provider_of_another_dialect(mixed, client, provider):
    for stream in (False, True):
        assert mixed.ask(client, f"{provider}/say", WORDS, stream) == WORDS
        sent = mixed.bodies()[-1]
        system = {"chat": lambda: sent["messages"][0]["content"], "messages": lambda: sent["system"],
                  "google": lambda: sent["systemInstruction"]["parts"][0]["text"]}
        assert system[provider]() == "Be brief."
        assert mixed.ask(client, f"{provider}/call", WORDS, stream, tools=True) == {"command": WORDS}


@pytest.mark.parametrize("client, provider", PAIRS)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_said_is_judged_before_it_is_converted(mixed, client, provider, stream):
    # A key that the model says, cut over events, and a command that nobody should run.
    assert SECRET not in str(mixed.ask(client, f"{provider}/leak", "3", stream)) if provider != "google" else True
    with pytest.raises(Exception) as refused:
        mixed.ask(client, f"{provider}/evil", WORDS, stream, tools=True)
    # A client may keep to itself what it was told in the middle of a stream; its outcome is recorded after that.
    assert "scan." in str(refused.value) or until(
        lambda: mixed.gateway.records()[-1].get("why", "").startswith("scan."), "the refusal is recorded")


def post(mixed, path, body):
    return mixed.gateway.request("POST", path, json.dumps(body).encode(), mixed.gateway.headers("dev"))


def test_what_has_no_counterpart_is_refused_and_a_route_goes_on(mixed):
    ask = {"messages": [{"role": "user", "content": "hello river"}]}
    answer = post(mixed, "/v1/chat/completions", {"model": "messages/say", "n": 2, **ask})
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (400, "llm.unconvertible") and error["message"].startswith("llm.unconvertible: n has no"), error
    answer = post(mixed, "/v1/messages", {"model": "chat/say", "max_tokens": 9, "top_k": 3, **ask})
    assert answer.status == 400 and "top_k" in answer.json()["error"]["message"]
    # The next model of the route speaks the client's own dialect.
    answer = post(mixed, "/v1/chat/completions", {"model": "both", "n": 2, **ask})
    assert answer.status == 200 and mixed.bodies()[-1]["n"] == 2
    assert post(mixed, "/v1/messages/count_tokens", {"model": "chat/say", **ask}).json()["error"]["code"] == "llm.dialect"


def test_errors_and_broken_streams_are_said_in_the_clients_dialect(mixed):
    ask = {"messages": [{"role": "user", "content": "hello long and wide river"}], "max_tokens": 9}
    answer = post(mixed, "/v1/messages", {"model": "chat/status-429", **ask})
    assert (answer.status, answer.json()["type"], answer.json()["error"]["type"]) == (429, "error", "rate_limit_error")
    answer = post(mixed, "/v1/chat/completions", {"model": "messages/status-400", **ask})
    assert answer.status == 400 and answer.json()["error"]["message"] == "as the model's name says"
    answer = post(mixed, "/v1/messages", {"model": "chat/garbage", **ask})
    assert answer.status == 502 and answer.json()["error"]["code"] == "llm.answer_invalid"
    answer = post(mixed, "/v1/messages", {"model": "chat/cut", "stream": True, **ask})
    assert b"event: error" in answer.body and b"message_stop" not in answer.body
