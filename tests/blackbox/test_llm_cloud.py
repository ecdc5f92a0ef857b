"""Models at Bedrock and Vertex: signatures that botocore checks, tokens of service accounts that google-auth checks, frames, and lies."""

import http.client
import json
import random
import sys
import threading

import anthropic
import openai
import pytest
from botocore.eventstream import EventStreamBuffer
from google import genai

from gateway import SERVERS, Gateway, Origin, until

sys.path.insert(0, str(SERVERS))
import cloud  # noqa: E402

WORDS = "the river is low today"
SEED = 20261128


class Clouds:
    """A gateway before one server that is Bedrock and Vertex."""

    def __init__(self, folder):
        self.upstream = Origin(program="cloud.py")
        base = f"http://127.0.0.1:{self.upstream.port}"
        self.account = self.get("/account")
        place = folder / "weir"
        place.mkdir()

        def secret(name, text):
            (place / name).write_text(text)
            (place / name).chmod(0o600)
            return f"file:{name}"

        key = {"region": cloud.REGION, "key_id": secret("id", cloud.KEY_ID), "secret": secret("aws", cloud.AWS_SECRET)}
        session = {**key, "session_token": secret("session", cloud.SESSION)}
        wrong = {**key, "secret": secret("wrong", "another" * 5)}

        def google(kind, url=f"{base}/v1/projects/rivers/locations/europe-west4"):
            file = secret(f"{kind}.json", json.dumps({**self.account, "client_email": f"{kind}@rivers.example"}))
            return {"kind": "vertex", "url": url, "google": {"service_account": file, "location": "europe-west4", "token_url": f"{base}/token"}}

        self.providers = {
            "bedrock": {"url": base, "aws": session},
            "plain": {"kind": "bedrock", "url": f"{base}/", "aws": key, "models": ["anthropic.say"]},
            "keyed": {"kind": "bedrock", "url": base, "key": secret("api", cloud.API_KEY)},
            "wrong": {"kind": "bedrock", "url": base, "aws": wrong},
            "vertex": google("good"), "short": google("short"), "deny": google("deny"), "slow": google("slow"),
        }
        routes = {"either": ["wrong/anthropic.say", "deny/claude-say", "plain/anthropic.say"]}
        self.gateway = Gateway(place, {}, {"dev": {}}, None, llm={"providers": self.providers, "routes": routes})

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream.port, timeout=10)
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    def __enter__(self):
        self.gateway.start()
        self.base, self.key = f"http://127.0.0.1:{self.gateway.port}", self.gateway.keys["dev"]
        return self

    def __exit__(self, *_):
        try:
            self.gateway.verify()
            self.gateway.stop()
        finally:
            self.upstream.stop()

    def anthropic(self):
        return anthropic.Anthropic(base_url=self.base, api_key=self.key, max_retries=0)

    def openai(self):
        return openai.OpenAI(base_url=f"{self.base}/v1", api_key=self.key, max_retries=0)

    def google(self):
        return genai.Client(api_key=self.key, http_options={"base_url": self.base})

    def post(self, path, body, **fields):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.gateway.request("POST", path, body, self.gateway.headers("dev", **fields))

    def message(self, model, words=WORDS, stream=False, **more):
        return self.post("/v1/messages", {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": words}], "stream": stream, **more})

    def asked(self, part="/model/"):
        return [seen for seen in self.upstream.seen() if part in seen["path"]]


@pytest.fixture(scope="module")
def clouds(tmp_path_factory):
    with Clouds(tmp_path_factory.mktemp("cloud")) as clouds:
        yield clouds


ASK = {"max_tokens": 50, "messages": [{"role": "user", "content": WORDS}]}
TOOLS = {"tools": [{"name": "run", "input_schema": {"type": "object"}}]}


@pytest.mark.parametrize("model", ["bedrock/eu.anthropic.say-v1:0", "plain/anthropic.say", "keyed/anthropic.say", "vertex/claude-say@20260401"])
def test_the_client_of_anthropic(clouds, model):
    client = clouds.anthropic()
    said = client.messages.create(model=model, system="Be brief.", **ASK)
    assert said.content[0].text == WORDS and said.usage.output_tokens == 7 and said.usage.cache_read_input_tokens == 3
    with client.messages.stream(model=model, system="Be brief.", **ASK) as events:
        said = events.get_final_message()
    assert said.content[0].text == WORDS and said.usage.output_tokens == 7
    call = model.replace("say", "call")
    if not model.startswith("plain"):
        with client.messages.stream(model=call, **ASK, **TOOLS) as events:
            assert events.get_final_message().content[0].input == {"command": WORDS}
    with pytest.raises(anthropic.APIStatusError) as failed:
        client.messages.create(model=model.split("/")[0] + "/claude-status-429" if "plain" not in model else "nobody", **ASK)
    assert failed.value.status_code in (404, 429)


@pytest.mark.parametrize("model", ["bedrock/anthropic.say", "keyed/anthropic.say", "vertex/claude-say", "vertex/gemini-say"])
def test_the_client_of_openai(clouds, model):
    ask = {"model": model, "max_tokens": 50, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": WORDS}]}
    said = clouds.openai().chat.completions.create(**ask)
    assert said.choices[0].message.content == WORDS and said.usage.completion_tokens == 7 and said.usage.prompt_tokens == 11
    with clouds.openai().chat.completions.stream(**ask) as events:
        said = events.until_done().get_final_completion()
    assert said.choices[0].message.content == WORDS and said.choices[0].finish_reason == "stop"
    with clouds.openai().responses.stream(model=model, input=WORDS) as events:
        assert events.get_final_response().output_text == WORDS


def test_the_client_of_google(clouds):
    client = clouds.google()
    assert client.models.generate_content(model="vertex/gemini-say", contents=WORDS).text == WORDS
    pieces = client.models.generate_content_stream(model="vertex/gemini-say", contents=WORDS)
    assert "".join(piece.text or "" for piece in pieces) == WORDS
    assert client.models.count_tokens(model="vertex/gemini-say", contents=WORDS).total_tokens == 9


def test_tokens_of_anthropics_models_are_counted_at_vertex(clouds):
    ask = {"messages": ASK["messages"]}
    assert clouds.anthropic().messages.count_tokens(model="vertex/claude-say@20260401", **ask).input_tokens == 9
    asked = clouds.asked("count-tokens")[-1]
    assert asked["path"].endswith("/publishers/anthropic/models/count-tokens:rawPredict")
    assert json.loads(asked["body"])["model"] == "claude-say@20260401"
    # Nothing there counts for Gemini in this dialect, nor Bedrock for anybody.
    for model in ("vertex/gemini-say", "bedrock/anthropic.say"):
        answer = clouds.post("/v1/messages/count_tokens", {"model": model, **ask})
        assert answer.status == 400 and answer.json()["error"]["code"] == "llm.dialect", answer.body


def test_signatures_are_those_of_botocore(clouds):
    # Each is checked by the server, which answers 403 where botocore makes another.
    chance = random.Random(SEED)
    letters = "abcXYZ019-_.~:/@ +%&=?#;,!'()*$[]äß漢🜁"
    for number in range(150):
        name = "".join(chance.choice(letters) for _ in range(chance.randrange(1, 40))).strip(" ") or "x"
        name = "/".join(part if part not in ("", ".", "..") else "x" for part in name.split("/"))
        words = "".join(chr(chance.choice([10, 32, 34, 65, 92, 228, 0x6F22, 0x1F701])) for _ in range(chance.randrange(200)))
        provider = chance.choice(["bedrock", "wrong" if number % 50 == 7 else "bedrock"])
        answer = clouds.message(f"{provider}/{name}", words or "x", chance.random() < 0.3, temperature=chance.random())
        assert answer.status == (403 if provider == "wrong" else 200), (name, answer.body)
    arn = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2"
    assert clouds.message(f"bedrock/{arn}").status == 200
    assert clouds.asked()[-1]["path"] == "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aapplication-inference-profile%2Fa1b2/invoke"


def test_what_bedrock_is_sent(clouds):
    body = b'{"max_tokens": 50, "model": "bedrock/anthropic.say", "messages" : [{"role":"user","content":"hi"}], "stream": false, "top_k": 1e1}'
    fields = {"anthropic_beta": "one-2026, two-2026", "anthropic_version": "2023-06-01", "x_api_key": clouds.key}
    assert clouds.post("/v1/messages?beta=true", body, **fields).status == 200
    sent = clouds.asked()[-1]
    assert sent["body"] == '{"max_tokens":50,"messages":[{"role":"user","content":"hi"}],"top_k":1e1,' \
        '"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["one-2026","two-2026"]}'
    assert sent["path"] == "/model/anthropic.say/invoke"
    assert "anthropic-beta" not in sent["fields"] and clouds.key not in str(sent)


@pytest.mark.parametrize("kind", ["checksum", "length", "content", "endless", "untyped", "lines", "json", "message", "base64"])
def test_a_frame_that_is_none_ends_the_answer(clouds, kind):
    answer = clouds.message(f"bedrock/anthropic.frame-{kind}", stream=True)
    said = answer.body.decode()
    assert "llm.answer_invalid" in said and "message_stop" not in said and cloud.SECRET not in said
    assert until(lambda: clouds.gateway.records()[-1].get("why") == "llm.answer_invalid", "the outcome is recorded")


def test_failures_in_the_middle_are_told_in_the_clients_dialect(clouds):
    said = clouds.message("bedrock/anthropic.frame-throttled", stream=True).body.decode()
    assert '"rate_limit_error"' in said and "Too many tokens" in said and "message_stop" not in said
    said = clouds.message("bedrock/anthropic.frame-error", stream=True).body.decode()
    assert '"api_error"' in said and "broken" in said
    said = clouds.message("bedrock/anthropic.frame-cut", stream=True).body.decode()
    assert "llm.provider_failed" in said and "message_stop" not in said
    # Clients pass over what they do not know, and so does the gateway.
    with clouds.anthropic().messages.stream(model="bedrock/anthropic.frame-unknown", **ASK) as events:
        assert events.get_final_message().content[0].text == WORDS
    chat = {"model": "bedrock/anthropic.frame-throttled", "messages": ASK["messages"], "stream": True}
    assert "Too many tokens" in clouds.post("/v1/chat/completions", chat).body.decode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["bedrock/anthropic.", "vertex/claude-"])
def test_what_comes_in_frames_is_judged(clouds, model, stream):
    for pad in ("0", "3", "11"):
        assert cloud.SECRET not in clouds.message(f"{model}leak", pad, stream).body.decode()
    evil = clouds.message(f"{model}evil", stream=stream, **TOOLS).body.decode()
    assert "scan." in evil and "169.254" not in evil
    # What it was asked with comes back to nobody.
    answer = clouds.message(f"{model}key-back", stream=stream).body.decode()
    assert cloud.SESSION not in answer and "ya29." not in answer and "llm.answer_invalid" in answer


def test_a_secret_does_not_go_out(clouds):
    before = len(clouds.upstream.seen())
    answer = clouds.message("bedrock/anthropic.say", f"the key is {cloud.SECRET}")
    sent = "".join(seen["body"] for seen in clouds.upstream.seen()[before:])
    assert cloud.SECRET not in sent and answer.status in (200, 403)


def test_many_calls_wait_for_one_token(clouds):
    before = len(clouds.asked("/token"))
    statuses = []
    ask = [threading.Thread(target=lambda: statuses.append(clouds.message("slow/claude-say").status)) for _ in range(12)]
    for thread in ask:
        thread.start()
    for thread in ask:
        thread.join()
    assert statuses == [200] * 12 and len(clouds.asked("/token")) == before + 1


def test_a_token_is_got_anew_before_it_ends_and_where_it_is_not_taken(clouds):
    def tokens():
        return {seen["fields"]["authorization"] for seen in clouds.asked("/publishers/") if "short-" in seen["fields"]["authorization"]}

    assert clouds.message("short/claude-say").status == 200
    until(lambda: clouds.message("short/claude-say").status == 200 and len(tokens()) >= 2, "it is got anew")
    assert clouds.message("vertex/claude-say").status == 200
    assert clouds.message("vertex/claude-stale").status == 401
    assert clouds.message("vertex/claude-say").status == 200


def test_no_token_is_told_without_the_key_and_a_route_goes_on(clouds):
    answer = clouds.message("deny/claude-say")
    assert answer.status == 503 and b"invalid_client" in answer.body and b"PRIVATE" not in answer.body
    assert clouds.message("either").status == 200
    records = clouds.gateway.records()
    assert "PRIVATE KEY" not in json.dumps(records)
    own = [record for record in records if record.get("action") == "llm:token"]
    assert own and all(record["agent"] == "weir" for record in own)
    for secret in (cloud.AWS_SECRET, cloud.SESSION, "ya29."):
        assert secret not in json.dumps(records) + clouds.gateway.logs.text()


def test_what_may_stand_is_checked(tmp_path, clouds):
    base = f"http://127.0.0.1:{clouds.upstream.port}"
    (tmp_path / "account.json").write_text(json.dumps(clouds.account))
    (tmp_path / "account.json").chmod(0o600)
    (tmp_path / "id").write_text("AKID")
    (tmp_path / "id").chmod(0o600)
    aws = {"region": "eu-west-1", "key_id": "file:id", "secret": "file:id"}
    google = {"service_account": "file:account.json", "location": "global", "token_url": f"{base}/token"}
    for provider, said in [
        ({"kind": "bedrock"}, "needs a url, or aws with a region and a key"),
        ({"kind": "vertex"}, "or google with a service account"),
        ({"kind": "bedrock", "aws": {**aws, "region": "eu west"}}, "has other than small letters"),
        ({"kind": "bedrock", "aws": aws, "key": "file:id"}, "stands beside another key"),
        ({"kind": "openai", "aws": aws}, "is nothing that this kind of provider takes"),
        ({"kind": "bedrock", "url": "http://bedrock.example", "aws": aws}, "would cross the network in the clear"),
        ({"kind": "vertex", "google": {**google, "token_url": "https://else.example/token"}}, "are got from https://else.example/token alone"),
        ({"kind": "vertex", "google": {**google, "service_account": "file:id"}}, "is no service account's file"),
        ({"kind": "vertex", "google": {**google, "token_url": "http://else.example/token"}}, "the statement would cross"),
    ]:
        gateway = Gateway(tmp_path / "weir", {}, {"dev": {}}, None, llm={"providers": {"p": provider}})
        for name in ("account.json", "id"):
            (tmp_path / "weir" / name).write_text((tmp_path / name).read_text())
            (tmp_path / "weir" / name).chmod(0o600)
        told = gateway.weir("config", "check", "weir.yaml", check=False)
        assert told.returncode and said in told.stdout + told.stderr, (provider, told.stdout + told.stderr)
    good = {"b": {"kind": "bedrock", "aws": aws}, "v": {"kind": "vertex", "google": google}}
    gateway = Gateway(tmp_path / "weir", {}, {"dev": {}}, None, llm={"providers": good})
    gateway.weir("config", "check", "weir.yaml")


def test_llm_check_asks_a_model_nothing(clouds):
    told = json.loads(clouds.gateway.weir("llm", "check", "--json", check=False).stdout)
    states = {one["provider"]: one["state"] for one in told}
    assert states == {"bedrock": "works", "plain": "works", "keyed": "works", "wrong": "fails",
                      "vertex": "works", "short": "works", "deny": "fails", "slow": "works"}, told


def test_the_frames_of_these_tests_are_ones_that_botocore_reads():
    buffer = EventStreamBuffer()
    buffer.add_data(cloud.chunk(b'{"type":"ping"}') + cloud.exception("throttlingException", "x"))
    first, second = [event.to_response_dict() for event in buffer]
    assert json.loads(first["body"])["bytes"] and second["headers"][":exception-type"] == "throttlingException"
