"""The official suite's scenarios for clients, with weir as the client: the suite's server, weir before it, the SDK before weir.

Each scenario runs with the SDK alone first and has to pass, then through the gateway, where each check has to come out
as it did. Left out are `auth/`, since weir reaches its servers with tokens of the configuration and asks no
authorization server, and extensions.
"""

import concurrent.futures
import json
import re
import sys
from pathlib import Path

import pytest

from gateway import WEIR
from test_code_conformance import suite
from test_conformance import TRACE

CLIENT = Path(__file__).parent / "clients/suited.py"
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


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The runs, by weir or `direct`, scenario and revision. A run waits more than it works, so there are several at once."""
    def run(weir, scenario, revision):
        folder = tmp_path_factory.mktemp("client")
        done = suite("client", "--command", f"{sys.executable} {CLIENT} {weir}", "--scenario", scenario,
                     "--spec-version", revision, "-o", folder)
        checks = [check for path in folder.rglob("checks.json") for check in json.loads(path.read_text())]
        return done, [check for check in checks if check["status"] != "INFO" and check["id"] not in TRACE]

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {(weir, *one): pool.submit(run, weir, *one) for one in SCENARIOS for weir in ("direct", WEIR)}


def named(checks):
    return {(check["id"], check["name"]): check["status"] for check in checks}


def is_of_finding_out(scenario, check):
    details = check.get("details") or {}
    method = details.get("method") or details.get("expectedMethod")
    return (scenario, check["id"]) in FOUND_OUT and method == "initialize"


@pytest.mark.parametrize("scenario, revision", SCENARIOS)
def test_weir_as_a_client(results, scenario, revision):
    done, alone = results["direct", scenario, revision].result()
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-2000:])
    assert "SUCCESS" in named(alone).values()
    done, through = results[WEIR, scenario, revision].result()
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
