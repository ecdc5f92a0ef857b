"""What the log proves: an end that nobody signed, a log that was put back, files that were moved, names that are not its own."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading

import pytest

from gateway import WEIR, Gateway, until

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x" * 200}}}
# `base::limit::LOG_UNSIGNED_ENTRIES_MAX` and `LOG_UNSIGNED_MS_MAX`.
ENTRIES_MAX = 4096
SPAN_S = 10


def call(gateway, times=1):
    for _ in range(times):
        answer = gateway.post("web", CALL)
        assert b'"result"' in answer.body, answer.body


def split(data):
    entries = []
    while data:
        length = int.from_bytes(data[:2])
        entries.append(data[2:2 + length])
        data = data[2 + length:]
    return entries


def join(records):
    """The records as entries, chained anew: what whoever can write the folder can do."""
    data, prev = b"", "0" * 64
    for seq, record in enumerate(records):
        entry = b'{"prev":"' + prev.encode() + b'","record":' + record + b',"seq":' + str(seq).encode() + b"}"
        data += len(entry).to_bytes(2) + entry
        prev = hashlib.sha256(b"\0" + entry).hexdigest()
    return data


def records_of(segment):
    found = []
    for entry in split(segment.read_bytes()):
        found.append(entry[len('{"prev":"') + 64 + len('","record":'):entry.rindex(b',"seq":')])
    return found


def start_fails(gateway):
    done = subprocess.run([str(WEIR), "serve", "-c", "weir.yaml"], cwd=gateway.folder, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2, done
    assert "panicked" not in done.stderr
    return done.stderr


def verify(gateway, *more, code=0):
    done = gateway.weir("audit", "verify", "state", *more, check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.fixture
def stopped(origin, tmp_path):
    gateway = Gateway(tmp_path / "gateway", {"web": {"url": origin.url}})
    with gateway:
        call(gateway, 5)
    gateway.log = gateway.state / "log"
    gateway.segment = gateway.log / "segment-000000.log"
    return gateway


def forge(gateway, change):
    records = change(records_of(gateway.segment))
    gateway.segment.write_bytes(join(records))
    return len(records)


def rewritten(records):
    return [record.replace(b'"agent":"dev"', b'"agent":"eve"') for record in records]


@pytest.mark.parametrize("checkpoints", ["removed", "emptied"])
def test_a_rewritten_log_that_nobody_signed_is_told_and_refused(stopped, checkpoints):
    key = (stopped.log / "key.pub").read_text().strip()
    entries = forge(stopped, rewritten)
    if checkpoints == "removed":
        (stopped.log / "checkpoints").unlink()
    else:
        (stopped.log / "checkpoints").write_bytes(b"")
    for more in [(), ("--key", key)]:
        assert f"unsigned tail of {entries}" in verify(stopped, *more, code=1)
    value = json.loads(verify(stopped, "--json", code=1))
    assert value["whole"] is False and value["kind"] == "unsigned", value
    told = start_fails(stopped)
    assert "weir audit verify" in told and "weir audit accept" in told, told
    verify(stopped, code=1)


def cut_to_the_first(gateway):
    """Leaves the first checkpoint alone, which covers nothing."""
    path = gateway.log / "checkpoints"
    notes = path.read_text().split("\n\n\u2014 ")
    path.write_text(notes[0] + "\n\n\u2014 " + notes[1].split("\n")[0] + "\n")
    assert notes[0].split("\n")[1] == "0"


def test_an_end_longer_than_an_interval_is_told_and_refused(stopped):
    cut_to_the_first(stopped)
    record = b'{"kind":"outcome"}'
    assert forge(stopped, lambda _: [record] * ENTRIES_MAX) == ENTRIES_MAX
    assert f"unsigned tail of {ENTRIES_MAX}" in verify(stopped)
    forge(stopped, lambda _: [record] * (ENTRIES_MAX + 1))
    assert f"unsigned tail of {ENTRIES_MAX + 1}" in verify(stopped, code=1)
    assert "weir audit accept" in start_fails(stopped)


def test_an_end_that_took_longer_than_an_interval_is_told_and_refused(stopped):
    cut_to_the_first(stopped)
    at = [b'{"at":"2026-01-01T00:00:%02d.000Z","kind":"outcome"}' % second for second in (0, SPAN_S, SPAN_S + 1)]
    forge(stopped, lambda _: at[:2])
    assert "unsigned tail of 2" in verify(stopped)
    forge(stopped, lambda _: at)
    assert "unsigned tail of 3" in verify(stopped, code=1)
    assert "weir audit accept" in start_fails(stopped)


def test_what_was_accepted_is_in_the_log(stopped):
    entries = forge(stopped, rewritten)
    (stopped.log / "checkpoints").unlink()
    bad = stopped.weir("audit", "accept", "--reason", " ", "state", check=False)
    assert bad.returncode == 2 and "reason" in bad.stderr
    stopped.weir("audit", "accept", "--reason", "restored by hand", "state")
    told = verify(stopped)
    assert f"entries: {entries + 1}, signed: {entries + 1}" in told and f"entry {entries}:" in told, told
    last = stopped.records()[-1]
    assert last["kind"] == "accepted" and last["reason"] == "restored by hand" and last["unsigned"] == entries, last
    assert f"unsigned tail of {entries}" in last["found"] and last["by"], last
    with stopped:
        busy = stopped.weir("audit", "accept", "--reason", "again", "state", check=False)
        assert busy.returncode == 2 and "Stop the gateway" in busy.stderr, busy
        call(stopped)
    again = stopped.weir("audit", "accept", "--reason", "again", "state")
    assert "nothing to accept" in again.stdout
    assert len([r for r in stopped.records() if r["kind"] == "accepted"]) == 1


def test_accept_does_not_mend_what_a_checkpoint_denies(stopped):
    forge(stopped, rewritten)
    before = {path.name: path.read_bytes() for path in stopped.log.iterdir()}
    told = stopped.weir("audit", "accept", "--reason", "no", "state", check=False)
    assert told.returncode == 2 and "weir audit verify" in told.stderr, told
    assert {path.name: path.read_bytes() for path in stopped.log.iterdir()} == before


def test_a_killed_gateway_starts_and_signs_its_end(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}).start()
    # The log begins with a checkpoint over nothing, before the first entry.
    assert (gateway.state / "log/checkpoints").read_text().split("\n")[1] == "0"
    call(gateway, 20)
    gateway.kill()
    assert "unsigned tail: " in verify(gateway)
    with gateway:
        until(lambda: "unsigned tail: 0" in verify(gateway), "the end is signed")
        call(gateway)
    assert "unsigned tail: 0" in verify(gateway)


def test_a_log_that_is_written_under_load_verifies(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    with gateway:
        def work():
            connection = gateway.connect()
            while not enough.is_set():
                assert b'"result"' in gateway.post("web", CALL, connection=connection).body
        enough = threading.Event()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            told = [verify(gateway) for _ in range(20)]
        finally:
            enough.set()
            for thread in threads:
                thread.join()
        assert all("the log is whole" in text for text in told)
    assert "unsigned tail: 0" in verify(gateway)


def test_a_checkpoint_kept_elsewhere_denies_another_log(stopped, tmp_path):
    kept = tmp_path / "kept"
    notes = (stopped.log / "checkpoints").read_text()
    kept.write_text(notes[notes.index("weir.local/log\n", 1):] if notes.count("weir.local/log\n") == 2
                    else "weir.local/log\n" + notes.split("weir.local/log\n")[-1])
    old = tmp_path / "old"
    shutil.copytree(stopped.log, old)
    assert "the log is whole" in verify(stopped, "--checkpoint", kept)
    with stopped:
        call(stopped, 3)
    assert "the log is whole" in verify(stopped, "--checkpoint", kept)
    # Shorter than what was kept.
    newer = tmp_path / "newer"
    newer.write_text("weir.local/log\n" + (stopped.log / "checkpoints").read_text().split("weir.local/log\n")[-1])
    done = stopped.weir("audit", "verify", old, "--checkpoint", newer, check=False)
    assert done.returncode == 1 and "cut off" in done.stderr, done
    # Other entries of the same number, signed by nobody.
    forge(stopped, rewritten)
    cut_to_the_first(stopped)
    verify(stopped)
    verify(stopped, "--checkpoint", kept, code=1)
    # Not signed by this log's key.
    kept.write_text(kept.read_text().replace("weir.local/log\n", "weir.local/lag\n", 1))
    assert "kept elsewhere" in verify(stopped, "--checkpoint", kept, code=1)
    verify(stopped, "--checkpoint", tmp_path / "nowhere", code=2)


def test_since_a_checkpoint_only_what_follows_is_read(stopped):
    told = verify(stopped, "--since-checkpoint")
    assert "the log is whole" in told and "not looked at" not in told, told
    forge(stopped, rewritten)
    verify(stopped, "--since-checkpoint", code=1)


@pytest.fixture
def witnessed(origin, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    gateway = Gateway(tmp_path / "gateway", {"web": {"url": origin.url}}, log={"witness": "../elsewhere/witness"})
    gateway.log = gateway.state / "log"
    gateway.segment = gateway.log / "segment-000000.log"
    gateway.witness = tmp_path / "elsewhere/witness"
    return gateway


def size_of(path):
    return int(path.read_text().split("\n")[1])


def test_a_witness_follows_the_log_and_denies_an_older_one(witnessed, tmp_path):
    old = tmp_path / "old"
    with witnessed:
        call(witnessed, 5)
    first = size_of(witnessed.witness)
    assert first == len(witnessed.records()) >= 10
    assert "the log is whole" in verify(witnessed, "--checkpoint", witnessed.witness)
    shutil.copytree(witnessed.log, old)
    with witnessed:
        call(witnessed, 5)
    last = size_of(witnessed.witness)
    assert last == len(witnessed.records()) > first
    # The older log is put back; by itself it is whole, and the witness of the configuration denies it.
    shutil.rmtree(witnessed.log)
    shutil.copytree(old, witnessed.log)
    verify(witnessed, code=1)
    verify(witnessed, "--checkpoint", witnessed.witness, code=1)
    told = start_fails(witnessed)
    assert "witness" in told and "weir audit accept" in told, told
    assert size_of(witnessed.witness) == last, "it went back"
    # Named by its folder, the log has the witness of the configuration all the same.
    witnessed.weir("audit", "accept", "--reason", "restored from a backup", "state")
    assert size_of(witnessed.witness) == first + 1
    assert f"the witness saw {last}" in witnessed.records()[-1]["found"]
    with witnessed:
        call(witnessed)


def test_a_witness_denies_a_log_that_begins_anew_and_one_without_it_is_refused(witnessed):
    with witnessed:
        call(witnessed, 2)
    text = witnessed.witness.read_text()
    witnessed.witness.unlink()
    assert "witness is missing" in start_fails(witnessed)
    witnessed.witness.write_text(text)
    shutil.rmtree(witnessed.state)
    assert "weir audit accept" in start_fails(witnessed)
    assert witnessed.witness.read_text() == text
    # Anywhere but beside its configuration, the witness has to be named.
    copy = witnessed.folder / "copy"
    shutil.copytree(witnessed.state, copy)
    assert "nothing to accept" in witnessed.weir("audit", "accept", "--reason", "new", copy).stdout
    witnessed.weir("audit", "accept", "--reason", "new", copy, "--witness", witnessed.witness)
    assert size_of(witnessed.witness) == 1


def test_a_witness_that_is_changed_while_serving_stops_the_log(witnessed):
    witnessed.exit_code = 2
    with witnessed:
        call(witnessed)
        until(lambda: size_of(witnessed.witness) > 0, "the witness follows")
        witnessed.witness.write_text("something else")

        def refused():
            answer = witnessed.post("web", CALL)
            return b'"result"' not in answer.body and answer.refusal()
        assert until(refused, "calls are refused")[0] == "log.failed"
        ready = witnessed.request("GET", "/health/ready")
        assert ready.status == 503 and "witness" in ready.json()["log_failed"], ready.body


@pytest.mark.parametrize("place", ["state/log/witness", "state/log/below/witness", "missing/witness"])
def test_a_witness_is_outside_the_log(origin, tmp_path, place):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}, log={"witness": place})
    (tmp_path / "state/log/below").mkdir(parents=True)
    told = start_fails(gateway)
    assert "log.witness" in told and "folder" in told, told


def moved_segment(gateway):
    (gateway.state / "log/segment-000000.log").rename(gateway.folder / "away")


def removed_segment(gateway):
    (gateway.state / "log/segment-000000.log").unlink()


def replaced_segment(gateway):
    segment = gateway.state / "log/segment-000000.log"
    shutil.copyfile(segment, gateway.folder / "copy")
    os.replace(gateway.folder / "copy", segment)


def cut_segment(gateway):
    os.truncate(gateway.state / "log/segment-000000.log", 10)


def removed_checkpoints(gateway):
    (gateway.state / "log/checkpoints").unlink()


def moved_log(gateway):
    (gateway.state / "log").rename(gateway.folder / "away")


def removed_state(gateway):
    shutil.rmtree(gateway.state)


def replaced_state(gateway):
    gateway.state.rename(gateway.folder / "away")
    # A socket cannot be copied.
    shutil.copytree(gateway.folder / "away", gateway.state, ignore=shutil.ignore_patterns("admin.sock"))


@pytest.mark.parametrize("durability", ["os", "fsync"])
@pytest.mark.parametrize("happens", [moved_segment, removed_segment, replaced_segment, cut_segment, removed_checkpoints,
                                     moved_log, removed_state, replaced_state])
def test_files_that_go_while_serving_stop_the_log(origin, tmp_path, happens, durability):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}, durability=durability)
    gateway.exit_code = 2
    with gateway:
        call(gateway, 3)
        until(lambda: gateway.request("GET", "/health/ready").status == 200, "the gateway is ready")
        happens(gateway)
        # Nobody calls: the log finds it by itself.
        ready = until(lambda: (lambda a: a.status == 503 and a)(gateway.request("GET", "/health/ready")), "it is told")
        assert ready.json()["log"] == "failed" and ready.json()["log_failed"], ready.body
        passed = origin.seen()["tools/call echo"]
        assert gateway.post("web", CALL).refusal()[0] == "log.failed"
        assert origin.seen()["tools/call echo"] == passed, "a call passed unrecorded"


def test_files_that_go_under_load_stop_the_log(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    gateway.exit_code = 2
    with gateway:
        call(gateway, 3)
        removed_state(gateway)

        def refused():
            answer = gateway.post("web", CALL)
            return b'"result"' not in answer.body and answer.refusal()
        assert until(refused, "calls are refused")[0] == "log.failed"


def appended(data):
    def damage(log):
        with open(log / "segment-000000.log", "ab") as segment:
            segment.write(data)
    return damage


def torn(log):
    path = log / "segment-000000.log"
    prev = hashlib.sha256(b"\0" + split(path.read_bytes())[-1]).hexdigest()
    appended(b"\x02\x00" + b'{"prev":"' + prev.encode() + b'","record":{"at"')(log)


def flipped(log):
    path = log / "segment-000000.log"
    data = bytearray(path.read_bytes())
    data[2 + int.from_bytes(data[:2])] ^= 0x40
    path.write_bytes(data)


def flipped_last(log):
    path = log / "segment-000000.log"
    data = bytearray(path.read_bytes())
    data[len(data) - len(split(data)[-1]) - 2] ^= 0x40
    path.write_bytes(data)


def renamed(log):
    (log / "segment-000000.log").rename(log / "segment-000001.log")


def gap(log):
    shutil.copyfile(log / "segment-000000.log", log / "segment-000002.log")


def stray(name):
    return lambda log: (log / name).write_bytes(b"x")


DAMAGES = {
    "junk": appended(b"junk behind the end"), "one byte": appended(b"\x07"), "torn": torn, "zeros": appended(b"\0" * 100),
    "length": flipped, "last length": flipped_last, "first renamed": renamed, "gap": gap,
    "no number": stray("segment-0.log"), "copy": stray("segment-000000.log.bak"), "leaves": stray("segment-000005.leaves"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_names_and_ends_that_are_not_the_logs_are_told(stopped, damage):
    damage(stopped.log)
    told = verify(stopped, code=1)
    assert "damaged at entry" in told, told


def test_a_torn_end_is_no_damage_while_the_gateway_writes(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}).start()
    call(gateway, 3)
    until(lambda: "unsigned tail: 0" in verify(gateway), "the end is signed")
    # Nothing is written from here on, so that the end stays as it is put.
    os.kill(gateway.process.pid, signal.SIGSTOP)
    torn(gateway.state / "log")
    assert "an entry is torn at the end" in verify(gateway)
    appended(b"junk")(gateway.state / "log")
    gateway.kill()
    verify(gateway, code=1)


def test_what_another_puts_behind_the_end_is_cut_by_the_gateway(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    with gateway:
        call(gateway, 3)
        appended(b"junk" * 5000)(gateway.state / "log")
        call(gateway, 3)
        verify(gateway)
        appended(b"more junk")(gateway.state / "log")
    verify(gateway)


def test_a_torn_end_is_cut_by_the_next_start(stopped):
    torn(stopped.log)
    verify(stopped, code=1)
    with stopped:
        call(stopped)
    verify(stopped)


@pytest.mark.parametrize("name", ["lock", "key.pub", "checkpoints", "key"])
def test_removing_a_name_lets_no_second_gateway_in(origin, tmp_path, name):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    gateway.start()
    call(gateway)
    (gateway.state / "log" / name).unlink(missing_ok=True)
    assert "another process writes this log" in start_fails(gateway)
    gateway.kill()


def test_each_log_of_a_state_folder_has_a_witness(tmp_path):
    (tmp_path / "policy.cedar").write_text("permit (principal, action, resource);\n")
    config = {"policy": "policy.cedar", "state": "elsewhere", "log": {"witness": "witness"}}
    (tmp_path / "weir.yaml").write_text(json.dumps(config))
    command = [str(WEIR), "mcp", "wrap", "--state", "state", "--config", "weir.yaml", "--", "cat"]
    quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    wrapped = [subprocess.Popen(command, **quiet) for _ in range(2)]
    try:
        until(lambda: all((tmp_path / name).is_file() for name in ("witness", "witness.2")), "both have begun")
    finally:
        for process in wrapped:
            process.stdin.close()
            process.wait(30)
    for log, witness in [("log", "witness"), ("log.2", "witness.2")]:
        told = subprocess.run([str(WEIR), "audit", "verify", f"state/{log}", "--checkpoint", witness], cwd=tmp_path,
                              capture_output=True, text=True, timeout=60)
        assert told.returncode == 0, told
    other = subprocess.run([str(WEIR), "audit", "verify", "state/log", "--checkpoint", "witness.2"], cwd=tmp_path,
                           capture_output=True, text=True, timeout=60)
    assert other.returncode == 1, other
