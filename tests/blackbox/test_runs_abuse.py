"""Runs between hostile models, tools and callers; what is gone; a disk that takes nothing; call-backs."""

import hashlib
import hmac
import json
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from websockets.exceptions import ConnectionClosed

from gateway import WEIR, until
from test_runs import POLICY, House, of
from test_runs_shapes import socket


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with House(tmp_path_factory.mktemp("abuse")) as house:
        yield house


# Models and tools


def test_a_model_of_a_hundred_megabytes_is_cut_off(house):
    before = house.gateway.rss_peak_kb()
    shown, _ = house.play([{"bytes": 100 << 20}])
    assert shown["state"] == "failed" and shown["error"]["code"] == "run.model"
    assert house.gateway.rss_peak_kb() - before < 64 << 10


def test_a_tool_that_hangs_ends_with_the_runs_time(house):
    began = time.monotonic()
    shown, _ = house.play([{"calls": [["wait", {"seconds": 60, "text": "hangs"}]]}], limits={"time_ms": 1_000})
    assert shown["error"]["code"] == "run.spent" and time.monotonic() - began < 10
    until(lambda: "cancelled wait hangs" in house.done(), "the tool is told")


def test_a_tool_that_floods_is_bounded(house):
    shown, events = house.play([{"calls": [["big", {"bytes": 1 << 20}], ["big", {"bytes": 100 << 20}]]}, {"say": "so much"}])
    results = of(events, "tool.result")
    assert shown["state"] == "completed" and all(len(result["content"]) <= (256 << 10) + 100 for result in results)
    assert results[1]["is_error"]


def test_a_tool_that_dies_is_told_and_comes_back(house):
    shown, events = house.play([{"calls": [["die", {}]]}, {"say": "it died"}])
    assert shown["state"] == "completed" and of(events, "tool.result")[0]["is_error"]
    look = lambda: house.play([{"calls": [["look", {"text": "back"}]]}, {"say": "ok"}])[1]
    until(lambda: of(look(), "tool.result")[0]["content"] == "look did back", "the tool is back")


# Callers


def test_another_agent_finds_nothing_of_a_run_by_any_route(house):
    run = house.begun([{"say": "mine", "hang": 20}], agent="talker", thread="private")
    count = house.show(run)["events"]
    routes = [("GET", f"/v1/runs/{run}{part}") for part in ("", "/events", "/result", "/transcript")]
    routes += [("POST", f"/v1/runs/{run}/cancel"), ("DELETE", f"/v1/runs/{run}"), ("GET", f"/v1/responses/{run}"),
               ("GET", f"/v1/responses/{run}?stream=true"), ("POST", f"/v1/responses/{run}/cancel")]
    for method, path in routes:
        answer = house.ask(method, path, b"" if method == "POST" else None, "other")
        assert (answer.status, answer.refusal()[0] or answer.json()["error"]["code"]) == (404, "run.unknown"), path
    # Its thread is another agent's own: what is said there does not come to the run.
    for mode in ("steer", "interrupt"):
        house.ask("POST", "/v1/runs", {"agent": "talker", "input": "[{}]", "thread": "private", "mode": mode}, "other")
    house.ask("POST", "/api/chat", {"message": "x", "agent_id": "nobody", "thread": "private"}, "other")
    assert house.show(run)["state"] == "running" and house.show(run)["events"] == count
    # The word of each shape for what may not be: no rights, no run.
    for path, body in [("/v1/runs", {"agent": "talker", "input": "x"}), ("/api/chat", {"message": "x", "agent_id": "talker"}),
                       ("/v1/responses", {"model": "run/talker", "input": "x"}),
                       ("/ag-ui/talker", {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "x"}]})]:
        answer = house.ask("POST", path, body, "guest")
        error = answer.json().get("error", answer.json())
        assert (answer.status, error["code"]) == (403, "policy.forbidden") and error["call"], path
    house.ask("DELETE", f"/v1/runs/{run}")


def test_a_message_over_its_bound_closes_the_connection(house):
    with socket(house, "/ws/chat") as client:
        with pytest.raises(ConnectionClosed):
            # In two frames: the first fits, and little is left to be read of the second.
            client.send(["x" * ((4 << 20) - 10), "x" * 100])
            client.recv(timeout=20)
        assert client.protocol.close_code == 1009
    big = json.dumps({"agent": "talker", "input": "x" * (4 << 20)}).encode()
    answer = house.ask("POST", "/v1/runs", big)
    assert (answer.status, answer.refusal()[0]) == (413, "http.body_too_large")
    # Models take larger ones, runs by their path do not.
    answer = house.ask("POST", "/v1/responses", {"model": "run/talker", "input": "x" * (4 << 20)})
    assert (answer.status, answer.json()["error"]["code"]) == (413, "http.body_too_large")


def test_a_body_that_is_no_start_is_refused_in_each_shape(house):
    for path in ("/v1/runs", "/api/chat", "/ag-ui/talker"):
        for body in (b"", b"{", b"[]", b"null", b'"x"', b'{"a":' * 200 + b"1" + b"}" * 200, b"\xff\xfe"):
            answer = house.ask("POST", path, body)
            error = answer.json().get("error", answer.json())
            assert answer.status == 400 and error["code"] == "run.invalid" and error["call"], (path, body[:20])


RIGHTS = """
@id("no-cancel") forbid (principal == Agent::"other", action == Action::"run:cancel", resource);
@id("no-short") forbid (principal == Agent::"other", action == Action::"run:start", resource == RunAgent::"short");
@id("no-read") forbid (principal == Agent::"other", action == Action::"run:read", resource == RunAgent::"worker");
"""


def test_each_right_is_a_right_of_its_own_and_the_end_of_the_gateway_is_told(tmp_path):
    with House(tmp_path / "house", policy=POLICY + RIGHTS) as house:
        code = lambda answer: (answer.status, answer.refusal()[0])
        forbidden = (403, "policy.forbidden")
        run = house.begun([{"say": "slow", "hang": 20}], agent="talker", who="other")
        assert code(house.ask("DELETE", f"/v1/runs/{run}", agent="other")) == forbidden
        answer = house.ask("POST", f"/v1/responses/{run}/cancel", b"", "other")
        assert (answer.status, answer.json()["error"]["code"]) == forbidden
        assert code(house.ask("POST", "/v1/runs", {"agent": "short", "input": "x"}, "other")) == forbidden
        worker = house.start([{"say": "w"}], agent="worker", who="other")
        for path in ("", "/events", "/result", "/transcript"):
            assert code(house.ask("GET", f"/v1/runs/{worker}{path}", agent="other")) == forbidden, path
        assert house.show(run, "other")["state"] == "running"
        with socket(house, f"/ws/runs/{run}", "other") as listener, socket(house, "/ws/chat", "other") as client:
            house.gateway.process.send_signal(signal.SIGTERM)
            for end in (listener, client):
                with pytest.raises(ConnectionClosed):
                    while True:
                        end.recv(timeout=10)
                assert end.protocol.close_code == 1001
        assert house.gateway.process.wait(10) == 0
        house.gateway.start()
        until(lambda: house.show(run, "other")["state"] == "running", "it goes on")


def test_a_stop_ends_all_runs_and_lets_none_begin(tmp_path):
    with House(tmp_path / "house") as house:
        runs = [house.begun([{"say": "slow", "hang": 20}], agent="talker", who=who) for who in ("dev", "other")]
        file = house.gateway.folder / "weir.yaml"
        config = json.loads(file.read_text())
        file.write_text(json.dumps({**config, "stop": ["lane:run"]}))
        ended = lambda: 'weir_runs_ended_total{agent="talker",state="failed"} 2' in house.gateway.operator("/metrics").body.decode()
        until(ended, "both are ended", 10)
        refused = house.ask("POST", "/v1/runs", {"agent": "talker", "input": "x"})
        assert refused.refusal()[0] == "gate.stopped" and refused.status >= 400
        file.write_text(json.dumps(config))
        until(lambda: house.ask("GET", "/v1/runs").status == 200, "the lane goes on", 10)
        for run, who in zip(runs, ("dev", "other")):
            assert house.show(run, who)["error"]["code"] == "gate.stopped"


# What is kept


def test_what_is_gone_is_said_to_be_gone(tmp_path):
    with House(tmp_path / "house", bytes_max=1 << 20) as house:
        first = house.start([{"bytes": 150_000}], agent="talker")
        house.ended(first)
        second = house.start([{"bytes": 150_000}], agent="talker")
        house.ended(second)
        for path in ("", "/events?after=1", "/transcript"):
            answer = house.ask("GET", f"/v1/runs/{first}{path}")
            assert (answer.status, answer.refusal()[0]) == (410, "run.gone"), path
        answer = house.ask("GET", f"/v1/responses/{first}")
        assert (answer.status, answer.json()["error"]["code"]) == (410, "run.gone")
        assert house.ask("GET", f"/v1/runs/{first}", agent="other").status == 404
        assert [run["id"] for run in house.ask("GET", "/v1/runs").json()["data"]] == [second]
        assert not list((house.gateway.state / "runs").glob(f"{first}*"))


def test_a_disk_that_takes_nothing_starts_no_run(tmp_path):
    with House(tmp_path / "house") as house:
        runs = house.gateway.state / "runs"
        # A file where the folder was: nothing can be kept in it, whoever asks.
        away = house.gateway.state / "away"
        runs.rename(away)
        runs.write_text("")
        for path, body in [("/v1/runs", {"agent": "talker", "input": "x"}), ("/api/chat", {"message": "x", "agent_id": "talker"}),
                           ("/v1/responses", {"model": "run/talker", "input": "x"})]:
            answer = house.ask("POST", path, body)
            error = answer.json().get("error", answer.json())
            assert (answer.status, error["code"]) == (503, "run.unrecorded"), path
        assert house.gateway.operator("/health").json()["runs"] == {"events": "cannot be kept"}
        runs.unlink()
        away.rename(runs)
        shown, _ = house.play([{"say": "there is room"}], agent="talker")
        assert shown["state"] == "completed"
        assert house.gateway.operator("/health").json()["runs"] == {"events": "works"}
        assert len(house.ask("GET", "/v1/runs").json()["data"]) == 1


# Call-backs


class Receiver:
    """Takes call-backs, the first of each run with a failure."""

    def __init__(self, fails=1):
        self.took, self.fails = [], fails
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.took.append((self.path, dict(self.headers.items()), body))
                self.send_response(503 if len(receiver.took) <= receiver.fails else 204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


WEB = '@id("web") permit (principal == Agent::"dev", action == Action::"web:send", resource in Domain::"localhost");\n'


def calling(folder, receiver):
    folder.mkdir()
    (folder / "weir").mkdir()
    key = folder / "weir" / "secret"
    key.write_text("the key of call-backs")
    key.chmod(0o600)
    agent = {"model": "smart", "callback": {"url": f"http://localhost:{receiver.port}/ended?of=weir", "secret": "file:secret"}}
    settings = {"scan": {"urls": {"internal": ["localhost", "127.0.0.1"], "per_minute": 100_000}}}
    return House(folder, policy=POLICY + WEB, settings=settings, more_agents={"caller": agent})


def test_the_end_of_a_run_is_told_with_a_signature(tmp_path):
    receiver = Receiver()
    try:
        with calling(tmp_path / "house", receiver) as house:
            run = house.start([{"say": "a word that stays here"}], agent="caller")
            until(lambda: len(receiver.took) == 2, "it is tried again", 10)
            (path, fields, body), (_, again, same) = receiver.took
            assert path == "/ended?of=weir" and body == same
            assert json.loads(body) == {"type": "run.completed", "run": run, "agent": "caller", "owner": "dev", "thread": run,
                                        "state": "completed"}
            assert fields["weir-webhook-id"] == again["weir-webhook-id"] == f"{run}-end"
            signed = f"{run}-end.{fields['weir-webhook-timestamp']}.".encode() + body
            right = hmac.new(b"the key of call-backs", signed, hashlib.sha256).hexdigest()
            assert fields["weir-webhook-signature"] == f"sha256={right}"
            assert "authorization" not in {name.lower() for name in fields}
            told = lambda: [r for r in house.gateway.records() if r.get("action") == "web:send" and r["decision"] == "pass"]
            until(lambda: len(told()) == 2, "both tries are recorded")
            assert all(record["run"] == run and record["agent"] == "dev" for record in told())
            # Another agent may not ask that site: it is refused, recorded, and not tried again.
            other = house.start([{"say": "x"}], agent="caller", who="other")
            refused = lambda: [r for r in house.gateway.records() if r.get("run") == other and r["action"] == "web:send"]
            until(lambda: [r["decision"] for r in refused()] == ["refuse"], "the refusal")
            assert len(receiver.took) == 2 and house.show(other, "other")["state"] == "completed"
            state = (house.gateway.state / "runs" / f"{run}.run").read_text()
            assert "the key of call-backs" not in state + house.gateway.logs.text()
    finally:
        receiver.stop()


def test_nobody_names_a_call_back(house):
    body = {"agent": "talker", "input": "x", "callback": {"url": "http://localhost:1/"}}
    assert house.ask("POST", "/v1/runs", body).refusal()[0] == "run.invalid"


def test_no_provider_and_no_route_takes_the_names_of_agents_of_runs(tmp_path):
    (tmp_path / "policy.cedar").write_text("permit (principal, action, resource);")
    kind = {"kind": "vllm", "url": "http://127.0.0.1:9/v1"}
    for llm, key in (({"providers": {"run": kind}}, "llm.providers.run"),
                     ({"providers": {"main": kind}, "routes": {"run/x": ["main/m"]}}, "llm.routes.run/x")):
        (tmp_path / "weir.yaml").write_text(json.dumps({"policy": "policy.cedar", "agents": {}, "llm": llm}))
        checked = subprocess.run([str(WEIR), "config", "check", "-c", "weir.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert checked.returncode == 1 and "agents of runs" in checked.stdout + checked.stderr, key
