"""`weir llm check` and `weir llm models` against providers that answer, refuse, and are not there."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gateway import Gateway

GOOD, BAD = "sk-good-0123456789abcdef", "sk-bad-0123456789abcdef"
POLICY = """
permit (principal == Agent::"dev", action == Action::"llm:chat", resource in Provider::"good");
permit (principal == Agent::"dev", action == Action::"llm:embed", resource == Model::"good/vec");
permit (principal == Agent::"free", action, resource);
"""


class Provider(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        kind = self.path.split("/")[1]
        key = self.headers.get("authorization") or self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or ""
        status, body = 200, json.dumps({"data": [{"id": "say"}, {"id": "vec"}]})
        if kind == "google":
            body = json.dumps({"models": [{"name": "models/say"}]})
        if kind == "html":
            body = "<html>"
        if BAD in key:
            status, body = 401, "{}"
        if kind.isdigit():
            status, body = int(kind), "{}"
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture(scope="module")
def provider():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture
def gateway(provider, tmp_path):
    for name, key in (("good.key", GOOD), ("bad.key", BAD)):
        (tmp_path / name).write_text(key)
        (tmp_path / name).chmod(0o600)
    base = f"http://127.0.0.1:{provider.server_port}"
    vllm = {"kind": "vllm"}
    providers = {
        "good": {**vllm, "url": f"{base}/good", "key": "file:good.key", "models": ["say", "vec"]},
        "two": {**vllm, "url": f"{base}/two", "keys": ["file:good.key", "file:bad.key"]},
        "claude": {"kind": "anthropic", "url": f"{base}/claude", "key": "file:good.key"},
        "google": {"kind": "gemini", "url": f"{base}/google", "key": "file:good.key", "models": ["say", "gone"]},
        "html": {**vllm, "url": f"{base}/html"},
        "silent": {**vllm, "url": f"{base}/404"},
        "full": {**vllm, "url": f"{base}/429"},
        "dead": {**vllm, "url": "http://127.0.0.1:9"},
    }
    routes = {"smart": ["good/say", "claude/opus 2"]}
    return Gateway(tmp_path, {}, {"dev": {}, "free": {}, "nobody": {}}, POLICY, llm={"providers": providers, "routes": routes})


def check(gateway, *arguments):
    done = gateway.weir("llm", "check", *arguments, "--json", check=False)
    return done.returncode, {(one["provider"], one["key"]): one for one in json.loads(done.stdout)}


def test_each_provider_is_asked_with_each_key(gateway, provider):
    code, found = check(gateway)
    assert code == 1 and GOOD not in json.dumps(list(found.values())) and BAD not in json.dumps(list(found.values()))
    states = {name: one["state"] for name, one in found.items()}
    assert states == {
        ("good", 1): "works", ("two", 1): "works", ("two", 2): "fails", ("claude", 1): "doubtful", ("google", 1): "doubtful",
        ("html", None): "fails", ("silent", None): "doubtful", ("full", None): "fails", ("dead", None): "fails"}
    assert found["good", 1]["models"] == 2 and "gone" in found["google", 1]["what"] and "opus" in found["claude", 1]["what"]
    assert all(one["help"] for one in found.values() if one["state"] != "works") and "llm.providers.dead.url" in found["dead", None]["help"]
    paths = {path: fields for path, fields in provider.seen}
    assert paths["/good/models"]["authorization"] == f"Bearer {GOOD}" and paths["/google/models"]["x-goog-api-key"] == GOOD
    assert paths["/claude/models"]["x-api-key"] == GOOD and paths["/claude/models"]["anthropic-version"]


def test_some_are_asked_by_name_and_the_answer_is_the_exit_code(gateway, provider):
    provider.seen.clear()
    done = gateway.weir("llm", "check", "good", "silent")
    assert "works" in done.stdout and "doubtful" in done.stdout and GOOD not in done.stdout
    assert {path for path, _ in provider.seen} == {"/good/models", "/404/models"}
    assert check(gateway, "dead")[0] == 1
    done = gateway.weir("llm", "check", "nope", check=False)
    assert done.returncode == 2 and "there is no provider \"nope\"" in done.stderr and "good" in done.stderr


def models(gateway, *arguments):
    return {one["name"]: one for one in json.loads(gateway.weir("llm", "models", *arguments, "--json").stdout)}


def test_models_are_those_that_an_agent_may_ask_for(gateway):
    everything = models(gateway)
    assert {"smart", "good/say", "two/MODEL", "google/gone", "claude/MODEL"} <= set(everything)
    assert everything["smart"]["models"] == ["good/say", "claude/opus"] and "messages" in everything["smart"]["takes"]
    mine = models(gateway, "--agent", "dev")
    assert set(mine) == {"smart", "good/say", "good/vec"}
    assert mine["good/vec"]["actions"] == ["llm:chat", "llm:embed"]
    assert set(models(gateway, "--agent", "free")) == set(everything)
    none = gateway.weir("llm", "models", "--agent", "nobody", check=False)
    assert none.returncode == 1 and none.stdout == "" and "llm:chat" in none.stderr
    unknown = gateway.weir("llm", "models", "--agent", "nope", check=False)
    assert unknown.returncode == 2 and "dev, free, nobody" in unknown.stderr


def test_without_providers_there_is_nothing_to_check(tmp_path):
    gateway = Gateway(tmp_path, {"files": {"command": ["true"]}})
    done = gateway.weir("llm", "check", check=False)
    assert done.returncode == 2 and "there is no provider of models" in done.stderr
    assert gateway.weir("llm", "models", check=False).returncode == 1
