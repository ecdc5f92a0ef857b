"""One server behind the gate, started by the client in the server's place: `weir mcp wrap -- COMMAND`."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from gateway import NODE_BIN, SERVERS, WAIT_S, WEIR, Lines, until
from test_clients import code_of, text_of
from test_pins import POISON, Changing, add, subtract

sys.path.insert(0, str(SERVERS))
from parts import INJECTION, SECRET  # noqa: E402

CHILD = [sys.executable, str(SERVERS / "child.py")]
# A wrapping gateway idles at about 70 MB in a debug build; the line that it skips has 64 MB.
PEAK_KB_MAX = 120 << 10
POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);
@id("some") permit (principal in Group::"readers", action == Action::"mcp:call", resource)
  when { ["echo", "inject"].contains(resource.name) };
"""


def records(state):
    """What was recorded, once the log is proven whole."""
    for command in (["audit", "verify", str(state)], ["audit", "show", str(state), "--json"]):
        done = subprocess.run([str(WEIR), *command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def outcomes(state, tool):
    shown = records(state)
    calls = {r["call"] for r in shown if r["kind"] == "judgement" and r.get("tool") == tool}
    return [r["end"] for r in shown if r["kind"] == "outcome" and r["call"] in calls]


def configured(folder, **more):
    (folder / "policy.cedar").write_text(POLICY)
    (folder / "weir.yaml").write_text(json.dumps({"policy": "policy.cedar", "state": "elsewhere", **more}))
    return ["--config", str(folder / "weir.yaml")]


class client:
    """The official client, with weir in the place of the server."""

    def __init__(self, state, command, *options, mode="auto", **callbacks):
        arguments = ["mcp", "wrap", "--state", str(state), *options, "--", *command]
        # What the client hands on reaches the server too.
        env = {"PATH": os.environ["PATH"], "WRAPPED": "handed on"}
        server = StdioServerParameters(command=str(WEIR), args=arguments, env=env)
        self.client = Client(stdio_client(server), mode=mode, **callbacks)

    async def __aenter__(self):
        return await self.client.__aenter__()

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)


class Raw:
    """A client that writes what it likes."""

    def __init__(self, state, command, *options, env=None):
        self.process = subprocess.Popen([str(WEIR), "mcp", "wrap", "--state", str(state), *options, "--", *command],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.out, self.errors = Lines(self.process.stdout), Lines(self.process.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, id=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(message if id is None else {**message, "id": id}).encode() + b"\n")

    def call(self, id, tool, text="", **more):
        self.send("tools/call", id, name=tool, arguments={"text": text}, **more)

    def next(self):
        line = self.out.new.get(timeout=WAIT_S)
        assert line is not None, self.errors.text()
        return json.loads(line)

    def code(self):
        """The id and the refusal's code of the next message."""
        message = self.next()
        return message["id"], message["error"]["data"]["code"]

    def begin(self):
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        self.send("initialize", 0, **hello)
        assert self.next()["result"]["serverInfo"]["name"]
        self.send("notifications/initialized")
        return self

    def rss_peak_kb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1])

    def end(self):
        self.process.stdin.close()
        return self.ended()

    def ended(self):
        code = self.process.wait(WAIT_S)
        assert "panicked" not in self.errors.text(), self.errors.text()
        return code


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_before_an_official_server(tmp_path, mode):
    state, files = tmp_path / "state", tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("mild and dry")
    (files / "b.txt").write_text(f"Weather: mild. {INJECTION}")

    async def script():
        async with client(state, [str(NODE_BIN / "mcp-server-filesystem"), str(files)], mode=mode) as server:
            assert {"read_text_file", "write_file"} <= {tool.name for tool in (await server.list_tools()).tools}
            read = await server.call_tool("read_text_file", {"path": f"{files}/a.txt"})
            assert text_of(read) == "mild and dry"
            leak = server.call_tool("write_file", {"path": f"{files}/c.txt", "content": f"token {SECRET}"})
            assert await code_of(leak) == "scan.secret"
            poisoned = server.call_tool("read_text_file", {"path": f"{files}/b.txt"})
            assert await code_of(poisoned) == "scan.injection"

    asyncio.run(script())
    assert not (files / "c.txt").exists()
    found = {f["rule"] for r in records(state) for f in r.get("findings", [])}
    assert "github_token" in found and len(found) > 1, found
    assert outcomes(state, "read_text_file") == ["complete", "refused"]
    assert SECRET not in "".join(p.read_text(errors="replace") for p in state.rglob("*") if p.is_file())


def test_what_a_bad_server_says(tmp_path):
    state = tmp_path / "state"

    async def script():
        async with client(state, CHILD) as server:
            names = {tool.name for tool in (await server.list_tools()).tools}
            assert "echo" in names and "poisoned" not in names
            leak = text_of(await server.call_tool("leak", {}))
            assert SECRET not in leak and "[redacted:github_token]" in leak
            assert await code_of(server.call_tool("huge", {})) == "mcp.answer_too_large"
            assert text_of(await server.call_tool("echo", {"text": "after"})) == "after"

    asyncio.run(script())
    assert outcomes(state, "huge") == ["failed"]


def test_both_ask_each_other(tmp_path):
    """Sampling, elicitation and roots go from the server to the client and back; progress too."""
    state, seen = tmp_path / "state", []

    async def sample(context, params):
        seen.append("sampling")
        said = TextContent(type="text", text="sampled text")
        return CreateMessageResult(role="assistant", content=said, model="none", stop_reason="endTurn")

    async def elicit(context, params):
        seen.append("elicitation")
        return ElicitResult(action="decline")

    async def roots(context):
        seen.append("roots")
        return ListRootsResult(roots=[Root(uri="file:///tmp/here", name="here")])

    async def progress(done, total, message):
        seen.append(done)

    async def script():
        command = [str(NODE_BIN / "mcp-server-everything"), "stdio"]
        callbacks = {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}
        async with client(state, command, mode="legacy", **callbacks) as server:
            names = {tool.name for tool in (await server.list_tools()).tools}
            assert "trigger-sampling-request" in names, names
            sampled = await server.call_tool("trigger-sampling-request", {"prompt": "say", "maxTokens": 10})
            assert "sampled text" in text_of(sampled)
            await server.call_tool("trigger-elicitation-request", {})
            assert "here" in text_of(await server.call_tool("get-roots-list", {}))
            long = {"duration": 1, "steps": 4}
            await server.call_tool("trigger-long-running-operation", long, progress_callback=progress)

    asyncio.run(script())
    assert {"sampling", "elicitation", "roots"} <= set(seen), seen
    assert [done for done in seen if isinstance(done, (int, float))] == [1, 2, 3, 4]
    assert [r for r in records(state) if r.get("method") == "response"], "the client's answers are calls too"


def test_policies_and_scan_of_a_configuration(tmp_path):
    agents = {"reader": {"key": "sha256:" + "0" * 64, "groups": ["readers"]}}
    options = configured(tmp_path, agents=agents, scan={"injection": "refuse"})
    state = tmp_path / "state"

    async def script():
        async with client(state, CHILD, *options, "--agent", "reader", "--name", "bad") as server:
            assert {tool.name for tool in (await server.list_tools()).tools} == {"echo", "inject"}
            assert await code_of(server.call_tool("leak", {})) == "policy.forbidden"
            assert await code_of(server.call_tool("inject", {})) == "scan.injection"
        async with client(state, CHILD, *options) as server:
            assert not (await server.list_tools()).tools

    asyncio.run(script())
    assert {(r["agent"], r["server"]) for r in records(state) if r.get("tool") == "inject"} == {("reader", "bad")}
    assert not (tmp_path / "elsewhere").exists()


def test_rules_and_policies_are_read_again_while_it_serves(tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    agents = {"reader": {"key": "sha256:" + "0" * 64, "groups": ["readers"]}}
    options = configured(tmp_path, agents=agents, scan={"folder": "rules"}, logs={"level": "info"})
    badge = """
[[rule]]
id = "acme_badge"
class = "secret"
severity = "high"
summary = "A badge number of ours."
reference = "https://intranet.example/badges"
action = "refuse"
literals = ["ACME-"]
regex = 'ACME-\\d{6}'
hits = ["badge ACME-123456"]
misses = ["ACME-12"]
"""
    with Raw(tmp_path / "state", CHILD, *options, "--agent", "reader").begin() as raw:
        ids = iter(range(1, 10_000))

        def answer(text):
            raw.call(next(ids), "echo", text)
            message = raw.next()
            return message["error"]["data"]["code"] if "error" in message else "passed"

        assert answer("ACME-654321") == "passed"
        (rules / "acme.toml").write_text(badge)
        until(lambda: answer("ACME-654321") == "scan.secret", "the rule is in force")
        # One that is not good leaves what is in force.
        (rules / "acme.toml").write_text(badge.replace("123456", "12"))
        until(lambda: "acme.toml:2" in raw.errors.text() and "not reloaded" in raw.errors.text(), "it says why")
        assert answer("ACME-654321") == "scan.secret"
        (rules / "acme.toml").write_text(badge.replace("ACME", "ACNE"))
        until(lambda: answer("ACME-654321") == "passed", "the rule is gone")
        (tmp_path / "policy.cedar").write_text(POLICY.replace('"echo", ', ""))
        until(lambda: answer("hello") == "policy.forbidden", "the policy is in force")
        assert raw.end() == 0
    kinds = {r.get("refusal") for r in records(tmp_path / "state")}
    assert {"scan.secret", "policy.forbidden"} <= kinds


def test_a_stop_that_comes_while_it_serves(tmp_path):
    options = configured(tmp_path, logs={"level": "info"})
    (tmp_path / "policy.cedar").write_text("permit (principal, action, resource);")
    with Raw(tmp_path / "state", CHILD, *options).begin() as raw:
        ids = iter(range(1, 10_000))

        def answer():
            raw.call(next(ids), "echo", "hello")
            message = raw.next()
            return message["error"]["data"]["code"] if "error" in message else "passed"

        assert answer() == "passed"
        (tmp_path / "weir.yaml").write_text(json.dumps({"policy": "policy.cedar", "stop": "agent:local"}))
        until(lambda: answer() == "gate.stopped", "the stop is in force")
        (tmp_path / "weir.yaml").write_text(json.dumps({"policy": "policy.cedar"}))
        until(lambda: answer() == "passed", "the stop is lifted")
        assert raw.end() == 0


def test_a_tool_that_changed_is_held(tmp_path):
    state, server = tmp_path / "state", Changing(tmp_path / "tools", "calc", add(), subtract())
    command = server.command()["command"]

    async def listed():
        async with client(state, command, "--name", "calc") as wrapped:
            return [tool.name for tool in (await wrapped.list_tools()).tools]

    assert asyncio.run(listed()) == ["add", "subtract"]
    server.set(add(POISON), subtract())
    assert asyncio.run(listed()) == ["subtract"]


def test_lines_that_are_no_messages(tmp_path):
    state = tmp_path / "state"
    with Raw(state, CHILD, *configured(tmp_path, limits={"body_bytes_max": 4096})) as weir:
        weir.begin()
        weir.write(b"\n  \r\nnot JSON\n")
        assert weir.code() == (None, "mcp.json_invalid")
        weir.write(b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":1,"x":2}}\n')
        assert weir.code() == ("a", "mcp.json_duplicate")
        weir.write(b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":\n')
        assert weir.code() == (5, "mcp.json_invalid")
        weir.write(b'[{"jsonrpc":"2.0","id":6,"method":"ping"}]\n')
        assert weir.code() == (None, "mcp.batch")
        big = json.dumps({"method": "tools/call", "params": {"id": 1, "x": "y" * (64 << 20)}, "jsonrpc": "2.0", "id": 7})
        weir.write(big.encode() + b"\n")
        assert weir.code() == (7, "http.body_too_large")
        # A line break of another kind inside a message makes no second message.
        weir.write(b'{"jsonrpc":"2.0","id":8,\r"method":"ping"}\r\n')
        assert weir.next() == {"jsonrpc": "2.0", "id": 8, "result": {}}
        assert weir.rss_peak_kb() < PEAK_KB_MAX
        assert weir.end() == 0
    refused = [r["refusal"] for r in records(state) if r.get("decision") == "refuse"]
    assert refused == ["mcp.json_invalid", "mcp.json_duplicate", "mcp.json_invalid", "mcp.batch", "http.body_too_large"]


def test_calls_under_way_when_the_child_ends(tmp_path):
    state = tmp_path / "state"
    with Raw(state, CHILD) as weir:
        weir.begin().call(1, "never")
        weir.call(1, "never")
        assert weir.code() == (1, "mcp.id_in_use")
        weir.call(2, "die")
        assert sorted([weir.code(), weir.code()]) == [(1, "mcp.server_down"), (2, "mcp.server_down")]
        # The server's exit code is ours.
        assert weir.ended() == 3
        assert "misbehaving server started" in weir.errors.text()
    assert outcomes(state, "die") == ["failed"]


def test_a_cancelled_call_is_over(tmp_path):
    state = tmp_path / "state"
    with Raw(state, CHILD) as weir:
        weir.begin().call(1, "never")
        weir.send("notifications/cancelled", requestId=1)
        weir.call(2, "echo", "after")
        assert weir.next()["id"] == 2
        assert weir.end() == 0
    assert outcomes(state, "never") == ["cut"]


def test_the_end_of_input_ends_a_child_that_stays(tmp_path):
    stays = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" \
            "print(os.getpid(), file=sys.stderr, flush=True)\nwhile True: time.sleep(60)"
    for stop in (lambda weir: weir.process.stdin.close(), lambda weir: weir.process.send_signal(signal.SIGTERM)):
        with Raw(tmp_path / "state", [sys.executable, "-c", stays]) as weir:
            pid = int(weir.errors.new.get(timeout=WAIT_S))
            stop(weir)
            assert weir.ended() == 0
            assert not Path(f"/proc/{pid}").exists()
    records(tmp_path / "state")


def test_a_signal_lets_calls_end(tmp_path):
    state = tmp_path / "state"
    slow = "import sys, json\nfor line in sys.stdin:\n  m = json.loads(line)\n  open(sys.argv[1], 'w').close()\n" \
           "  open(sys.argv[2]).read()\n  print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': {}}), flush=True)"
    began, go = tmp_path / "began", tmp_path / "go"
    os.mkfifo(go)
    with Raw(state, [sys.executable, "-c", slow, str(began), str(go)]) as weir:
        weir.send("ping", 1)
        until(began.exists, "the call reached the server")
        weir.process.send_signal(signal.SIGTERM)
        go.write_text("")
        assert weir.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert weir.ended() == 0
    ends = [r["end"] for r in records(state) if r["kind"] == "outcome"]
    assert ends == ["complete", "complete"]


def test_what_the_child_gets_of_the_environment(tmp_path):
    show = "import json, os; print(json.dumps({'jsonrpc': '2.0', 'method': 'env', 'params': dict(os.environ)}), flush=True)"
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "ONE": "1", "TWO": "2"}
    for options, names in [([], {"PATH", "HOME", "ONE", "TWO"}), (["--env", "ONE"], {"PATH", "HOME", "ONE"}),
                           (["--clean-env"], {"PATH", "HOME"})]:
        with Raw(tmp_path / "state", [sys.executable, "-c", show], *options, env=env) as weir:
            got = set(weir.next()["params"])
            assert got - {"LC_CTYPE"} == names
            assert weir.ended() == 0


def test_two_at_once_have_a_log_each(tmp_path):
    state = tmp_path / "state"
    with Raw(state, CHILD) as one, Raw(state, CHILD) as two:
        one.begin().call(1, "echo", "one")
        two.begin().call(1, "echo", "two")
        assert "one" in str(one.next()) and "two" in str(two.next())
        assert one.end() == 0 and two.end() == 0
    assert len(records(state / "log")) == len(records(state / "log.2")) > 4


def test_what_cannot_be_wrapped(tmp_path):
    state = str(tmp_path / "state")

    def wrap(*arguments):
        return subprocess.run([str(WEIR), "mcp", "wrap", "--state", state, *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)

    folder, plain, script = tmp_path / "folder", tmp_path / "plain", tmp_path / "script"
    folder.mkdir()
    plain.write_text("no program")
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    # As a shell has it: 127 for what is not there, 126 for what cannot be executed.
    for program, code in [("no-such-program-here", 127), (str(tmp_path / "nowhere"), 127), (str(folder), 126),
                          (str(plain), 126)]:
        ended = wrap("--", program)
        assert ended.returncode == code and program in ended.stderr and not ended.stdout, ended
    assert not Path(state).exists()
    assert wrap("--", str(script)).returncode == 127
    (tmp_path / "bad.yaml").write_text("polcy: x\n")
    wrong = wrap("--config", str(tmp_path / "bad.yaml"), "--", "cat")
    assert wrong.returncode == 2 and "policy" in wrong.stderr and not wrong.stdout
    (tmp_path / "none.cedar").write_text("forbid (principal, action, resource);")
    (tmp_path / "none.yaml").write_text("policy: none.cedar\n")
    no = wrap("--config", str(tmp_path / "none.yaml"), "--", "cat")
    assert no.returncode == 1 and not no.stdout, no.stderr
    (tmp_path / "all.cedar").write_text("permit (principal, action, resource);")
    for stop in ["all", "lane:mcp", "agent:local"]:
        (tmp_path / "stop.yaml").write_text(f"policy: all.cedar\nstop: {stop}\n")
        stopped = wrap("--config", str(tmp_path / "stop.yaml"), "--", "cat")
        assert stopped.returncode == 1 and "stop" in stopped.stderr and not stopped.stdout, stopped
    assert wrap("cat").returncode == 2


def test_a_client_that_reads_no_more_ends_what_it_asked_for(tmp_path):
    state = tmp_path / "state"
    process = subprocess.Popen([str(WEIR), "mcp", "wrap", "--state", str(state), "--", *CHILD],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    try:
        # Its standard input stays open: it asks, and does not read the answer.
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "never", "arguments": {}}}
        for message in (call, {"jsonrpc": "2.0", "id": 2, "method": "ping"}):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
    assert outcomes(state, "never") == ["cut"]


def test_a_call_that_its_client_cancels_is_recorded_as_such(tmp_path):
    state = tmp_path / "state"
    with Raw(state, CHILD) as raw:
        raw.begin()
        raw.call("slow", "never")
        raw.send("notifications/cancelled", requestId="slow")
        raw.send("ping", "after")
        assert raw.next()["id"] == "after"
        raw.end()
    [call] = {r["call"] for r in records(state) if r["kind"] == "judgement" and r.get("tool") == "never"}
    [outcome] = [r for r in records(state) if r["kind"] == "outcome" and r["call"] == call]
    assert (outcome["end"], outcome["why"]) == ("cut", "mcp.cancelled")
