"""The scan's configuration under a running gateway: files are read again when they change, all or nothing."""

import json
import os
import re
import signal

import pytest

from gateway import Gateway, until

RULE = r"""
[[rule]]
id = "acme_badge"
class = "secret"
severity = "high"
summary = "A badge number of ours."
reference = "https://intranet.example/badges"
action = "refuse"
literals = ["ACME-"]
regex = 'ACME-\d{6}'
hits = ["badge ACME-123456"]
misses = ["ACME-12"]
"""
OTHER = RULE.replace("acme_badge", "acme_door").replace("ACME-", "DOOR-")
BADGE, DOOR = "the badge is ACME-654321", "the door is DOOR-654321"
VALUE = "correct-horse-battery-staple"


def call(gateway, text, agent="dev", server="web"):
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call",
               "params": {"name": "echo", "arguments": {"text": text}}}
    return gateway.post(server, message, agent)


def refused(gateway, text, code="scan.secret", **more):
    answer = call(gateway, text, **more)
    return b'"result"' not in answer.body and answer.refusal()[0] == code


def passes(gateway, text, **more):
    return b'"result"' in call(gateway, text, **more).body


def reloads(gateway, result):
    page = gateway.operator("/metrics").body.decode()
    lines = [line for line in page.splitlines() if line.startswith(f'weir_reloads_total{{result="{result}"}}')]
    return int(lines[0].split()[-1]) if lines else 0


def rewrite(gateway, **changes):
    """Writes the configuration anew, as an editor does: beside it, and then in its place."""
    path = gateway.folder / "weir.yaml"
    config = {**json.loads(path.read_text()), **changes}
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(config, indent=1))
    os.replace(beside, path)


@pytest.fixture
def running(origin, tmp_path):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "own.toml").write_text(RULE)
    (tmp_path / "secrets.txt").write_text(f"# ours\n{VALUE}\n")
    scan = {"folder": "rules", "values": ["file:secrets.txt"]}
    agents = {"dev": {"groups": ["engineers"]}, "guest": {"groups": ["guests"]}}
    with Gateway(tmp_path, {"web": {"url": origin.url}}, agents, scan=scan) as gateway:
        yield gateway
        gateway.verify()


def test_a_changed_rule_file_is_in_force_without_a_restart(running):
    assert refused(running, BADGE) and passes(running, DOOR)
    (running.folder / "rules" / "more.toml").write_text(OTHER)
    until(lambda: refused(running, DOOR), "the new file's rule refuses")
    assert refused(running, BADGE)
    (running.folder / "rules" / "own.toml").unlink()
    until(lambda: passes(running, BADGE), "a rule whose file is gone is gone")
    assert refused(running, DOOR)
    assert reloads(running, "done") >= 2 and reloads(running, "refused") == 0


def test_a_bad_rule_file_leaves_what_is_in_force(running):
    path = running.folder / "rules" / "own.toml"
    path.write_text(RULE.replace(r"\d{6}", r"\d+") + OTHER)
    until(lambda: reloads(running, "refused") == 1, "the bad file is refused")
    assert refused(running, BADGE) and passes(running, DOOR)
    told = running.logs.text()
    assert "own.toml:2" in told and "acme_badge" in told and "has no bound" in told, told
    checked = running.weir("config", "check", check=False)
    assert checked.returncode == 1 and "own.toml:2" in checked.stderr
    path.write_text(RULE + OTHER)
    until(lambda: refused(running, DOOR), "the mended file is in force")
    assert refused(running, BADGE)


def test_a_changed_value_file_is_in_force_and_no_value_is_ever_shown(running):
    later = "another-horse-another-staple"
    assert refused(running, f"it is {VALUE}!") and passes(running, f"it is {later}!")
    (running.folder / "secrets.txt").write_text(f"{VALUE}\n{later}\n")
    until(lambda: refused(running, f"it is {later}!"), "the new value is looked for")
    (running.folder / "secrets.txt").write_text(f"{VALUE}\nhunter2\n")
    until(lambda: reloads(running, "refused") == 1, "a value that is too short is refused")
    assert refused(running, f"it is {later}!")
    told = running.logs.text() + running.weir("config", "show").stdout
    told += running.weir("config", "check", check=False).stderr + json.dumps(running.records())
    assert "secrets.txt:2" in told
    assert not any(value in told for value in (VALUE, later, "hunter2"))


def test_sighup_reads_the_configuration_at_once_and_says_what_takes_a_restart(running):
    scan = {"folder": "rules", "rules": {"acme_badge": "warn"},
            "overrides": [{"rule": "acme_badge", "agent": "guest", "action": "refuse"}]}
    before = reloads(running, "done")
    rewrite(running, scan=scan, threads=3, limits={"agent_per_minute": 999_999, "head_ms": 9_000})
    running.process.send_signal(signal.SIGHUP)
    until(lambda: reloads(running, "done") > before, "the signal is heard")
    until(lambda: passes(running, BADGE), "the rule only warns now")
    assert refused(running, BADGE, agent="guest")
    restart = [line for line in running.logs.all if "takes a restart" in line]
    keys = {json.loads(line)["fields"]["key"] if "fields" in json.loads(line) else json.loads(line)["key"]
            for line in restart}
    assert keys == {"threads", "limits.head_ms"}


def test_an_agent_that_is_taken_out_is_a_stranger_at_once(running):
    assert passes(running, "hello", agent="guest")
    agents = json.loads((running.folder / "weir.yaml").read_text())["agents"]
    rewrite(running, agents={"dev": agents["dev"]})
    until(lambda: call(running, "hello", agent="guest").status == 401, "the key is no longer known")
    assert passes(running, "hello")


def test_an_exemption_lets_one_rule_pass_for_one_agent_and_is_recorded(origin, tmp_path):
    (tmp_path / "own.toml").write_text(RULE)
    exempt = [{"rule": "acme_badge", "agent": "dev", "reason": "sample data", "expires": "2999-01-01T00:00:00Z"},
              {"rule": "jwt", "agent": "dev", "reason": "over", "expires": "2020-01-01T00:00:00Z"}]
    agents = {"dev": {}, "guest": {}}
    scan = {"folder": ".", "exempt": exempt}
    with Gateway(tmp_path, {"web": {"url": origin.url}}, agents, scan=scan) as gateway:
        assert passes(gateway, BADGE) and refused(gateway, BADGE, agent="guest")
        found = [finding for record in gateway.records() for finding in record.get("findings", [])]
        assert {(finding["rule"], finding["action"]) for finding in found} == {
            ("acme_badge", "warn"), ("acme_badge", "refuse")}
        assert {finding.get("exempt") for finding in found} == {"sample data", None}
        assert "scan.exempt[1].expires" in gateway.logs.text(), "an exemption that has expired is told"
    checked = gateway.weir("config", "check")
    assert "scan.exempt[1].expires: has expired" in checked.stderr


def test_the_start_says_what_is_covered(running):
    told = running.logs.text()
    lines = [line for line in told.splitlines() if "coverage: " in line]
    assert 3 < len(lines) < 10, "lanes in which the same is done share a line"
    for direction in ("outgoing", "incoming", "description"):
        assert re.search(rf"coverage: {direction} \([a-z, ]*\bmcp\b", told), told
    shown = json.loads(running.weir("config", "show", "--coverage", "--json").stdout)
    rows = {(row["lane"], row["direction"], row["scanner"]): row["rules"] for row in shown["coverage"]}
    assert rows["mcp", "outgoing", "secret"]["refuse"] > 100
    assert ("mcp", "outgoing", "command") in rows and ("mcp", "description", "tool") in rows
    assert ("mcp", "incoming", "chain") not in rows
