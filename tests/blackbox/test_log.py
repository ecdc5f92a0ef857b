"""The log under trouble: kills at random moments, no room, a read-only folder, a disk that fails at commit."""

import http.client
import json
import os
import random
import shutil
import subprocess
import threading

import pytest

from gateway import WEIR, Gateway, until

KILLS = int(os.environ.get("WEIR_KILLS", "200"))
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x" * 200}}}


class Load:
    """Threads that call until the gateway goes away, and keep the ids of the calls that were answered."""

    def __init__(self, gateway, threads=4):
        self.gateway, self.answered, self.wrong = gateway, [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        connection = self.gateway.connect()
        try:
            for _ in range(100_000):
                answer = self.gateway.post("web", CALL, connection=connection)
                if b'"result"' in answer.body:
                    self.answered.append(answer.headers["weir-call"])
                else:
                    self.wrong.append(answer.body)
        except (OSError, http.client.HTTPException):
            connection.close()

    def join(self):
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def test_200_kills_lose_nothing(origin, tmp_path):
    """Each life serves under load and is killed with -9. After each death the log is verified, at the end all of it is read.

    Every call that was answered has its judgement in the log, in whichever life it was answered.
    """
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}, durability="fsync")
    answered = []
    for life in range(KILLS):
        gateway.start()
        load = Load(gateway)
        enough = chance.randrange(1, 40)
        until(lambda: len(load.answered) >= enough or load.wrong, "calls are answered")
        gateway.kill()
        load.join()
        assert not load.wrong, (seed, life, load.wrong[:1])
        answered += load.answered
        told = gateway.weir("audit", "verify", "state", check=False)
        # The kill may have cut a write short; the next start cuts what is left of it.
        assert told.returncode == 0 or ": torn: " in told.stderr, (seed, life, told)
    records = gateway.records()
    judged = {r["call"] for r in records if r["kind"] == "judgement"}
    lost = [call for call in answered if call not in judged]
    assert not lost, (seed, len(lost), len(answered))
    assert len(answered) >= KILLS


def test_a_full_log_refuses_calls(origin, tmp_path):
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}}, log={"bytes_max": 1 << 20})
    gateway.exit_code = 2
    with gateway:
        def refused():
            answer = gateway.post("web", CALL)
            return None if b'"result"' in answer.body else answer
        before = None
        for _ in range(5000):
            before = refused()
            if before:
                break
        assert before, "the log took more than its bound"
        code, text, call = before.refusal()
        assert code == "log.full" and call and len(text) > 20, before.body
        passed = origin.seen()["tools/call echo"]
        assert refused().refusal()[0] == "log.full"
        assert origin.seen()["tools/call echo"] == passed, "a call passed unrecorded"
        assert gateway.request("GET", "/health/ready").status == 503
        assert gateway.request("GET", "/health/live").status == 200
        gateway.verify()
    size = sum(path.stat().st_size for path in gateway.state.rglob("*") if path.is_file())
    assert size <= (1 << 20) + (256 << 10), size


def test_a_disk_error_at_commit_refuses_calls(origin, tmp_path):
    """The kernel refuses to let the log's file grow (RLIMIT_FSIZE), as a failing or full disk would."""
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    gateway.exit_code = 2
    with gateway:
        assert b'"result"' in gateway.post("web", CALL).body
        largest = max(path.stat().st_size for path in gateway.state.rglob("*") if path.is_file())
        subprocess.run(["prlimit", f"--pid={gateway.process.pid}", f"--fsize={largest + 2000}"], check=True)
        answers = [gateway.post("web", CALL) for _ in range(40)]
        passed = origin.seen()["tools/call echo"]
        refused = [a for a in answers if b'"result"' not in a.body]
        assert refused, "the log grew past what the kernel allows"
        assert refused[-1].refusal()[0] in ("log.failed", "log.full"), refused[-1].body
        again = gateway.post("web", CALL)
        assert again.refusal()[0] in ("log.failed", "log.full")
        assert origin.seen()["tools/call echo"] == passed, "a call passed unrecorded"
        assert gateway.request("GET", "/health/ready").status == 503
        answered = [a.headers["weir-call"] for a in answers if b'"result"' in a.body]
    gateway.verify()
    records = gateway.records()
    judged = {r.get("call") for r in records}
    assert not [call for call in answered if call not in judged]


def test_a_read_only_log(origin, tmp_path):
    """A folder that cannot be written: the gateway says so and does not serve unrecorded."""
    gateway = Gateway(tmp_path, {"web": {"url": origin.url}})
    with gateway:
        assert b'"result"' in gateway.post("web", CALL).body
    state = gateway.state
    subprocess.run(["mount", "--bind", str(state), str(state)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(state)], check=True)
        done = subprocess.run(gateway_command(), cwd=gateway.folder, capture_output=True, text=True, timeout=30)
        assert done.returncode not in (0, -9), done
        assert "state" in done.stderr or "log" in done.stderr, done.stderr
        assert "panicked" not in done.stderr
    finally:
        subprocess.run(["umount", str(state)], check=True)
    with gateway:
        assert b'"result"' in gateway.post("web", CALL).body
    gateway.verify()


def gateway_command():
    return [str(WEIR), "serve", "-c", "weir.yaml"]


@pytest.fixture(scope="module")
def written(origin, tmp_path_factory):
    gateway = Gateway(tmp_path_factory.mktemp("written"), {"web": {"url": origin.url}})
    with gateway:
        for _ in range(20):
            gateway.post("web", CALL)
    return gateway


def change(path):
    data = path.read_bytes()
    assert b'"agent":"dev"' in data
    path.write_bytes(data.replace(b'"agent":"dev"', b'"agent":"eve"', 1))


def cut(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize("damage", [change, cut])
def test_damage_is_told(written, tmp_path, damage):
    copy = tmp_path / "copy"
    shutil.copytree(written.state, copy)
    files = [path for path in copy.rglob("*") if path.is_file() and b'"agent":"dev"' in path.read_bytes()]
    damage(max(files, key=lambda path: path.stat().st_size))
    told = written.weir("audit", "verify", str(copy), check=False)
    assert told.returncode == 1, told
    assert any(char.isdigit() for char in told.stdout + told.stderr), "it names the record"
    assert written.verify().returncode == 0


def test_what_is_shown_is_what_happened(written):
    records = written.records()
    judged = [r for r in records if r["kind"] == "judgement" and r.get("tool") == "echo"]
    assert len(judged) == 20
    for record in judged:
        assert record["agent"] == "dev" and record["decision"] == "pass" and record["server"] == "web"
        assert record["policies"], record
        ends = [r["end"] for r in records if r["kind"] == "outcome" and r["call"] == record["call"]]
        assert ends == ["complete"]
    assert json.dumps(records).count(written.keys["dev"]) == 0
