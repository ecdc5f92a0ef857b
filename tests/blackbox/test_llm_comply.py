"""Models through the gate answer as they do without it: llm-comply, and what the official clients read, field by field.

The provider is `weir lab target`. Each check is made twice, of the target itself and of the gateway before it, and both have to
say the same. What differs in each answer by itself, its id and its second, is put aside.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway import Gateway
from provider_lab import LabTarget

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")
genai = pytest.importorskip("google.genai")

COMPLY = Path(sys.executable).parent / "llm-comply"
# llm-comply asks for reasoning only of models that it knows to reason, by their names.
MODEL, GOOGLE = "gpt-5-lab", "gemini-lab"
ANTHROPIC_FLAGS = ["--auth-header", "x-api-key", "--no-bearer", "-H", "anthropic-version:2023-06-01"]
FORMATS = {
    "openai-chat": ("/v1", MODEL, []),
    "open-responses": ("/v1", MODEL, []),
    "anthropic": ("/v1", MODEL, ANTHROPIC_FLAGS),
    "google-genai": ("", GOOGLE, ["--auth-header", "x-goog-api-key", "--no-bearer"]),
}
# How many checks the provider passes itself: all but one of Anthropic's, which is for models of certain names.
PASSES = {"openai-chat": 9, "anthropic": 8, "google-genai": 9, "open-responses": 13}
READ = {"name": "read_file", "arguments": {"path": "notes.txt", "lines": [1, 2.5, None], "deep": {"é": "“quoted”"}}}
RUN = {"name": "count", "arguments": {"text": "line\nbreak \\ and \"more\""}, "id": "call_own"}
KINDS = {
    "words": [{"words": "The river — déjà vu — rose by 3 cm.\nIt fell \"again\" \\ 😀."}],
    "calls": [{"words": "I look.", "tools": [READ, RUN]}, {"words": "It is done."}],
    "reasons": [{"reasoning": "First this, then that.", "words": "So it is.", "usage": {"input": 90, "cached": 64, "output": 30, "reasoning": 12}}],
    "lies": [{"words": "ok", "usage": {"input": 5000000, "output": 1}}],
    "limited": [{"error": {"status": 429, "message": "slow down", "retry_after": "7s"}}],
    "full": [{"error": {"status": 529, "message": "too many", "type": "overloaded_error"}}],
    "wrong": [{"error": {"status": 400, "message": "no such thing", "code": "odd"}}],
}
# A provider that refuses is left alone for a while, so each client has its own of these.
REFUSALS = ("limited", "full", "wrong")
SPEAKS = ("openai", "anthropic", "google")


class Both:
    """A target, and a gateway before it."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        models = {f"{kind}-{client}": turns for kind, turns in KINDS.items() for client in SPEAKS}
        self.target = LabTarget(folder / "turns.yaml", {"models": models}, "--reasoning", "5", "--cached", "50%")
        self.folder = folder

    def __enter__(self):
        self.target.__enter__()
        openai_way = {"kind": "vllm", "url": f"{self.target.url}/v1"}
        google_way = {"kind": "gemini", "url": f"{self.target.url}/v1beta"}
        said = [kind for kind in KINDS if kind not in REFUSALS]
        names = [f"{kind}-{client}" for kind in [*said, "made-up"] for client in SPEAKS[:2]]
        providers = {"lab": {**openai_way, "models": [MODEL, *names]},
                     "google": {**google_way, "models": [GOOGLE, "made-up-google", *(f"{kind}-google" for kind in said)]}}
        for kind in REFUSALS:
            for client in SPEAKS:
                way = google_way if client == "google" else openai_way
                providers[f"{kind}-{client}"] = {**way, "models": [f"{kind}-{client}"]}
        self.gateway = Gateway(self.folder / "weir", {}, llm={"providers": providers}).start()
        self.sides = {"direct": (self.target.url, "sk-direct"),
                      "weir": (f"http://127.0.0.1:{self.gateway.port}", self.gateway.keys["dev"])}
        return self

    def __exit__(self, *_):
        try:
            self.gateway.verify()
            self.gateway.stop()
        finally:
            self.target.__exit__()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with Both(tmp_path_factory.mktemp("comply")) as both:
        yield both


# llm-comply


def comply(kind, url, key):
    """Each check's name and what became of it, in order."""
    path, model, flags = FORMATS[kind]
    command = [str(COMPLY), "--json", "--format", kind, "-u", url + path, "-k", key, "-m", model, "--timeout", "20", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout, done.stderr
    checks = json.loads(done.stdout)["results"]
    # What is wrong with an answer is told in words of the checker, and of the validator of schemas.
    return [(c["id"], c["status"], c.get("errors"), c.get("warnings")) for c in checks]


def test_llm_comply_says_the_same_of_both(both):
    with ThreadPoolExecutor(4) as threads:
        asked = {(kind, side): threads.submit(comply, kind, *both.sides[side]) for kind in FORMATS for side in both.sides}
        said = {one: future.result() for one, future in asked.items()}
    for kind in FORMATS:
        direct, weir = said[kind, "direct"], said[kind, "weir"]
        passed = [name for name, status, *_ in direct if status == "passed"]
        assert len(passed) == PASSES[kind], [check for check in direct if check[1] == "failed"]
        assert [check[:2] for check in weir] == [check[:2] for check in direct], (kind, weir, direct)
        for ours, theirs in zip(weir, direct):
            # An error of a check that ought to fail is the gateway's own, in its own words.
            if theirs[1] == "passed":
                assert ours == theirs, kind


# Official clients


# What an answer has of its own: its id, what hangs on it, and its second.
OWN = re.compile(r"[0-9a-f]{24}(?:[0-9a-f]{2})?")
SECONDS = {"created", "created_at", "completed_at"}
# Of the exchange, or of the client itself.
ASIDE = {"sdk_http_response", "parsed", "create_time"}


def plain(value):
    """A value of a client's as plain data, without what differs between two answers to the same request."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", warnings=False)
    if isinstance(value, dict):
        return {key: "a second" if key in SECONDS and item else plain(item) for key, item in value.items() if key not in ASIDE}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return OWN.sub("an id", value) if isinstance(value, str) else value


def told(ask):
    """What a client gives, or the error that it raises."""
    try:
        return plain(ask())
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return [type(error).__name__, error.status_code, plain(error.body), error.response.headers.get("retry-after")]
    except genai.errors.APIError as error:
        return [type(error).__name__, error.code, error.status, plain(error.details)]


ASK = [{"role": "user", "content": "how high is the river?"}]
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer", "minimum": 2}}, "required": ["place", "days"]}
CHAT_TOOL = {"type": "function", "function": {"name": "level", "parameters": SCHEMA}}
TOOL = {"name": "level", "input_schema": SCHEMA}


def of_openai(url, key, model):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
    chat, responses = client.chat.completions, client.responses
    yield "chat", lambda: chat.create(model=model, messages=ASK)
    yield "chat, streamed", lambda: list(chat.create(model=model, messages=ASK, stream=True, stream_options={"include_usage": True}))
    yield "chat, cut", lambda: chat.create(model=model, messages=ASK, max_completion_tokens=2)
    yield "responses", lambda: responses.create(model=model, input=ASK)
    yield "responses, streamed", lambda: list(responses.create(model=model, input=ASK, stream=True))
    if model == "made-up-openai":
        yield "a tool", lambda: chat.create(model=model, messages=ASK, tools=[CHAT_TOOL], tool_choice="required")
        yield "reasoning", lambda: responses.create(model=model, input="hi", reasoning={"summary": "auto"})
        yield "vectors", lambda: client.embeddings.create(model=model, input=["a", "b"], dimensions=8)
        yield "vectors, packed", lambda: client.embeddings.create(model=model, input="a", encoding_format="base64")


def of_anthropic(url, key, model):
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
    ask = {"model": model, "max_tokens": 500, "messages": ASK}

    def final():
        with client.messages.stream(**ask) as stream:
            return [list(stream), stream.get_final_message()]

    yield "messages", lambda: client.messages.create(**ask)
    yield "messages, events", lambda: list(client.messages.create(**ask, stream=True))
    yield "messages, streamed", final
    if model == "made-up-anthropic":
        yield "cut", lambda: client.messages.create(**{**ask, "max_tokens": 3})
        yield "a tool", lambda: client.messages.create(**ask, tools=[TOOL], tool_choice={"type": "any"})
        yield "reasoning", lambda: client.messages.create(**ask, thinking={"type": "enabled", "budget_tokens": 1024})
        yield "counted", lambda: client.messages.count_tokens(model=model, messages=ASK)


def of_google(url, key, model):
    client = genai.Client(api_key=key, http_options={"base_url": url})
    yield "generate", lambda: client.models.generate_content(model=model, contents="how high is the river?")
    yield "generate, streamed", lambda: list(client.models.generate_content_stream(model=model, contents="how high is the river?"))
    if model == "made-up-google":
        yield "cut", lambda: client.models.generate_content(model=model, contents="hi", config={"max_output_tokens": 2})
        yield "counted", lambda: client.models.count_tokens(model=model, contents="hi")
        yield "a vector", lambda: client.models.embed_content(model=model, contents="hi")
        yield "reasoning", lambda: client.models.generate_content(model=model, contents="hi", config={"thinking_config": {"include_thoughts": True}})


CLIENTS = {"openai": of_openai, "anthropic": of_anthropic, "google": of_google}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", [*KINDS, "made-up"])
def test_the_official_clients_read_the_same_from_both(both, client, kind):
    direct, weir = (dict(CLIENTS[client](*both.sides[side], f"{kind}-{client}")) for side in ("direct", "weir"))
    for what in list(direct)[:1 if kind in REFUSALS else None]:
        theirs, ours = told(direct[what]), told(weir[what])
        assert ours == theirs, (client, kind, what)
        is_error = isinstance(theirs, list) and bool(theirs) and isinstance(theirs[0], str)
        assert is_error == (kind in REFUSALS), (what, theirs)
