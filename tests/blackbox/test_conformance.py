"""The official conformance suite through the gateway: each check has to come out as it does without the gateway.

The suite runs against the fixture itself, through the gateway to the fixture over HTTP, and to the fixture as a child.
The direct run has to be without failure or warning; the other two have to equal it, check by check, with the text of
each error and, outside the transport's own scenarios, with what the server answered. The settings are the defaults and
the policy permits all, so that a scan which refuses the fixture's content shows as well.
"""

import collections
import json
import re
import socket
import subprocess
import sys
import threading

import pytest

from forward import Forwarder
from gateway import SERVERS, Gateway
from test_code_conformance import suite

FIXTURE = SERVERS / "everything.py"
# Revision: how the suite is asked for it, how many scenarios it has and how many checks pass.
REVISIONS = {
    "2026-07-28": (["--requirements", "2026-07-28"], 50, 164),
    "2025-11-25": (["--requirements", "2025-11-25"], 33, 84),
    "2025-06-18": (["--spec-version", "2025-06-18"], 27, 56),
    "2025-03-26": (["--spec-version", "2025-03-26"], 1, 3),
}
# The suite writes down what it sends and receives as checks of these names; they judge nothing.
TRACE = {"outgoing-request", "incoming-response", "incoming-sse-event", "stream-closed"}
# The extension of tasks, which the fixture does not have; the suite does not score it.
EXTENSION = "tasks-"
# The details of these scenarios are addresses, session ids and headers, which a gateway has its own of.
TRANSPORT = ("server-", "dns-", "http-")
# The gateway refuses a state that was altered itself, in its own words.
OWN = {"sep-2322-reject-tampered-state"}
# A server on standard input and output sends no events, so that the gateway may answer JSON: these checks of a stream
# then say so, or are left out.
CHILD_MAY_DIFFER = {
    ("server-sse-multiple-streams", "server-sse-streams-functional"),
    ("server-sse-polling", "server-sse-content-type"),
    ("server-sse-polling", "server-sse-priming-event"),
    ("server-sse-polling", "server-sse-retry-field"),
    ("server-sse-polling", "server-sse-disconnect-resume"),
}
# A child of the gateway that gives its standard input and output to the fixture, which is running already.
LENDER = """
import socket, sys
with socket.socket(socket.AF_UNIX) as fixture:
    fixture.connect(sys.argv[1])
    socket.send_fds(fixture, [b"."], [0, 1])
    fixture.recv(1)
"""

Check = collections.namedtuple("Check", "scenario id name status error details")


def started(*arguments):
    """The fixture as a process, and the line that it prints once it can be called."""
    command = [sys.executable, str(FIXTURE), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    return process, process.stdout.readline().strip()


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    """Where the suite finds the fixture: `direct`, and through the gateway as `web` and as `child`."""
    folder = tmp_path_factory.mktemp("suite")
    fixture, url = started("--port", 0)
    lent, path = started("--forks", folder / "fixture")
    child = {"command": [sys.executable, "-I", "-S", "-c", LENDER, path]}
    try:
        with Gateway(folder / "weir", {"web": {"url": url}, "child": child}) as gateway, \
                Forwarder(gateway.port, gateway.keys["dev"]) as forwarder:
            yield {"direct": url, "web": forwarder.url("/mcp/web"), "child": forwarder.url("/mcp/child")}
    finally:
        for process in (fixture, lent):
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.fixture(scope="module")
def checks_of(urls, tmp_path_factory):
    """The checks of a run, by where and revision; each run is made once."""
    runs = {}

    def run(where, revision):
        if (where, revision) not in runs:
            folder = tmp_path_factory.mktemp(where)
            arguments = REVISIONS[revision][0]
            done = suite("server", "--url", urls[where], *arguments, "-o", folder)
            runs[where, revision] = checks_in(folder), done
        return runs[where, revision]

    return run


def checks_in(folder):
    checks = []
    for path in sorted(folder.rglob("checks.json")):
        scenario = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)[1]
        for check in json.loads(path.read_text()):
            if check["id"] in TRACE and check["status"] == "INFO":
                continue
            own = scenario.startswith(TRANSPORT) or check["id"] in OWN
            details = None if own else json.dumps(masked(check.get("details")), sort_keys=True)
            checks.append(Check(scenario, check["id"], check["name"], check["status"], check.get("errorMessage"), details))
    return checks


def masked(details):
    """What a check saw, without the state of a question: the gateway seals it, and a server's differs from run to run."""
    if isinstance(details, dict):
        return {key: "…" if key == "requestState" else masked(value) for key, value in details.items()}
    return [masked(item) for item in details] if isinstance(details, list) else details


def listed(revision):
    """The scenarios that the suite says it has for a revision."""
    scenarios = re.findall(r"^  - (\S+) \[(.*)\]$", suite("list", "--server").stdout, re.M)
    said = {name for name, revisions in scenarios if revision in revisions.split(",")}
    extension = {name for name, revisions in scenarios if revisions == "extension" and name.startswith(EXTENSION)}
    # It is of the newest revision, whose requirements ask for it beside what they score.
    return said | extension if revision == "2026-07-28" else said


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_fixture_itself(checks_of, revision):
    checks, done = checks_of("direct", revision)
    _, scenarios, passed = REVISIONS[revision]
    wrong = [check for check in checks if check.status not in ("SUCCESS", "INFO")]
    wrong = [check for check in wrong if not check.scenario.startswith(EXTENSION)]
    assert not wrong and done.returncode == 0, (wrong, done.stdout[-3000:], done.stderr[-1000:])
    assert {check.scenario for check in checks} == listed(revision)
    assert len(listed(revision)) == scenarios
    assert sum(check.status == "SUCCESS" for check in checks) == passed


# What a child changes is the same for all revisions of its era: of each era one goes by both ways.
@pytest.mark.parametrize(
    ("where", "revision"), [*(("web", revision) for revision in REVISIONS), ("child", "2026-07-28"), ("child", "2025-11-25")])
def test_through_the_gateway(checks_of, where, revision):
    direct, _ = checks_of("direct", revision)
    through, done = checks_of(where, revision)
    assert {check.scenario for check in through} == listed(revision), done.stdout[-3000:]
    before, after = collections.Counter(direct), collections.Counter(through)
    may_differ = CHILD_MAY_DIFFER if where == "child" else set()
    lost = [check for check in (before - after).elements() if (check.scenario, check.id) not in may_differ]
    new = [check for check in (after - before).elements() if (check.scenario, check.id) not in may_differ]
    assert not lost and not new, "\n".join(["direct only:", *map(str, lost), "through the gateway only:", *map(str, new)])
    # What may differ may not be a failure or a warning either.
    wrong = [check for check in through if check.status not in ("SUCCESS", "INFO") and check not in before]
    assert not wrong, wrong


def test_the_forwarder_streams():
    """Each piece arrives before the next is sent, in both directions: the far end gives back one line after the other."""
    def echo(listener):
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            head = []
            while (line := stream.readline()) != b"\r\n":
                head.append(line.decode().strip())
            stream.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n" + "|".join(head).encode() + b"\n")
            stream.flush()
            for line in stream:
                stream.write(line)
                stream.flush()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = listener.getsockname()[1]
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        with Forwarder(far, "weir_key") as forwarder, socket.create_connection(("127.0.0.1", forwarder.port), 20) as client:
            own = f"127.0.0.1:{forwarder.port}"
            head = f"POST /mcp/web HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.sendall(head.encode())
            answer = client.makefile("rb")
            while answer.readline() != b"\r\n":
                pass
            assert answer.readline().decode().strip().split("|") == [
                "POST /mcp/web HTTP/1.1", "authorization: Bearer weir_key", "connection: close",
                f"host: 127.0.0.1:{far}", f"origin: http://127.0.0.1:{far}", "transfer-encoding: chunked"]
            for line in (b"one\n", b"two\n", b"three\n"):
                client.sendall(line)
                assert answer.readline() == line
