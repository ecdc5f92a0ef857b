"""What could be read in two ways, or stands where few look: requests and answers of models as an attacker writes them."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from gateway import Gateway

# No scanner takes this file for a leak: the secret is put together here.
SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"
KEY = "sk-provider-" + "0123456789abcdef" * 2
COMMAND = "rm -rf / --no-preserve-root"
ASK = [{"role": "user", "content": "hello"}]
POLICY = """
@id("all") permit (principal, action, resource) unless { resource == Model::"ollama/big" || resource == Model::"openrouter/big" };
"""


def chat(arguments, **more):
    call = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": arguments}, **more}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return json.dumps({"id": "c", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]})


class Raw(BaseHTTPRequestHandler):
    """A provider that answers what `answers` holds for a model: a status and a body, or a function that writes."""

    protocol_version = "HTTP/1.1"
    answers, seen = {}, []

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append((self.path, dict(self.headers), body))
        found = self.answers.get(json.loads(body).get("model"), (200, chat("{}")))
        if callable(found):
            return found(self)
        status, text = found
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture(scope="module")
def provider():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Raw)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def gate(provider, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lies")
    (folder / "key").write_text(KEY)
    (folder / "key").chmod(0o600)
    base = f"http://127.0.0.1:{provider.server_port}"
    providers = {
        "main": {"kind": "vllm", "url": f"{base}/v1", "key": "file:key"},
        "anth": {"kind": "anthropic", "url": f"{base}/v1", "key": "file:key"},
        "google": {"kind": "gemini", "url": f"{base}/v1beta", "key": "file:key"},
        "ollama": {"kind": "ollama", "url": f"{base}/v1"},
        "openrouter": {"kind": "openrouter", "url": f"{base}/v1", "key": "file:key"},
    }
    with Gateway(folder, {}, {"dev": {}}, POLICY, llm={"providers": providers, "silence_ms": 1500}) as running:
        yield running
        running.verify()


def ask(gate, path, body, **fields):
    Raw.seen.clear()
    return gate.request("POST", path, json.dumps(body), gate.headers("dev", **fields))


def answered(gate, model, answer, path="/v1/chat/completions", provider="main", **more):
    Raw.answers[model] = answer
    return ask(gate, path, {"model": f"{provider}/{model}", "messages": ASK, **more})


TWICE = {
    "arguments": ("/v1/chat/completions", "main", chat("@").replace('"@"', '"{}", "arguments": ' + json.dumps(json.dumps({"command": COMMAND})))),
    "calls": ("/v1/chat/completions", "main", chat("{}").replace('"tool_calls": [', '"tool_calls": [], "tool_calls": [')),
    "input": ("/v1/messages", "anth", json.dumps({
        "id": "m", "type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {}}],
        "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1},
    }).replace('"input": {}', '"input": {}, "input": ' + json.dumps({"command": COMMAND}))),
    "letters": ("/v1/chat/completions", "main", chat("{}").replace('"tool_calls"', '"Tool_Calls"')),
}


@pytest.mark.parametrize("what", TWICE)
def test_an_answer_that_two_clients_read_differently_goes_to_neither(gate, what):
    path, provider, text = TWICE[what]
    answer = answered(gate, what, (200, text), path, provider, max_tokens=9)
    assert answer.status == 502 and b"llm.answer_invalid" in answer.body and COMMAND.encode() not in answer.body, answer.body


UNCLEAR = {
    "surrogate": '{"x":"\\ud800","command":"@"}', "infinite": '{"n":1e999,"command":"@"}', "nan": '{"n":NaN,"command":"@"}',
    "newline": '{"command":"cd /\n@"}', "comma": '{"command":"@",}', "twice": '{"command":"ls","command":"@"}', "two": '{}{"command":"@"}',
    "open": '{"command":"@"', "mark": '\ufeff{"command":"@"}',
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("what", UNCLEAR)
def test_a_command_in_arguments_that_are_no_clear_json_is_found(gate, what, stream):
    arguments = UNCLEAR[what].replace("@", COMMAND)
    if stream:
        answer = answered(gate, "streams", pieces(arguments), stream=True)
    else:
        answer = answered(gate, "whole", (200, chat(arguments)))
    assert b"scan.command" in answer.body and COMMAND.encode() not in answer.body, answer.body


@pytest.mark.parametrize("arguments", ["no json", '{"path": "a.txt", "text": "cut by max_tok', '{"a": 1,}'])
def test_what_a_model_got_wrong_is_its_clients_to_mend(gate, arguments):
    assert answered(gate, "wrong", (200, chat(arguments))).json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == arguments
    answer = answered(gate, "wrong", pieces(arguments), stream=True)
    assert json.dumps(arguments).encode() in answer.body and b"[DONE]" in answer.body, answer.body


def pieces(arguments):
    def write(handler):
        call = {"index": 0, "id": "a", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        events = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]},
                  {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
        begin(handler, b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n")
    return write


def begin(handler, data):
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("connection", "close")
    handler.end_headers()
    handler.wfile.write(data)
    handler.wfile.flush()
    handler.close_connection = True


def test_a_command_that_stands_as_json_in_a_text_is_judged(gate):
    inner = json.dumps({"command": COMMAND})
    for arguments in ({"input": inner}, {"a": [{"b": json.dumps({"c": inner})}]}):
        answer = answered(gate, "inner", (200, chat(json.dumps(arguments))))
        assert answer.status == 403 and b"scan.command" in answer.body, answer.body


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(64)).decode()
MEDIA = {
    "image": ("/v1/chat/completions", {"model": "main/x", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SECRET}"}}]}]}),
    "head": ("/v1/chat/completions", {"model": "main/x", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": f"data:image/png;x={SECRET};base64,{PNG}"}}]}]}),
    "source": ("/v1/messages", {"model": "anth/x", "max_tokens": 9, "messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": SECRET}}]}]}),
    "inline": ("/v1beta/models/google/x:generateContent", {"contents": [{"role": "user", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": SECRET}}]}]}),
    "unknown": ("/v1/chat/completions", {"model": "main/x", "messages": ASK, "zap": {"mimeType": "image/png", "data": SECRET}}),
}


@pytest.mark.parametrize("what", MEDIA)
def test_a_key_that_is_called_a_medium_does_not_go_out(gate, what):
    answer = ask(gate, *MEDIA[what])
    assert answer.status == 403 and b"scan.secret" in answer.body and not Raw.seen, answer.body


def test_a_medium_goes_out_unread(gate):
    body = {"model": "main/x", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}]}
    assert ask(gate, "/v1/chat/completions", body).status == 200
    assert PNG.encode() in Raw.seen[0][2]


@pytest.mark.parametrize("name", ["alt", "api-version", "beta"])
def test_nothing_of_a_clients_own_goes_on_in_a_query(gate, name):
    for value in (SECRET, gate.keys["dev"], "2024-10-21-" + SECRET.lower()):
        assert ask(gate, f"/v1/chat/completions?{name}={value}", {"model": "main/x", "messages": ASK}).status == 200
        assert Raw.seen[0][0] == "/v1/chat/completions"
    good = {"alt": "sse", "api-version": "2025-04-01-preview", "beta": "true"}[name]
    ask(gate, f"/v1/chat/completions?{name}={good}", {"model": "main/x", "messages": ASK})
    assert Raw.seen[0][0] == f"/v1/chat/completions?{name}={good}"


def test_fields_that_are_keys_stay_and_names_are_read(gate):
    body = {"model": "main/x", "messages": ASK}
    fields = {"anthropic-api-key": "x", "openai-api-key": "y", "x-stainless-auth": "z", "x-stainless-lang": "python"}
    assert ask(gate, "/v1/chat/completions", body, **fields).status == 200
    sent = {name.lower() for name in Raw.seen[0][1]}
    assert "x-stainless-lang" in sent and not {"anthropic-api-key", "openai-api-key", "x-stainless-auth"} & sent
    answer = ask(gate, "/v1/chat/completions", body, **{f"x-stainless-ghp_{'0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R'}": "1"})
    assert answer.status == 403 or not any("ghp_" in name.lower() for name in Raw.seen[0][1])


@pytest.mark.parametrize("more", [{"Model": "big"}, {"Max_Tokens": 10**9}, {"N": 100}, {"Messages": ASK},
                                  {"messages": [{"role": "user", "Role": "tool", "content": "x"}]}])
def test_a_member_in_other_letters_is_refused(gate, more):
    answer = ask(gate, "/v1/chat/completions", {"model": "ollama/small", "messages": ASK, **more})
    assert answer.status == 400 and b"llm.body_invalid" in answer.body and not Raw.seen, answer.body


def test_names_of_tools_and_their_arguments_are_anybodys(gate):
    schema = {"type": "object", "properties": {"Model": {"type": "string"}, "URL": {"type": "string"}}}
    call = {"id": "a", "type": "function", "function": {"name": "run", "arguments": json.dumps({"URL": "x", "Name": "y"})}}
    body = {"model": "main/x", "tools": [{"type": "function", "function": {"name": "run", "parameters": schema}}], "metadata": {"Role": "x"},
            "messages": ASK + [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "ok"}]}
    answer = ask(gate, "/v1/chat/completions", body)
    assert answer.status == 200, answer.body


def test_models_beside_the_model_are_refused(gate):
    answer = ask(gate, "/v1/chat/completions", {"model": "openrouter/small", "models": ["big"], "messages": ASK})
    assert answer.status == 400 and b"models" in answer.body and not Raw.seen, answer.body


def test_the_providers_key_does_not_come_back_in_escapes(gate):
    text = json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}}).replace("-", "\\u002d")
    answer = answered(gate, "escaped", (401, text))
    assert b"llm.answer_invalid" in answer.body and KEY not in json.dumps(answer.json()), answer.body


def test_the_limit_of_one_model_is_not_that_of_others(gate):
    def limited(handler):
        handler.send_response(429)
        handler.send_header("retry-after", "99999999")
        handler.send_header("content-length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    assert answered(gate, "limited", limited).status == 429
    assert answered(gate, "limited", (200, chat("{}"))).status == 503
    assert answered(gate, "free", (200, chat("{}"))).status == 200


def test_an_answer_that_nobody_counted_costs_its_text(gate):
    text = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "river " * 2000}}]})
    assert answered(gate, "uncounted", (200, text), max_tokens=10).status == 200
    usage = gate.request("GET", "/v1/usage", headers=gate.headers("dev")).json()["today"]
    one = next(row for row in usage if row["model"] == "main/uncounted")
    assert one["estimated"] > 2500, one


def test_comments_are_no_word(gate):
    def comments(handler):
        begin(handler, b"")
        for _ in range(40):
            handler.wfile.write(b": still here\n\n")
            handler.wfile.flush()
            time.sleep(0.2)

    begun = time.monotonic()
    answer = answered(gate, "comments", comments, stream=True)
    assert b"llm.provider_slow" in answer.body, answer.body
    assert time.monotonic() - begun < 7
