"""Runs: an agent's loop on the server. A model that plays scripts, real servers of tools, listeners that come and go, kills."""

import json
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import runs_killed
from gateway import SERVERS, WEIR, Gateway, Origin, child_server, filesystem, until
from identity import Identities

AGENTS = {"dev": {"groups": ["engineers"]}, "other": {"groups": ["engineers"]}, "guest": {}}
POLICY = """
@id("run") permit (principal in Group::"engineers", action in [Action::"run", Action::"llm"], resource);
@id("guest") permit (principal == Agent::"guest", action == Action::"run:read", resource);
@id("tools") permit (principal in Group::"engineers", action in Action::"mcp", resource)
  unless { action == Action::"mcp:call" && resource == Tool::"effects/forbidden" };
"""
SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"[:36]


class House:
    """A gateway with a scripted model, a server whose calls leave lines in a file, and a file server."""

    def __init__(self, folder, durability="os", policy=POLICY, settings=None, more_agents=None, **runs):
        self.model = Origin(program="provider.py")
        folder.mkdir(exist_ok=True)
        self.effects = folder / "effects.txt"
        self.effects.write_text("")
        shared = folder / "shared"
        shared.mkdir(exist_ok=True)
        (shared / "notes.txt").write_text("the weir holds")
        self.shared = shared
        mcp = {
            "effects": {"command": [sys.executable, str(SERVERS / "effects.py"), str(self.effects)]},
            "files": filesystem(shared),
        }
        url = f"http://127.0.0.1:{self.model.port}/v1"
        prices = {"script": {"input": 1000, "output": 1000}}
        llm = {"providers": {"main": {"kind": "vllm", "url": url, "prices": prices, "models": ["script"]}}, "routes": {"smart": ["main/script"]}}
        agents = {
            "worker": {"model": "smart", "instructions": "You work.", "tools": ["effects/*", "files/read_text_file"], "steps": 12},
            "talker": {"model": "smart"},
            "short": {"model": "smart", "tools": ["effects/*"], "steps": 3, "time_ms": 60_000},
        }
        runs = {"agents": {**agents, **(more_agents or {})}, **runs}
        self.gateway = Gateway(folder / "weir", mcp, AGENTS, policy, durability=durability, llm=llm, runs=runs, **(settings or {}))

    def __enter__(self):
        self.gateway.start()
        self.ready()
        return self

    def __exit__(self, *_):
        try:
            if self.gateway.process.poll() is None:
                self.gateway.verify()
                self.gateway.stop()
        finally:
            self.model.stop()

    def ready(self):
        """Both servers of tools were seen to work."""
        ready = lambda: self.gateway.request("GET", "/health").json().get("servers", {})
        until(lambda: set(ready().values()) == {"works"}, "servers work")

    def ask(self, method, path, body=None, agent="dev", **fields):
        body = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = self.gateway.headers(agent, **fields)
        headers.setdefault("accept", "application/json")
        if "accept" not in fields:
            headers["accept"] = "application/json"
        return self.gateway.request(method, path, body, headers)

    def start(self, turns, agent="worker", who="dev", fields=None, **more):
        answer = self.ask("POST", "/v1/runs", {"agent": agent, "input": json.dumps(turns), **more}, who, **(fields or {}))
        assert answer.status == 202, (answer.status, answer.body)
        assert answer.headers["location"] == "/v1/runs/" + answer.json()["id"]
        return answer.json()["id"]

    def show(self, run, who="dev"):
        return self.ask("GET", f"/v1/runs/{run}", agent=who).json()

    def ended(self, run):
        shown = lambda: (lambda s: s["state"] in ("completed", "failed", "cancelled") and s)(self.show(run))
        return until(shown, f"{run} ends")

    def events(self, run, after=0):
        return self.ask("GET", f"/v1/runs/{run}/events?after={after}").json()["data"]

    def play(self, turns, **more):
        """Plays a script to its end: the run as it is shown, and its events."""
        run = self.start(turns, **more)
        shown = self.ended(run)
        events = self.events(run)
        assert [event["id"] for event in events] == list(range(1, len(events) + 1))
        return shown, events

    def done(self):
        return self.effects.read_text().split("\n")[:-1]

    def begun(self, turns, **more):
        """Starts a run, and waits until its model was asked."""
        count = lambda: sum("body" in seen for seen in self.model.seen())
        before = count()
        run = self.start(turns, **more)
        until(lambda: count() > before, "the model is asked")
        return run

    def listen(self, run, after=None, who="dev"):
        headers = self.gateway.headers(who, accept="text/event-stream")
        if after is not None:
            headers["last-event-id"] = str(after)
        connection = self.gateway.connect()
        connection.request("GET", f"/v1/runs/{run}/events", headers=headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.getheader("content-type") == "text/event-stream"
        return Listener(connection, response)


class Listener:
    """Reads server-sent events, one after another."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response

    def __iter__(self):
        event = {}
        for line in self.response:
            line = line.decode().rstrip("\n")
            if not line and event:
                yield int(event["id"]), event["event"], json.loads(event["data"])
                event = {}
            elif line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value

    def close(self):
        self.response.close()
        self.connection.close()


def of(events, kind):
    return [event for event in events if event["type"] == kind]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with House(tmp_path_factory.mktemp("runs")) as house:
        yield house


# What a run does


def test_a_run_calls_tools_and_says_its_last_word(house):
    path = str(house.shared / "notes.txt")
    turns = [
        {"reason": "I look first", "say": "I read it.", "calls": [["read_text_file", {"path": path}], ["add", {"text": "first"}]]},
        {"say": "it says the weir holds"},
    ]
    shown, events = house.play(turns)
    assert shown["state"] == "completed" and shown["agent"] == "worker"
    assert shown["usage"] == {"steps": 2, "tool_calls": 2, "input_tokens": 20, "output_tokens": 10, "money_nanos": 30_000_000}
    kinds = [event["type"] for event in events if not event["type"].endswith("delta")]
    assert kinds == ["run.started", "step.started", "message.done", "tool.call", "tool.result", "tool.call", "tool.result",
                     "step.started", "message.done", "run.completed"]
    words = "".join(event["text"] for event in of(events, "text.delta") if event["step"] == 1)
    assert words == "I read it." and of(events, "reasoning.delta")[0]["text"] == "I look first"
    results = of(events, "tool.result")
    assert results[0]["content"] == "the weir holds" and results[1]["content"] == "add did first"
    assert "add first" in house.done()
    result = house.ask("GET", f"/v1/runs/{shown['id']}/result").json()
    assert result["output"] == "it says the weir holds" and result["state"] == "completed"
    transcript = house.ask("GET", f"/v1/runs/{shown['id']}/transcript").json()["messages"]
    assert [m["role"] for m in transcript] == ["user", "assistant", "tool", "tool", "assistant"]
    # What the model was asked: instructions first, and the answers of tools with the ids of their calls.
    bodies = [json.loads(seen["body"]) for seen in house.model.seen() if "body" in seen]
    asked = [body for body in bodies if len(body["messages"]) == 5][-1]
    assert asked["messages"][0] == {"role": "system", "content": "You work."}
    assert [m.get("tool_call_id") for m in asked["messages"][3:]] == ["call_0_0", "call_0_1"]
    names = {tool["function"]["name"] for tool in asked["tools"]}
    assert {"add", "look", "read_text_file"} <= names and "write_file" not in names and "forbidden" not in names


def test_the_log_tells_the_whole_story(house):
    shown, _ = house.play([{"calls": [["add", {"text": "x"}]]}, {"say": "done"}])
    records = [r for r in house.gateway.records() if r.get("run") == shown["id"]]
    asked = [(r["lane"], r["action"], r["decision"]) for r in records if r["action"] not in ("mcp:use", "mcp:list")]
    assert asked.count(("llm", "llm:chat", "pass")) == 2 and asked.count(("mcp", "mcp:call", "pass")) == 1
    assert ("run", "run:start", "pass") in asked
    assert all(r["agent"] == "dev" for r in records)
    shown = house.gateway.weir("audit", "show", "state", "--run", shown["id"]).stdout
    assert "llm:chat" in shown or "chat" in shown


def test_the_stream_at_once_and_a_model_of_ones_own(house):
    body = {"model": "smart", "instructions": "Be brief.", "input": json.dumps([{"say": "hello there"}]), "stream": True}
    answer = house.ask("POST", "/v1/runs", body)
    assert answer.status == 200 and answer.headers["content-type"] == "text/event-stream"
    assert b"event: run.completed" in answer.body
    run = answer.headers["location"].rsplit("/", 1)[1]
    assert house.show(run)["agent"] == "own"


def test_what_is_refused_to_a_tool_goes_to_the_model(house):
    turns = [{"calls": [["forbidden", {"text": "no"}], ["nothing", {}], ["add", "no json"], ["add", "[1]"], ["fail", {}]]},
             {"say": "as you like"}]
    shown, events = house.play(turns)
    assert shown["state"] == "completed"
    results = of(events, "tool.result")
    assert [r["is_error"] for r in results] == [True] * 5
    assert results[0]["code"] == "mcp.item_unknown" and results[1]["code"] == "mcp.item_unknown"
    assert results[2]["code"] == results[3]["code"] == "mcp.json_invalid"
    assert "it does not work" in results[4]["content"]
    assert not any(line.startswith("forbidden") for line in house.done())


def test_a_secret_of_a_tool_is_in_no_event_and_no_prompt(house):
    shown, events = house.play([{"calls": [["leak", {}]]}, {"say": "ok"}])
    transcript = house.ask("GET", f"/v1/runs/{shown['id']}/transcript").body
    assert SECRET not in json.dumps(events) and SECRET.encode() not in transcript
    assert SECRET not in json.dumps(house.model.seen())
    kept = (house.gateway.state / "runs" / f"{shown['id']}.run").read_text()
    assert SECRET not in kept


def test_an_order_of_a_tool_is_refused_or_marked(house):
    _, events = house.play([{"calls": [["order", {}]]}, {"say": "ok"}])
    result = of(events, "tool.result")[0]
    assert result["is_error"] and result["code"].startswith("scan."), result


# Hostile models


def test_the_same_call_again_and_again(house):
    shown, events = house.play([{"calls": [["look", {"text": "same"}]]}])
    assert shown["state"] == "failed" and shown["error"]["code"] == "run.loop"
    assert house.done().count("look same") == 3
    told = [r for r in of(events, "tool.result") if r.get("code") == "run.loop"]
    assert len(told) == 3


@pytest.mark.parametrize("turn, code", [
    ({"nothing": True}, "run.model"),
    ({"bytes": 5 << 20}, "run.model"),
    ({"status": 400}, "llm.provider_failed"),
])
def test_a_model_that_says_nothing_or_too_much(house, turn, code):
    shown, _ = house.play([turn])
    assert shown["state"] == "failed" and shown["error"]["code"] == code, shown


def test_thousands_of_calls_at_once(house):
    shown, events = house.play([{"many": 100}, {"say": "enough"}])
    assert shown["state"] == "completed"
    assert len(of(events, "tool.result")) == 64 and of(events, "refusal")[0]["code"] == "run.model"
    # More than that the lane of models does not judge.
    shown, events = house.play([{"many": 10_000}, {"say": "enough"}])
    assert shown["error"]["code"] == "llm.answer_invalid" and not of(events, "tool.call")


def test_a_provider_that_fails_for_a_moment(house):
    shown, events = house.play([{"status": 503, "fails": 1, "say": "again"}])
    assert shown["state"] == "completed" and len(of(events, "refusal")) == 1


def test_bounds(house):
    calls = [{"calls": [["look", {"text": str(i)}]]} for i in range(9)]
    shown, events = house.play(calls, agent="short")
    assert shown["error"]["code"] == "run.spent" and len(of(events, "step.started")) == 3
    shown, _ = house.play(calls, limits={"tokens": 20})
    assert shown["error"]["code"] == "run.spent" and "tokens" in shown["error"]["message"]
    shown, _ = house.play(calls, limits={"money": 0.02})
    assert shown["error"]["code"] == "run.spent" and "money" in shown["error"]["message"]
    shown, _ = house.play([{"say": "long", "hang": 20}], limits={"time_ms": 700})
    assert shown["error"]["code"] == "run.spent" and "time" in shown["error"]["message"]


# Who may


def test_another_agents_run_is_not_there(house):
    run = house.start([{"say": "mine", "hang": 20}])
    for method, path in [("GET", ""), ("GET", "/events"), ("GET", "/result"), ("GET", "/transcript"), ("POST", "/cancel"), ("DELETE", "")]:
        answer = house.ask(method, f"/v1/runs/{run}{path}", b"" if method == "POST" else None, "other")
        assert (answer.status, answer.refusal()[0]) == (404, "run.unknown"), (method, path)
    assert run not in house.ask("GET", "/v1/runs", agent="other").body.decode()
    assert house.show(run)["state"] == "running"
    assert house.ask("DELETE", f"/v1/runs/{run}").json()["state"] == "cancelled"
    # The thread of another agent is its own.
    body = {"agent": "talker", "input": "x", "thread": "t1", "mode": "steer"}
    assert house.ask("POST", "/v1/runs", body, "other").refusal()[0] == "run.ended"


def test_a_guest_may_read_and_start_nothing(house):
    body = {"agent": "talker", "input": "x"}
    assert house.ask("POST", "/v1/runs", body, "guest").status == 403
    assert house.ask("GET", "/v1/runs", agent="guest").json()["data"] == []
    assert house.ask("GET", "/v1/runs", agent=None).status == 401


def test_a_token_starts_no_run(tmp_path):
    """A token is limited to scopes and a time; a run would go on without them."""
    llm = {"providers": {"main": {"kind": "vllm", "url": "http://127.0.0.1:9/v1"}}}
    with Identities(tmp_path, {"child": child_server()}, llm=llm, runs={"agents": {"talker": {"model": "main/script"}}}) as gate:
        token = gate.token("build", gate.enrol("build"))
        headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        body = json.dumps({"agent": "talker", "input": "x"}).encode()
        answer = gate.request("POST", "/v1/runs", body, headers)
        assert (answer.status, answer.refusal()[0]) == (401, "agent.key_malformed"), answer.body
        assert gate.request("GET", "/v1/runs", headers=headers).json()["data"] == []


@pytest.mark.parametrize("body, status, code", [
    ({"agent": "nobody", "input": "x"}, 404, "run.agent_unknown"),
    ({"input": "x"}, 400, "run.invalid"),
    ({"agent": "worker", "input": []}, 400, "run.invalid"),
    ({"model": "smart", "tools": ["nowhere/*"], "input": "x"}, 400, "run.invalid"),
    ({"agent": "worker", "input": "x", "limits": {"steps": 13}}, 403, "run.limit"),
    ({"agent": "worker", "input": "x", "thread": "none", "mode": "steer"}, 409, "run.ended"),
    (b"{", 400, "run.invalid"),
])
def test_what_cannot_be_started(house, body, status, code):
    answer = house.ask("POST", "/v1/runs", body)
    assert (answer.status, answer.refusal()[0]) == (status, code)
    assert answer.json()["call"] and answer.json()["detail"]


def test_an_unknown_model_fails_the_run(house):
    answer = house.ask("POST", "/v1/runs", {"model": "nowhere/none", "input": "x"})
    assert house.ended(answer.json()["id"])["error"]["code"] == "llm.model_unknown"


def test_one_key_is_one_run(house):
    turns = [{"say": "once"}]
    fields = {"idempotency_key": "k-1"}
    first = house.start(turns, fields=fields)
    assert house.start(turns, fields=fields) == first
    again = house.ask("POST", "/v1/runs", {"agent": "worker", "input": "else"}, idempotency_key="k-1")
    assert (again.status, again.refusal()[0]) == (422, "run.key_reused")
    other = house.start(turns, who="other", fields=fields)
    assert other != first
    # No scan looks at a key: nothing of it is kept.
    run = house.start(turns, fields={"idempotency_key": SECRET})
    assert house.start(turns, fields={"idempotency_key": SECRET}) == run
    assert SECRET not in (house.gateway.state / "runs" / f"{run}.run").read_text()


def test_lists_and_pages(house):
    runs = [house.start([{"say": "one"}], agent="talker") for _ in range(3)]
    for run in runs:
        house.ended(run)
    page = house.ask("GET", "/v1/runs?agent=talker&state=completed&limit=2").json()
    assert [run["id"] for run in page["data"]] == runs[:0:-1] and page["has_more"]
    rest = house.ask("GET", f"/v1/runs?agent=talker&limit=1&before={page['data'][-1]['id']}").json()
    assert rest["data"][0]["id"] == runs[0]
    for query in ("state=odd", "limit=0", "zzz=1", "zzz", "before=none"):
        assert house.ask("GET", f"/v1/runs?{query}").refusal()[0] == "run.invalid", query
    other = house.start([{"say": "one"}], who="other", agent="talker")
    assert house.ask("GET", f"/v1/runs?before={other}").refusal()[0] == "run.invalid", "a run of another agent"
    assert house.ask("GET", f"/v1/runs/{runs[0]}/events?afer=1").refusal()[0] == "run.invalid"
    assert house.ask("GET", f"/v1/runs/{runs[0]}/events?after=999").refusal()[0] == "run.event_unknown"
    first = house.ask("GET", f"/v1/runs/{runs[0]}/events?after=1&limit=1").json()
    assert first["has_more"] and first["data"][0]["id"] == 2 and first["state"] == "completed"


# Listeners


def test_a_listener_that_is_cut_at_every_event(house):
    run = house.start([{"say": "the river is low today and mild", "pace": 0.01}, ])
    heard, last = [], None
    while True:
        listener = house.listen(run, last)
        for last, kind, event in listener:
            heard.append((last, kind))
            break
        listener.close()
        if heard[-1][1] == "run.completed":
            break
    assert [id for id, _ in heard] == list(range(1, len(heard) + 1))
    assert [kind for _, kind in heard] == [event["type"] for event in house.events(run)]


def test_many_listeners_and_one_that_never_reads(house):
    run = house.start([{"bytes": 20_000}])
    house.listen(run)  # Never read.
    counts = []

    def hear():
        counts.append([id for id, _, _ in house.listen(run)])

    threads = [threading.Thread(target=hear) for _ in range(20)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    ids = [event["id"] for event in house.events(run)]
    assert house.ended(run)["state"] == "completed"
    assert len(counts) == 20 and all(count == counts[0] for count in counts)
    assert counts[0] == list(range(1, counts[0][-1] + 1)) and len(ids) == 1_000


# Cancel


def test_a_cancel_closes_the_models_connection(house):
    run = house.begun([{"say": "I think", "hang": 20}])
    gone = sum("gone" in seen for seen in house.model.seen())
    answer = house.ask("POST", f"/v1/runs/{run}/cancel", b"")
    assert answer.status == 200 and answer.json()["state"] == "cancelled"
    until(lambda: sum("gone" in seen for seen in house.model.seen()) > gone, "the model's connection closes", 1)
    # Final states are final, and a second cancel changes nothing.
    count = house.show(run)["events"]
    assert house.ask("DELETE", f"/v1/runs/{run}").json()["state"] == "cancelled"
    assert house.show(run)["events"] == count


def test_a_cancel_reaches_the_tool(house):
    run = house.start([{"calls": [["wait", {"seconds": 20, "text": "c1"}], ["add", {"text": "after c1"}]]}, {"say": "never"}])
    until(lambda: "begun wait c1" in house.done(), "the tool works")
    assert house.ask("DELETE", f"/v1/runs/{run}").json()["state"] == "cancelled"
    until(lambda: "cancelled wait c1" in house.done(), "the tool is told", 5)
    assert "add after c1" not in house.done() and "wait c1" not in house.done()


def test_a_cancel_that_races_the_end_has_one_winner(house):
    for i in range(10):
        run = house.start([{"say": "quick"}], agent="talker")
        time.sleep(random.random() * 0.01)
        answer = house.ask("DELETE", f"/v1/runs/{run}").json()
        final = [e for e in house.events(run) if e["type"] in ("run.completed", "run.cancelled", "run.failed")]
        assert len(final) == 1 and final[0]["type"] == f"run.{answer['state']}"
        assert house.events(run)[-1] == final[0]


# Threads


def test_followup_steer_and_interrupt(house):
    first = house.begun([{"say": "one", "hang": 1}, {"say": "steered"}], agent="talker", thread="t")
    second = house.start([{"say": "never asked"}], agent="talker", thread="t")
    assert house.show(second)["state"] == "queued"
    steer = {"agent": "talker", "input": "and now?", "thread": "t", "mode": "steer"}
    other = house.ask("POST", "/v1/runs", {**steer, "agent": "short"})
    assert (other.status, other.refusal()[0]) == (409, "run.ended"), "it is a run of another agent"
    assert house.ask("POST", "/v1/runs", steer).json()["id"] == first
    assert house.ended(first)["state"] == "completed"
    house.ended(second)
    events = house.events(first)
    assert len(of(events, "message.added")) == 1 and events[-1]["output"] == "steered"
    bodies = [json.loads(seen["body"]) for seen in house.model.seen() if "body" in seen]
    roles = [m["role"] for m in bodies[-1]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"], roles
    third = house.begun([{"say": "long", "hang": 20, "hangs": 1}], agent="talker", thread="u")
    other = house.start([{"say": "long", "hang": 20}], agent="talker", thread="v")
    fourth = house.start([{"say": "x"}], agent="talker", thread="u", mode="interrupt")
    assert house.ended(third)["state"] == "cancelled" and house.show(other)["state"] == "running"
    assert house.ended(fourth)["state"] == "completed"
    said = house.ask("GET", f"/v1/runs/{fourth}/result").json()["output"]
    assert said == "long", "it was given what was said in its thread before"
    house.ask("DELETE", f"/v1/runs/{other}")


# What lasts


def test_a_crash_makes_no_call_twice(tmp_path):
    with House(tmp_path / "house") as house:
        turns = [{"calls": [["add", {"text": "a"}], ["wait", {"seconds": 30, "text": "w"}], ["look", {"text": "l"}]]}, {"say": "over"}]
        run = house.start(turns)
        until(lambda: "begun wait w" in house.done(), "the tool works")
        house.gateway.kill()
        house.gateway.start()
        assert house.ended(run)["state"] == "completed"
        events = house.events(run)
        assert [event["id"] for event in events] == list(range(1, len(events) + 1))
        results = {r["tool"]: r for r in of(events, "tool.result")}
        assert results["wait"]["is_error"] and "not known" in results["wait"]["content"]
        assert house.done().count("add a") == 1 and house.done().count("begun wait w") == 1
        assert house.done().count("look l") == 1 and of(events, "run.resumed")


def test_a_call_that_may_be_repeated_is(tmp_path):
    with House(tmp_path / "house") as house:
        run = house.start([{"calls": [["again", {"seconds": 1, "text": "r"}]]}, {"say": "over"}])
        until(lambda: "begun again r" in house.done(), "the tool works")
        house.gateway.kill()
        house.gateway.start()
        assert house.ended(run)["state"] == "completed"
        assert house.done().count("begun again r") == 2
        assert not of(house.events(run), "tool.result")[0]["is_error"]


def test_sigterm_parks(tmp_path):
    with House(tmp_path / "house") as house:
        run = house.start([{"calls": [["add", {"text": "p"}]]}, {"say": "slow", "hang": 20}, {"say": "slow"}])
        until(lambda: len(of(house.events(run), "step.started")) == 2, "it is asked again")
        listener = house.listen(run)
        began = time.monotonic()
        house.gateway.process.send_signal(signal.SIGTERM)
        heard = [kind for _, kind, _ in listener]
        assert house.gateway.process.wait(10) == 0 and time.monotonic() - began < 5
        assert "run.completed" not in heard
        house.gateway.start()
        until(lambda: house.show(run)["state"] == "running", "it goes on")
        assert house.done().count("add p") == 1
        assert house.ask("DELETE", f"/v1/runs/{run}").json()["state"] == "cancelled"
        kinds = [event["type"] for event in house.events(run)]
        assert "run.parked" in kinds and "run.resumed" in kinds and kinds[-1] == "run.cancelled"


def test_kills_at_random_points(tmp_path):
    """No call that has effects is made twice, none that was acknowledged is lost, and every run ends."""
    with House(tmp_path / "house") as house:
        holds = runs_killed.play(house, 6, 7)
        assert all(holds.values()), holds


def test_a_cancel_at_every_point(house):
    """Behind each event of a script: the model's connection closes at once, the tool is told, and nothing follows."""
    holds = runs_killed.cancel_everywhere(house, 4)
    assert all(holds.values()), holds


def test_a_key_that_is_taken_back_ends_the_run(tmp_path):
    with House(tmp_path / "house") as house:
        run = house.begun([{"say": "slow", "hang": 20}], who="dev")
        file = house.gateway.folder / "weir.yaml"
        config = json.loads(file.read_text())
        key = config["agents"]["dev"]["key"]
        config["agents"]["dev"]["state"] = "suspended"
        file.write_text(json.dumps(config))
        metrics = lambda: 'weir_runs_ended_total{agent="worker",state="failed"} 1' in house.gateway.operator("/metrics").body.decode()
        until(metrics, "the run is ended", 10)
        config["agents"]["dev"] = {"key": key, "groups": ["engineers"]}
        file.write_text(json.dumps(config))
        until(lambda: house.ask("GET", "/v1/runs").status == 200, "the agent is back", 10)
        assert house.show(run)["error"]["code"] == "agent.suspended"


def test_runs_at_once_and_retention(tmp_path):
    with House(tmp_path / "house", at_once=2, agent_at_once=1) as house:
        run = house.start([{"say": "slow", "hang": 20}])
        answer = house.ask("POST", "/v1/runs", {"agent": "talker", "input": "x"})
        assert (answer.status, answer.refusal()[0]) == (503, "run.busy") and answer.headers["retry-after"]
        interrupt = {"agent": "worker", "input": "x", "thread": run, "mode": "interrupt"}
        assert house.ask("POST", "/v1/runs", interrupt).refusal()[0] == "run.busy"
        assert house.show(run)["state"] == "running", "a start that is refused ends nothing"
        second = house.start([{"say": "slow", "hang": 20}], who="other")
        assert house.ask("POST", "/v1/runs", {"agent": "talker", "input": "x"}, "other").refusal()[0] == "run.busy"
        house.ask("DELETE", f"/v1/runs/{run}")
        house.ask("DELETE", f"/v1/runs/{second}", agent="other")


# The command line


def test_the_command_line(house):
    run, _ = house.play([{"say": "from the server"}], agent="talker")
    def weir(*arguments):
        command = [str(WEIR), "runs", *arguments, "--url", f"http://127.0.0.1:{house.gateway.port}"]
        environment = {"WEIR_KEY": house.gateway.keys["dev"], "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, cwd=house.gateway.folder, capture_output=True, text=True, timeout=30, env=environment)
    listed = weir("list")
    assert listed.returncode == 0 and run["id"] in listed.stdout, listed.stderr
    assert "from the server" in weir("show", run["id"]).stdout
    assert "run.completed" in weir("events", run["id"]).stdout
    slow = house.start([{"say": "slow", "hang": 20}], agent="talker")
    cancelled = weir("cancel", slow)
    assert cancelled.returncode == 0 and "cancelled" in cancelled.stdout
    followed = house.start([{"say": "word after word", "pace": 0.02}], agent="talker")
    assert "run.completed" in weir("events", "--follow", followed).stdout
    assert weir("show", "run_nothing").returncode == 1
