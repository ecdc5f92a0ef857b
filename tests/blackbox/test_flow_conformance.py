"""The official conformance suite against work tracking itself, over HTTP, in both eras: those scenarios that need no fixture's
tools, as for code search."""

import json

import pytest

from test_code_conformance import APPLY, suite, wants_fixture
from test_flow import Http, flow


@pytest.mark.parametrize("revision, scenario", [(revision, name) for revision, names in APPLY.items() for name in names])
def test_conformance(tmp_path, revision, scenario):
    flow(tmp_path / "flow", "add", "something", "--project", "P")
    with Http(tmp_path / "flow") as server:
        done = suite("server", "--url", server.url, "--scenario", scenario, "--spec-version", revision, "-o", tmp_path / "out")
    checks = [check for path in sorted((tmp_path / "out").rglob("checks.json")) for check in json.loads(path.read_text())]
    checks = [check for check in checks if not wants_fixture(check)]
    wrong = [check for check in checks if check["status"] not in ("SUCCESS", "INFO", "SKIPPED")]
    assert not wrong, (wrong, done.stdout[-3000:], done.stderr[-1000:])
    assert any(check["status"] == "SUCCESS" for check in checks), done.stdout[-3000:]
