"""An inbound of several instances: what `replay: local` and `replay: strict` keep, whatever is sent again and whatever dies."""

import http.client
import json
import random
import signal
import socket
import subprocess
import threading
import time

import pytest
from gateway import WAIT_S, until
from relay import Middle, Origin, Process, ask, free_port, keygen, settled, weir
from stores import Lying, Store, programs
from test_relay_config import write

# What a store that was just started makes an inbound wait for.
RUN_S = 6


class Fleet:
    """Inbounds with one key before one origin, and an outbound; a middle before each inbound keeps what is sent."""

    def __init__(self, folder, store=None, instances=2, replay="strict", balancer=None, **more):
        self.folder, self.origin, self.names = folder, Origin(), [f"in{i}" for i in range(instances)]
        near = folder / "near"
        near.mkdir(parents=True)
        self.keys = keygen(near, "inbound"), keygen(near, "outbound")
        psk = weir(near, "relay", "keygen", "--psk", "fleet.psk", code=None)
        assert psk.returncode == 0, psk.stderr
        weir(near, "relay", "keygen", "--tickets", "tickets")
        self.ports = [free_port() for _ in self.names]
        self.settings = {
            "keys": f"file:{near}/inbound.key", "origins": {"api": {"url": self.origin.url}}, "replay": replay,
            "allow": {"app": {"key": f"file:{near}/outbound.key.pub"}}, "ticket_keys": f"file:{near}/tickets", **more}
        self.store = store
        self.inbounds = [self.begin(i) for i in range(instances)]
        self.middle = balancer(self) if balancer else Middle(self.ports[0])
        self.outbound = Process(near, "relay", "outbound", "--listen", f"127.0.0.1:{free_port()}", "--key", "outbound.key",
                                "--to", f"http://127.0.0.1:{self.middle.port}", "--peer", "inbound.key.pub",
                                "--status", "127.0.0.1:0").start()
        self.port = self.outbound.port("outbound")

    def configure(self, i, **more):
        settings = {"listen": f"127.0.0.1:{self.ports[i]}", **self.settings, **more}
        folder = self.folder / self.names[i]
        ca = {"ca": f"file:{self.store.tls[2]}"} if getattr(self.store, "tls", None) else {}
        cache = {"cache": {"redis": "file:store.url", **ca}} if self.store else {}
        write(folder, {**cache, "threads": 2, "relay": {"inbound": settings}})
        if self.store:
            (folder / "store.url").write_text(self.store.url)
        return folder

    def begin(self, i, **more):
        return Process(self.configure(i, **more), "serve").start()

    def is_ready(self, i):
        """Whether it says so, and its port is open, which follows in a moment."""
        if self.inbounds[i].get("/health/ready")[0] != 200:
            return False
        try:
            socket.create_connection(("127.0.0.1", self.ports[i]), WAIT_S).close()
            return True
        except ConnectionRefusedError:
            return False

    def ready(self, seconds=WAIT_S):
        until(lambda: all(self.is_ready(i) for i in range(len(self.names))), "all instances are ready", seconds)
        settled(self.port)
        return self

    def post(self, path, body=b"once"):
        status, fields, _ = ask(self.port, "POST", path, body)
        return status, dict(fields).get("weir-refusal")

    def captured(self, path, method="POST"):
        """A message that ran, as whoever stands in between has it."""
        before = len(self.middle.bytes()[0])
        assert ask(self.port, method, path, b"once" if method == "POST" else None)[0] == 200
        up = self.middle.bytes()[0][before:]
        return up[up.rindex(b"POST /.well-known/shr/1"):]

    def send(self, i, message):
        with socket.create_connection(("127.0.0.1", self.ports[i]), WAIT_S) as stream:
            stream.sendall(message)
            return stream.recv(65536)

    def event(self, i, name):
        page = self.inbounds[i].get("/metrics")[1]
        line = next(line for line in page.splitlines() if f'event="{name}"' in line and 'side="inbound"' in line)
        return int(line.split()[-1])

    def stop(self):
        try:
            for process in [self.outbound, *self.inbounds]:
                process.stop()
        finally:
            self.middle.stop()
            self.origin.stop()


@pytest.fixture(scope="module", params=sorted(programs()))
def store(request, tmp_path_factory):
    running = Store(tmp_path_factory.mktemp("store"), program=request.param)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def strict(store, tmp_path_factory):
    fleet = Fleet(tmp_path_factory.mktemp("strict"), store, ticket_keys={"store": True, "key": "file:../near/fleet.psk"}).ready()
    yield fleet
    fleet.stop()


def test_a_message_that_ran_runs_on_no_other_instance(strict):
    message = strict.captured("/strict")
    for i in (1, 0, 1):
        assert strict.send(i, message).startswith(b"HTTP/1.1 200")
    assert strict.origin.count("/strict") == 1
    assert strict.event(1, "claims_taken") + strict.event(1, "replays") >= 2


def test_instances_make_their_ticket_keys_together(strict):
    """A session that one made is opened by the other, and what lies in the store is wrapped."""
    message = strict.captured("/shared", "GET")
    before = strict.event(1, "unknown_ticket")
    assert strict.send(1, message).startswith(b"HTTP/1.1 200")
    assert strict.event(1, "unknown_ticket") == before
    # A safe method may run again: nothing is claimed for it.
    assert strict.origin.count("/shared") == 2
    keys = strict.store.run("KEYS", "shr1:tek:*")
    assert keys.startswith(b"*"), keys


def test_many_calls_of_each_method(strict):
    for i in range(50):
        method = ("POST", "PUT", "GET", "DELETE")[i % 4]
        assert ask(strict.port, method, f"/many/{i}", b"x" if method in ("POST", "PUT") else None)[0] == 200
    assert all(strict.origin.count(f"/many/{i}") == 1 for i in range(50))
    # A body that is streamed.
    connection = http.client.HTTPConnection("127.0.0.1", strict.port, timeout=WAIT_S)
    connection.request("POST", "/streamed", body=iter([b"a" * 700_000] * 3), headers={"host": "a"}, encode_chunked=True)
    assert connection.getresponse().read() == b"a" * 2_100_000
    connection.close()


def test_a_store_that_begins_to_forget_is_told_in_five_seconds(strict):
    strict.store.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        until(lambda: not strict.is_ready(0) and not strict.is_ready(1), "both say so", 5)
        assert "cache.evicts" in strict.inbounds[0].get("/health")[1]
        assert strict.post("/evicts") == (503, "relay.busy") and strict.origin.count("/evicts") == 0
        assert ask(strict.port, "GET", "/evicts")[0] == 200
        done = weir(strict.folder / "in0", "relay", "doctor", code=1)
        assert "cache.evicts" in done.stdout and "noeviction" in done.stdout
    finally:
        strict.store.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
    strict.ready()
    assert strict.post("/evicts")[0] == 200


def test_doctor_looks_at_the_store(strict):
    done = weir(strict.folder / "in0", "relay", "doctor", "--json")
    checks = {check["check"]: check["state"] for check in json.loads(done.stdout)[0]["checks"]}
    assert checks == {"tls": "warning", "reach": "good", "memory": "good", "role": "good", "clock": "good", "ring": "good"}


def test_a_store_that_stops_for_a_while(strict):
    """Nothing is sent without its word; what was refused was not executed, or the caller is told that it may have been."""
    strict.store.signal(signal.SIGSTOP)
    try:
        status, code = strict.post("/stopped")
        assert (status, code) in [(502, "relay.maybe_executed"), (503, "relay.busy")]
        assert ask(strict.port, "GET", "/stopped-get")[0] == 200
        until(lambda: not strict.is_ready(0), "it says so", 5)
    finally:
        strict.store.signal(signal.SIGCONT)
    began = time.monotonic()
    until(lambda: strict.post("/after")[0] == 200, "calls pass again", 5)
    assert time.monotonic() - began < 2
    assert strict.origin.count("/stopped") == 0


def test_a_store_that_wakes_up_with_another_run(strict):
    """Killed with all that it had: what it let through before is not let through again."""
    message = strict.captured("/before")
    strict.store.kill()
    strict.store.start()
    until(lambda: not strict.is_ready(1), "it says so", 5)
    for _ in range(20):
        strict.send(1, message)
        time.sleep(0.1)
    assert strict.origin.count("/before") == 1
    strict.ready()
    assert strict.post("/later")[0] == 200
    strict.send(1, message)
    assert strict.origin.count("/before") == 1


def test_local_promises_each_instance_alone(tmp_path):
    """What docs/relay.md says of `local`: a captured message runs once more on each other instance."""
    fleet = Fleet(tmp_path, replay="local").ready()
    try:
        message = fleet.captured("/local")
        for i in (0, 1, 1, 0):
            fleet.send(i, message)
        assert fleet.origin.count("/local") == 2
    finally:
        fleet.stop()


def test_tickets_of_another_mode_are_not_taken(tmp_path, store):
    """Behind one key, one instance strict and one local: neither takes the other's sessions, and the caller gets a new one."""
    fleet = Fleet(tmp_path, store)
    fleet.ready(WAIT_S)
    try:
        message = fleet.captured("/mode", "GET")
        fleet.inbounds[1].stop()
        fleet.inbounds[1] = fleet.begin(1, replay="local")
        until(lambda: fleet.is_ready(1), "it is ready")
        assert fleet.send(1, message).startswith(b"HTTP/1.1 409")
        assert fleet.event(1, "other_mode") == 1 and fleet.origin.count("/mode") == 1
        # A reload does not change the mode, and says so.
        fleet.configure(1, replay="strict")
        fleet.inbounds[1].process.send_signal(signal.SIGHUP)
        until(lambda: "relay.inbound.replay" in fleet.inbounds[1].logs.text(), "it says that this takes a restart")
    finally:
        fleet.stop()


OK = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n"
LIES = {
    "cut": OK + b"*2\r\n:0\r\n", "long": b"$%d\r\n" % (1 << 20) + b"x" * (1 << 20), "type": OK + b"*2\r\n$1\r\n0\r\n:1\r\n",
    "moved": b"-MOVED 3999 127.0.0.1:7001\r\n", "none": None, "taken": OK + b"*2\r\n:1\r\n:1\r\n", "unended": OK + b"*2\r\n:0\r\n:0\r\n",
    "memory": b"+OK\r\n-OOM command not allowed\r\n+QUEUED\r\n-EXECABORT no\r\n", "readonly": b"+OK\r\n-READONLY no\r\n+QUEUED\r\n-EXECABORT no\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


def test_a_store_that_answers_anything_else_lets_nothing_through(tmp_path):
    lying = Lying()
    fleet = Fleet(tmp_path, lying, instances=1).ready()
    try:
        assert fleet.post("/good")[0] == 200
        for name, claim in LIES.items():
            until(lambda: fleet.is_ready(0), "it is ready")
            lying.claim = claim
            asked = lying.asked
            status, code = fleet.post(f"/{name}")
            assert (status, code) in [(502, "relay.maybe_executed"), (503, "relay.busy")], (name, status, code)
            assert lying.asked > asked and fleet.origin.count(f"/{name}") == 0, name
            lying.claim = OK + b"*2\r\n:0\r\n:1\r\n"
        until(lambda: fleet.post("/again")[0] == 200, "calls pass again")
        for change, code in [({"role": "slave"}, "cache.replica"), ({"maxmemory_policy": "volatile-lru"}, "cache.evicts")]:
            lying.info = change
            until(lambda: code in fleet.inbounds[0].get("/health")[1], code, 5)
            lying.info = {}
            until(lambda: fleet.is_ready(0), "it is ready again")
        lying.ahead_s = 4
        until(lambda: "cache.clock" in fleet.inbounds[0].get("/health")[1], "the clock", 5)
        assert fleet.post("/clock") == (503, "relay.busy") and fleet.origin.count("/clock") == 0
    finally:
        fleet.stop()
        lying.stop()


@pytest.mark.parametrize("cache, inbound, said", [
    (None, {"replay": "strict"}, "relay.inbound.replay"),
    (None, {"ticket_keys": {"store": True, "key": "file:fleet.psk"}}, "relay.inbound.ticket_keys"),
    ("redis://10.0.0.1:6379", {"replay": "strict"}, "rediss://"),
    ("redis://store.example:6379", {}, "rediss://"),
    ("postgres://a", {}, "cache.redis"),
    ("redis://127.0.0.1", {"ticket_keys": {"key": "file:fleet.psk"}}, "ticket_keys"),
    ("redis://127.0.0.1", {"replay": "strict", "cache": {"redis": "env:NO_SUCH_URL"}}, "NO_SUCH_URL"),
])
def test_what_cannot_be_kept_is_refused_before_it_listens(tmp_path, cache, inbound, said):
    keygen(tmp_path, "inbound"), keygen(tmp_path, "outbound")
    weir(tmp_path, "relay", "keygen", "--psk", "fleet.psk")
    side = {"listen": "127.0.0.1:0", "keys": "file:inbound.key", "origins": {"api": {"url": "http://127.0.0.1:1"}},
            "allow": {"app": {"key": "file:outbound.key.pub"}}, **inbound}
    (tmp_path / "url").write_text(cache or "")
    write(tmp_path, {"relay": {"inbound": side}, **({"cache": {"redis": "file:url"}} if cache else {})})
    done = weir(tmp_path, "config", "check", code=None)
    assert done.returncode != 0 and said in done.stdout + done.stderr, done.stdout + done.stderr
    assert "10.0.0.1" not in done.stdout


def test_ticket_keys_reach_no_disk_and_are_of_one_fleet(tmp_path):
    shared = {"store": True, "key": "file:../near/fleet.psk"}
    store = Store(tmp_path / "store", "--save", "3600 1")
    try:
        fleet = Fleet(tmp_path / "fleet", store, instances=2, replay="local", ticket_keys=shared)
        try:
            until(lambda: "cache.persists" in fleet.inbounds[0].get("/health")[1], "it says so")
            assert not fleet.is_ready(0) and store.run("KEYS", "shr1:tek:*") == b"*0\r\n"
            store.run("CONFIG", "SET", "save", "")
            fleet.ready()
            fleet.inbounds[1].stop()
            weir(fleet.folder / "near", "relay", "keygen", "--psk", "other.psk")
            fleet.inbounds[1] = fleet.begin(1, ticket_keys={**shared, "key": "file:../near/other.psk"})
            until(lambda: "relay.fleet_key" in fleet.inbounds[1].get("/health")[1], "another key is told")
            assert "relay.fleet_key" in weir(fleet.folder / "in1", "relay", "doctor", code=1).stdout
            assert fleet.is_ready(0) and not fleet.is_ready(1)
        finally:
            fleet.stop()
    finally:
        store.stop()


def test_a_store_with_a_password_and_one_with_another(tmp_path):
    store = Store(tmp_path / "store", "--requirepass", "s3cret%2Fpass")
    store.url = f"redis://:s3cret%252Fpass@127.0.0.1:{store.port}"
    fleet = Fleet(tmp_path / "fleet", store, instances=1)
    try:
        fleet.ready()
        assert fleet.post("/password")[0] == 200
        fleet.inbounds[0].stop()
        store.url = store.url.replace("s3cret", "other")
        fleet.inbounds[0] = fleet.begin(0)
        until(lambda: "cache.password" in fleet.inbounds[0].get("/health")[1], "it says so")
        text = fleet.inbounds[0].logs.text()
        assert "other%" not in text and "other/" not in text and "252F" not in text
    finally:
        fleet.stop()
        store.stop()


def certificate(folder, name):
    """A certificate for this host that is its own authority: its file, its key's, and the authority's."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "store.crt", folder / "store.pem", folder / "store.crt"]
    alternative = f"IP:{name}" if name[0].isdigit() else f"DNS:{name}"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=store", "-addext", f"subjectAltName={alternative}", "-addext", "basicConstraints=critical,CA:FALSE",
                    "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return [str(file) for file in files]


@pytest.mark.parametrize("name, code", [("127.0.0.1", None), ("other.example", "cache.tls")])
def test_a_store_by_tls_has_to_be_who_it_says(tmp_path, name, code):
    store = Store(tmp_path / "store", tls=certificate(tmp_path / "tls", name))
    store.url = f"rediss://127.0.0.1:{store.port}"
    fleet = Fleet(tmp_path / "fleet", store, instances=1)
    try:
        if code:
            until(lambda: code in fleet.inbounds[0].get("/health")[1], "it says so")
            assert code in weir(fleet.folder / "in0", "relay", "doctor", code=1).stdout
        else:
            fleet.ready()
            assert fleet.post("/tls")[0] == 200 and fleet.origin.count("/tls") == 1
    finally:
        fleet.stop()
        store.stop()


# What dies.


class HaProxy:
    """By request, over all instances; it sends again by itself what brought no answer, whatever the method."""

    def __init__(self, fleet):
        self.folder, self.port = fleet.folder, free_port()
        servers = "".join(f"  server s{i} 127.0.0.1:{port} check inter 100 fall 1 rise 1\n" for i, port in enumerate(fleet.ports))
        (self.folder / "haproxy.cfg").write_text(
            "defaults\n  mode http\n  timeout connect 1s\n  timeout client 30s\n  timeout server 30s\n  retries 3\n"
            "  retry-on conn-failure empty-response response-timeout\n  option redispatch 1\n"
            f"frontend f\n  bind 127.0.0.1:{self.port}\n  default_backend b\nbackend b\n  balance roundrobin\n{servers}")
        self.start()

    def start(self):
        self.process = subprocess.Popen(["/usr/sbin/haproxy", "-f", "haproxy.cfg", "-db"], cwd=self.folder,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.kill()


class Load:
    """Calls with a path of their own, one after the other, and what came of each."""

    def __init__(self, port, workers=4):
        self.port, self.over, self.results = port, threading.Event(), []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(workers)]
        for thread in self.threads:
            thread.start()

    def work(self, worker):
        for i in range(1 << 30):
            if self.over.is_set():
                return
            method = "GET" if i % 4 == 0 else "POST"
            path, began = f"/load/{worker}/{i}", time.monotonic()
            try:
                status, fields, data = ask(self.port, method, path, path.encode() if method == "POST" else None)
                good = status != 200 or data == (path.encode() if method == "POST" else b"nothing")
                result = (status, dict(fields).get("weir-refusal"), good)
            except (OSError, http.client.HTTPException):
                result = (0, "connection", True)
                time.sleep(0.02)
            with self.lock:
                self.results.append((method, path, began, *result))

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        return self.results


def test_nothing_runs_twice_whatever_is_killed(tmp_path):
    store = Store(tmp_path / "store")
    fleet = Fleet(tmp_path / "fleet", store, balancer=HaProxy)
    fleet.ready()
    load, killed = Load(fleet.port), []
    try:
        for what in (0, 1, "haproxy", 0, 1, "outbound", 0, 1, 0, 1):
            time.sleep(0.3 + random.random() / 2)
            killed.append((what, time.monotonic()))
            if what == "haproxy":
                fleet.middle.kill()
                fleet.middle.start()
            elif what == "outbound":
                fleet.outbound.kill()
                fleet.outbound.addresses, fleet.outbound.status = {}, None
                fleet.outbound.start()
            else:
                fleet.inbounds[what].kill()
                fleet.inbounds[what] = fleet.begin(what)
                until(lambda: fleet.is_ready(what), "it is ready again")
        time.sleep(0.5)
        results = load.end()
        seen = {}
        for method, path, _, body in list(fleet.origin.seen):
            assert method == "GET" or not body or body == path.encode() or not path.startswith("/load/")
            seen[path] = seen.get(path, 0) + (method == "POST")
        assert not [path for path, times in seen.items() if times > 1], "executed twice"
        posts = [result for result in results if result[0] == "POST"]
        assert len(posts) > 200 and sum(result[3] == 200 for result in posts) > len(posts) / 2
        gone = [at for what, at in killed if what in ("haproxy", "outbound")]
        for method, path, began, status, code, good in results:
            assert good, (method, path)
            times = seen.get(path, 0)
            is_gone = any(-2 < began - at < 3 for at in gone)
            if method == "GET":
                assert status == 200 or is_gone, (path, status, code)
            elif status == 200:
                assert times == 1, path
            else:
                assert is_gone or (status, code) in [(502, "relay.maybe_executed"), (503, "relay.busy"), (503, "relay.down")], (path, status, code)
                assert code == "relay.maybe_executed" or status == 0 or times == 0, (path, status, code)
    finally:
        load.end()
        fleet.stop()
        store.stop()
