"""What child servers leave behind: nothing of it lives on, whatever ends first."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import SERVERS, WEIR, Gateway, until

# A server, one process in its group, one in a session of its own, one forked twice.
PROCESSES = 4


def server(file, *more):
    return {"command": [sys.executable, str(SERVERS / "leaves.py"), str(file), *more]}


def pids(file):
    """The process ids that servers wrote, by what they are."""
    found = {}
    for text in file.read_text().splitlines() if file.exists() else []:
        what, pid = text.split()
        found.setdefault(what, []).append(int(pid))
    return found


def all_pids(file):
    return sorted(sum(pids(file).values(), []))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def living(file):
    return [pid for pid in all_pids(file) if alive(pid)]


def end(file):
    """Ends what a failed test left."""
    for pid in living(file):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def ground(tmp_path):
    """A gateway with one session; the server that was asked at the start whether it works has ended, with all it left."""
    file = tmp_path / "pids"
    gateway = Gateway(tmp_path / "gateway", {"leaves": server(file)}).start()
    try:
        until(lambda: len(all_pids(file)) == PROCESSES, "the server that is asked whether it works")
        until(lambda: not living(file), "it and all that it started end")
        session = gateway.session("leaves")
        until(lambda: len(all_pids(file)) == 2 * PROCESSES, "the server of the session")
        assert len(living(file)) == PROCESSES, pids(file)
        yield gateway, session, file
    finally:
        gateway.kill()
        end(file)


def test_a_session_that_ends(ground):
    gateway, session, file = ground
    ended = gateway.request("DELETE", "/mcp/leaves", None, gateway.headers(**session.extra))
    assert ended.status in (200, 202, 204), ended.body
    until(lambda: not living(file), "all that the server started end")
    # The gateway has no dead children either: its guards are waited for.
    until(lambda: not children_of(gateway.process.pid), "the guards end")


def test_a_gateway_that_is_stopped(ground):
    gateway, _, file = ground
    gateway.stop()
    until(lambda: not living(file), "all that the server started end")


def test_a_gateway_that_is_killed(ground):
    gateway, _, file = ground
    gateway.kill()
    until(lambda: not living(file), "all that the server started end")


def test_a_server_that_dies(ground):
    _, session, file = ground
    answer = session.call("die")
    assert answer.refusal()[0] == "mcp.server_down", answer.body
    until(lambda: not living(file), "all that the server started end")


def test_a_server_that_stays(tmp_path):
    """Nothing of it listens to SIGTERM."""
    file = tmp_path / "pids"
    gateway = Gateway(tmp_path / "gateway", {"leaves": server(file, "stays")}).start()
    try:
        gateway.session("leaves")
        until(lambda: len(all_pids(file)) == 2 * PROCESSES, "both servers")
        gateway.kill()
        until(lambda: not living(file), "all that the servers started end")
    finally:
        gateway.kill()
        end(file)


def test_a_guard_that_is_killed(ground):
    """The server ends with it, and what is in the server's group; what left the group cannot be found any more."""
    gateway, session, file = ground
    found = pids(file)
    guard = parent(found["server"][-1])
    assert parent(guard) == gateway.process.pid, found
    os.kill(guard, signal.SIGKILL)
    until(lambda: not alive(found["server"][-1]), "the server ends")
    until(lambda: not alive(found["group"][-1]), "its group ends")
    # The session goes on with another.
    def works():
        return b'"result"' in session.call("echo").body
    until(works, "the session's next server")


def test_a_wrapped_server(tmp_path):
    file = tmp_path / "pids"
    command = server(file)["command"]
    def begun():
        process = subprocess.Popen([str(WEIR), "mcp", "wrap", "--state", str(tmp_path / "state"), "--", *command],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert b'"result"' in process.stdout.readline()
        return process
    ways = (lambda process: process.stdin.close(), lambda process: process.terminate(), lambda process: process.kill())
    for round, stop in enumerate(ways, 1):
        process = begun()
        try:
            until(lambda: len(all_pids(file)) == round * PROCESSES, "the server")
            stop(process)
            until(lambda: not living(file), "all that the server started end")
            process.wait(20)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            end(file)


def test_a_program_that_cannot_be_started(tmp_path):
    """It is said why, and nothing waits for it."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with Gateway(tmp_path / "gateway", {"broken": {"command": [str(broken)]}}) as gateway:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
        answer = gateway.post("broken", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        assert answer.refusal()[0] == "mcp.server_down", answer.body
        until(lambda: "cannot be started" in gateway.logs.text(), "the reason in the log")


def children_of(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


# What a server says that complains of secrets, and that lists a tool twice. No scanner takes this file for a leak.
COMPLAINS = """
import json, sys
SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"
LINES = ["started with " + SECRET, "weir_" + "KwJ99LwK3zohb4Ouc0vC" + "o34eK4dMEiYw0q1y9ZlMA3p is my key", "x" * 1010 + " " + SECRET, "-----BEGIN EC PRIVATE KEY-----",
         "MHcCAQEEIIGQ3sdW8Hh", "AwEHoUQDQgAE7", "-----END EC PRIVATE KEY-----", "and all is well"]
for line in LINES:
    print(line, file=sys.stderr, flush=True)
TOOLS = [{"name": "one", "description": "Says one.", "inputSchema": {"type": "object"}},
         {"name": "two", "description": "Says two.", "inputSchema": {"type": "object"}},
         {"description": "Says one.", "name": "one", "inputSchema": {"type": "object"}},
         {"name": "two", "description": "Says more than two.", "inputSchema": {"type": "object"}},
         {"name": "three", "inputSchema": {"type": "object"}}]
for text in sys.stdin:
    message = json.loads(text)
    method, result = message.get("method"), {}
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "c", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif "id" not in message:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_what_a_server_complains_of_is_logged_without_secrets_and_a_name_is_listed_once(tmp_path):
    program = tmp_path / "complains.py"
    program.write_text(COMPLAINS)
    with Gateway(tmp_path / "weir", {"child": {"command": [sys.executable, str(program)]}}) as gateway:
        listed = gateway.session("child").ask("tools/list", {}).messages()[-1]["result"]["tools"]
        # The same twice is there once, and of two that differ the first.
        assert [(tool["name"], tool.get("description")) for tool in listed] == [("one", "Says one."), ("two", "Says two."), ("three", None)]
        until(lambda: "and all is well" in gateway.logs.text(), "its last line")
        said = gateway.logs.text()
        assert "[redacted:aws_access_key" in said and "[redacted:weir_key]" in said and said.count("[secret]") >= 4
        for secret in ("AKIAZ7QK3M5T2W8", "KwJ99LwK3zohb4", "MHcCAQEE", "AwEHoUQ"):
            assert secret not in said, secret
        assert "two different items of one name" in said
