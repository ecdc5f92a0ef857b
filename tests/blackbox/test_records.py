"""What the log says of the gateway's own life: starts and stops, what is in force, what was lost, and the log's name.

`older` holds a log that an earlier version wrote: three calls that ended, and two that were open when it was killed.
"""

import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from gateway import WEIR, Gateway, new_key, until

KILLS = max(3, int(os.environ.get("WEIR_KILLS", "200")) // 10)
OLDER = Path(__file__).parent / "older"


def call_of(tool):
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": tool, "arguments": {"text": "x" * 200}}}


CALL, NEVER = call_of("echo"), call_of("never")


def of_kind(gateway, kind):
    return [record for record in gateway.records() if record["kind"] == kind]


def open_calls(gateway, origin, count):
    """Calls that nobody answers, open when this returns."""
    before = origin.seen().get("tools/call never", 0)

    def call():
        try:
            gateway.post("web", NEVER)
        except (OSError, http.client.HTTPException):
            pass
    for _ in range(count):
        threading.Thread(target=call, daemon=True).start()
    until(lambda: origin.seen().get("tools/call never", 0) >= before + count, "the calls are open")


def check_ends(records):
    """Each call that passed has one end, an outcome or the word that it was lost."""
    passed = [r["call"] for r in records if r["kind"] == "judgement" and r["decision"] == "pass"]
    ends = [r["call"] for r in records if r["kind"] in ("outcome", "lost")]
    assert sorted(passed) == sorted(ends)


def origin_of(gateway, log="log"):
    return (gateway.state / log / "key.pub").read_text().split("+")[0]


def test_a_process_says_when_it_starts_and_stops(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    for _ in range(2):
        with gateway:
            assert b'"result"' in gateway.post("web", CALL).body
    records = gateway.records()
    kinds = [record["kind"] for record in records]
    assert kinds[0] == "start" and kinds[-1] == "stop" and kinds.count("start") == kinds.count("stop") == 2
    first, second = of_kind(gateway, "start")
    assert first["lost"] == second["lost"] == 0 and first["pid"] != second["pid"]
    assert first["origin"] == origin_of(gateway) and first["durability"] == "os" and first["version"]
    # What did not change is not written again.
    snapshots = [record["of"] for record in records if record["kind"] == "snapshot"]
    assert sorted(snapshots) == ["directory", "policies"]
    judged = [i for i, kind in enumerate(kinds) if kind == "judgement"]
    assert max(i for i, kind in enumerate(kinds) if kind == "snapshot") < min(judged)
    check_ends(records)
    gateway.verify()


def test_killed_calls_are_told_to_be_lost(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}, durability="fsync").start()
    assert b'"result"' in gateway.post("web", CALL).body
    open_calls(gateway, origin, 3)
    gateway.kill()
    with gateway:
        assert b'"result"' in gateway.post("web", CALL).body
    lost = of_kind(gateway, "lost")
    never = [r["call"] for r in of_kind(gateway, "judgement") if r.get("tool") == "never"]
    assert sorted(record["call"] for record in lost if record["call"] in never) == sorted(never) and len(never) == 3
    assert of_kind(gateway, "start")[1]["lost"] == len(lost)
    records = gateway.records()
    check_ends(records)
    shown = gateway.weir("audit", "show", "state", "--call", never[0]).stdout
    assert "lost: the process died" in shown, shown
    with gateway:
        gateway.post("web", CALL)
    assert of_kind(gateway, "start")[2]["lost"] == 0
    gateway.verify()


def test_after_many_kills_each_call_that_passed_has_an_end(origin, tmp_path):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}, durability="fsync")

    def work(answered):
        connection = gateway.connect()
        try:
            while True:
                assert b'"result"' in gateway.post("web", CALL, connection=connection).body
                answered.append(1)
        except (OSError, http.client.HTTPException):
            connection.close()
    for _ in range(KILLS):
        gateway.start()
        answered, enough = [], chance.randrange(1, 40)
        threads = [threading.Thread(target=work, args=(answered,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(answered) >= enough, "calls are answered")
        gateway.kill()
        for thread in threads:
            thread.join(30)
    with gateway:
        gateway.post("web", CALL)
    check_ends(gateway.records())
    gateway.verify()


def policies(gateway, digest, *more):
    return gateway.weir("audit", "snapshot", digest, "state", *more).stdout


def test_a_judgement_leads_to_the_policies_that_made_it(origin, tmp_path):
    first = '@id("first") permit (principal, action, resource);\n'
    second = '@id("second") permit (principal, action, resource);\n' + "// \u00e9\U0001f600\n" * 20_000
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}, policy=first)
    with gateway:
        gateway.post("web", CALL)
        (gateway.folder / "policy.cedar").write_text(second)
        until(lambda: '"reloaded"' in gateway.logs.text(), "it is reloaded")
        gateway.post("web", CALL)
    judged = {r["policies"][0]: r["policy_set"] for r in of_kind(gateway, "judgement") if r.get("tool") == "echo"}
    for name, text in (("first", first), ("second", second)):
        assert policies(gateway, judged[name]) == "// policy.cedar\n" + text
        kept = policies(gateway, judged[name][:12], "--json")
        assert hashlib.sha256(kept.encode()).hexdigest() == judged[name]
        assert "entity Agent" in json.loads(kept)["schema"]
    # Every text stands before the first record that names it.
    stands = set()
    for record in gateway.records():
        if record["kind"] == "snapshot" and record["part"] == record["parts"]:
            stands.add(record["digest"])
        assert record["kind"] != "judgement" or record["policy_set"] in stands
    assert max(r["parts"] for r in of_kind(gateway, "snapshot")) > 1
    missing = gateway.weir("audit", "snapshot", "0" * 64, "state", check=False)
    assert missing.returncode == 1 and "no text" in missing.stderr
    gateway.weir("audit", "export", "state", "--out", "exported")
    exported = gateway.weir("audit", "snapshot", judged["first"], "exported").stdout
    assert exported == "// policy.cedar\n" + first
    gateway.verify()


def test_a_reload_is_recorded_by_its_keys(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    path = gateway.folder / "weir.yaml"

    def change(edit):
        config = json.loads(path.read_text())
        edit(config)
        path.write_text(json.dumps(config))

    key, digest = new_key("eve")

    def more(config):
        config["agents"]["eve"] = {"key": digest, "groups": ["guests"], "expires": "2030-01-01T00:00:00Z"}
        config["limits"]["agent_per_minute"] = 7
        config["threads"] = 3
    with gateway:
        change(more)
        until(lambda: '"reloaded"' in gateway.logs.text(), "it is reloaded")
        path.write_text("listen: [")
        until(lambda: "not reloaded" in gateway.logs.text(), "it is refused")
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: gateway.logs.text().count("not reloaded") == 2, "it is refused again")
    done, refused, again = of_kind(gateway, "admin")
    assert done["what"] == "reload" and done["by"] == "files" and "refused" not in done
    assert done["changed"] == ["agents.eve", "limits", "threads"] and done["waiting"] == ["threads"]
    assert refused["by"] == "files" and again["by"] == "signal" and "problem" in refused["refused"]
    (_, directory) = [r for r in of_kind(gateway, "snapshot") if r["of"] == "directory"]
    assert done["directory"] == directory["digest"]
    eve = [agent for agent in json.loads(directory["text"])["agents"] if agent["name"] == "eve"]
    thumbprint = hashlib.sha256(bytes.fromhex(digest.removeprefix("sha256:"))).hexdigest()
    assert eve == [{"name": "eve", "groups": ["guests"], "keys": [thumbprint], "expires": "2030-01-01T00:00:00.000Z"}]
    text = json.dumps(gateway.records())
    assert digest.removeprefix("sha256:") not in text and key not in text
    shown = gateway.weir("audit", "show", "state").stdout
    assert "reload by files, changed: agents.eve, limits, threads, waits for a restart: threads" in shown
    assert "started weir" in shown and "stopped" in shown and "snapshot of the policies" in shown


def test_each_log_has_a_name_of_its_own(origin, tmp_path):
    names = set()
    for folder in ("one", "two"):
        gateway = Gateway(tmp_path / folder, {"web": {"url": origin.url}})
        with gateway:
            gateway.post("web", CALL)
        names.add(origin_of(gateway))
        assert re.fullmatch(r"weir\.local/[0-9a-f]{16}", origin_of(gateway))
        # A log that is moved away is followed by one with the same name and another key.
        before = (gateway.state / "log/key.pub").read_text()
        (gateway.state / "log").rename(gateway.state / "log.old")
        with gateway:
            gateway.post("web", CALL)
        assert before.split("+")[0] == origin_of(gateway) and before != (gateway.state / "log/key.pub").read_text()
    assert len(names) == 2


def refused_start(gateway):
    done = subprocess.run([str(WEIR), "serve", "-c", "weir.yaml"], cwd=gateway.folder, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode in (1, 2) and "panicked" not in done.stderr, done
    return done.stderr


def test_the_name_of_a_log_is_set_before_it_begins(origin, tmp_path):
    servers = {"web": {"url": origin.url}}
    gateway = Gateway(tmp_path, servers, log={"origin": "weir.example/replica-1"})
    with gateway:
        gateway.post("web", CALL)
    assert origin_of(gateway) == "weir.example/replica-1"
    gateway.verify()
    # Without the setting the log goes on; another name is refused, with what to write.
    with Gateway(tmp_path, servers) as again:
        again.post("web", CALL)
    other = Gateway(tmp_path, servers, log={"origin": "weir.example/replica-2"})
    assert "log.origin: weir.example/replica-1" in refused_start(other)
    bad = Gateway(tmp_path, servers, log={"origin": "white space"})
    assert "log.origin" in refused_start(bad)
    assert gateway.verify().returncode == 0


@pytest.fixture
def older(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    shutil.copytree(OLDER, gateway.state / "log")
    return gateway


def test_a_log_of_an_earlier_version_verifies_and_goes_on(older):
    older.verify()
    before = older.records()
    assert len(before) > 5
    with older:
        assert b'"result"' in older.post("web", CALL).body
    assert origin_of(older) == "weir.local/log"
    older.verify()
    records = older.records()
    assert records[:len(before)] == before and records[len(before)]["kind"] == "start"
    assert records[len(before)]["lost"] == 2 and len(of_kind(older, "lost")) == 2
    check_ends(records)
    told = older.weir("audit", "snapshot", before[0]["policy_set"], "state", check=False)
    assert told.returncode == 1


def test_another_name_for_a_log_of_an_earlier_version_is_refused(older):
    path = older.folder / "weir.yaml"
    config = json.loads(path.read_text())
    config["log"]["origin"] = "weir.example/new"
    path.write_text(json.dumps(config))
    assert "log.origin: weir.local/log" in refused_start(older)
