"""The official suite's scenarios for clients, with weir as the client: the suite's server, weir before it, the SDK before weir.

Each scenario runs with the SDK alone first and has to pass, then through the gateway, where each check has to come out
as it did. Left out are `auth/`, since weir reaches its servers with tokens of the configuration and asks no
authorization server, and extensions.
"""

import asyncio
import concurrent.futures
import contextlib
import json
import re
import socket
import sys
import threading
import traceback

import pytest

from clients.suited import play
from gateway import Gateway, until
from test_code_conformance import suite
from test_conformance import TRACE

SCENARIOS = [
    ("elicitation-sep1034-client-defaults", "2025-11-25"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("initialize", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("request-metadata", "2026-07-28"),
    ("sep-2322-client-request-state", "2026-07-28"),
    ("sse-retry", "2025-11-25"),
    ("tools_call", "2025-06-18"),
    ("tools_call", "2026-07-28"),
]
# Weir finds out what a server speaks by asking it as a client of each era. The `initialize` of the older one is judged here by
# the rules of 2026-07-28; the suite writes the method down, and a later request that failed would stand in its place.
FOUND_OUT = {
    ("request-metadata", "sep-2575-http-client-sends-version-header"),
    ("request-metadata", "sep-2575-client-populates-meta"),
    ("request-metadata", "sep-2575-client-sends-client-info"),
    ("http-standard-headers", "sep-2243-client-includes-standard-headers"),
}
AT_ONCE = 3
# The command that the suite starts as a client: it tells these tests, which have the SDK loaded, and ends as they say.
SENDER = """
import json, os, socket, sys
given = {name: value for name, value in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    client.sendall(json.dumps([sys.argv[-1], given]).encode())
    client.shutdown(socket.SHUT_WR)
    said = client.makefile().read()
sys.exit(said or None)
"""


class Suited:
    """The client of one run, with weir before the suite's server or without. Use it as a context."""

    def __init__(self, folder, through):
        self.folder, self.through = folder, through

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / "client"))
        self.listener.listen()
        (self.folder / "sender.py").write_text(SENDER)
        self.command = f"{sys.executable} -I -S {self.folder / 'sender.py'} {self.folder / 'client'}"
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        connection, _ = self.listener.accept()
        with connection:
            url, given = json.loads(connection.makefile().read())
            try:
                self.play(url, given)
            except BaseException:
                connection.sendall(traceback.format_exc().encode())

    def play(self, url, given):
        scenario, revision = given["MCP_CONFORMANCE_SCENARIO"], given["MCP_CONFORMANCE_PROTOCOL_VERSION"]
        context, headers = json.loads(given.get("MCP_CONFORMANCE_CONTEXT", "{}")), {}
        with contextlib.ExitStack() as ending:
            if self.through:
                gateway = ending.enter_context(Gateway(self.folder / "weir", {"suite": {"url": url}}))
                until(lambda: gateway.request("GET", "/health").json()["servers"]["suite"] == "works", "the server works")
                url, headers = gateway.url("suite"), {"authorization": f"Bearer {gateway.keys['dev']}"}
            asyncio.run(play(scenario, revision, context, url, headers))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The runs, by scenario, revision and whether weir is between. A run waits more than it works, so there are several at once."""
    def run(scenario, revision, through):
        folder = tmp_path_factory.mktemp("client")
        with Suited(folder, through) as client:
            done = suite("client", "--command", client.command, "--scenario", scenario, "--spec-version", revision,
                         "-o", folder / "out")
        checks = [check for path in folder.rglob("checks.json") for check in json.loads(path.read_text())]
        return done, [check for check in checks if check["status"] != "INFO" and check["id"] not in TRACE]

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {(*one, through): pool.submit(run, *one, through) for one in SCENARIOS for through in (False, True)}


def named(checks):
    return {(check["id"], check["name"]): check["status"] for check in checks}


def is_of_finding_out(scenario, check):
    details = check.get("details") or {}
    method = details.get("method") or details.get("expectedMethod")
    return (scenario, check["id"]) in FOUND_OUT and method == "initialize"


@pytest.mark.parametrize("scenario, revision", SCENARIOS)
def test_weir_as_a_client(results, scenario, revision):
    done, alone = results[scenario, revision, False].result()
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-2000:])
    assert "SUCCESS" in named(alone).values()
    done, through = results[scenario, revision, True].result()
    assert "CLIENT EXITED WITH ERROR" not in done.stderr and "TIMED OUT" not in done.stderr, done.stderr[-3000:]
    through = [check for check in through if not is_of_finding_out(scenario, check)]
    wrong = [check for check in through if check["status"] not in ("SUCCESS", "SKIPPED")]
    assert not wrong, (wrong, done.stderr[-2000:])
    before, after = named(alone), named(through)
    lost = {check for check, status in before.items() if status == "SUCCESS" and after.get(check) != status}
    assert all((scenario, check) in FOUND_OUT for check, _ in lost), (lost, after)


def test_every_scenario_is_here():
    listed = suite("list", "--client").stdout
    scenarios = re.findall(r"^  - (\S+) \[(.*)\]$", listed, re.M)
    wanted = {name for name, revisions in scenarios if revisions != "extension" and not name.startswith("auth/")}
    assert wanted == {name for name, _ in SCENARIOS}
