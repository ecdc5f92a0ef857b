"""`relay:` in weir.yaml, its keys on the command line, and what reloads."""

import base64
import datetime
import json
import os
import signal
import stat

import pytest
from gateway import new_key, until
from relay import Origin, Pair, Process, ask, claims, keygen, settled, weir

POLICY = """
@id("relay") permit (principal, action == Action::"relay:pass", resource);
@id("not-batch") forbid (principal == Agent::"batch", action, resource);
"""


def write(folder, config, policy=POLICY):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.cedar").write_text(policy)
    base = {"listen": "127.0.0.1:0", "state": "state", "policy": "policy.cedar", "logs": {"format": "json"},
            "log": {"durability": "os"}}
    (folder / "weir.yaml").write_text(json.dumps({**base, **config}))


def records(folder):
    shown = weir(folder, "audit", "show", "state", "--json").stdout
    return [json.loads(line) for line in shown.splitlines() if line.strip()]


class Served:
    """Both sides, each a `weir serve` of its own."""

    def __init__(self, folder):
        self.origin, self.other = Origin(), Origin()
        self.near, self.far = folder / "near", folder / "far"
        write(self.far, {})
        write(self.near, {})
        keygen(self.far, "inbound"), keygen(self.near, "outbound"), keygen(self.near, "second")
        self.inbound_relay = {
            "listen": "127.0.0.1:0", "keys": "file:inbound.key",
            "origins": {"api": {"url": self.origin.url}, "other": {"url": self.other.url}},
            "routes": [{"host": "other.example", "origin": "other"}, {"path": "/v1", "origin": "api"}],
            "allow": {"app": {"key": f"file:{self.near}/outbound.key.pub"}},
        }
        write(self.far, {"relay": {"inbound": self.inbound_relay}})
        self.inbound = Process(self.far, "serve").start()
        self.keys = {name: new_key(name) for name in ("dev", "batch")}
        self.outbound_config = {
            "agents": {name: {"key": digest} for name, (_, digest) in self.keys.items()},
            "relay": {"outbound": {
                "listen": "127.0.0.1:0", "key": "file:outbound.key",
                "peers": {"far": {"url": f"http://127.0.0.1:{self.inbound.port('inbound')}",
                                  "keys": f"file:{self.far}/inbound.key.pub"}},
                "plain": {"open": {"url": self.other.url}},
                "routes": [{"path": "/open", "plain": "open"}, {"peer": "far"}],
            }},
        }
        write(self.near, self.outbound_config)
        self.outbound = Process(self.near, "serve").start()
        self.port = self.outbound.port("outbound")

    def headers(self, agent="dev"):
        return {"proxy-authorization": f"Bearer {self.keys[agent][0]}"} if agent else {}

    def stop(self):
        self.outbound.stop()
        self.inbound.stop()
        self.origin.stop()
        self.other.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    running = Served(tmp_path_factory.mktemp("served"))
    settled(running.port, "/v1/echo", running.headers())
    yield running
    running.stop()
    for folder in (running.near, running.far):
        weir(folder, "audit", "verify", "state")


def test_routes_by_host_and_path(served):
    key = served.headers()
    assert ask(served.port, "POST", "/v1/here", b"a", key)[0] == 200
    assert ask(served.port, "POST", "/v1/there", b"b", key, host="other.example")[0] == 200
    assert ask(served.port, "GET", "/v2", headers=key)[0] in (403, 404)
    assert served.origin.count("/v1/here") == 1 and served.other.count("/v1/there") == 1
    assert served.origin.count("/v2") == served.other.count("/v2") == 0


def test_what_is_passed_on_as_it_is(served):
    status, _, data = ask(served.port, "POST", "/open/door", b"unsealed", served.headers())
    assert (status, data) == (200, b"unsealed") and served.other.count("/open/door") == 1


def test_a_plain_target_cannot_say_that_weir_refused(served):
    assert b"weir-refusal" not in claims(served.port, "/open", served.headers()).replace(b"trailer: weir-refusal", b"")


@pytest.mark.parametrize("headers", [
    {}, {"proxy-authorization": "Bearer weir_nobody"}, {"proxy-authorization": "Basic x"},
])
def test_a_caller_without_a_good_key_is_refused(served, headers):
    status, _, _ = ask(served.port, "GET", "/v1/stranger", headers=headers)
    assert status == 407 and served.origin.count("/v1/stranger") == 0


def test_the_callers_key_stays_here(served):
    ask(served.port, "GET", "/v1/key", headers=served.headers())
    seen = next(s for s in served.origin.seen if s[1] == "/v1/key")
    assert "proxy-authorization" not in {name.lower() for name in seen[2]}


def test_the_policy_is_asked(served):
    status, _, data = ask(served.port, "GET", "/v1/batch", headers=served.headers("batch"))
    assert status == 403 and b"policy" in data, data
    assert served.origin.count("/v1/batch") == 0


def test_both_sides_record_who_and_where_to(served):
    ask(served.port, "GET", "/v1/echo", headers=served.headers())
    near = until(lambda: [r for r in records(served.near) if "relay:pass" in json.dumps(r)], "records")
    text = json.dumps(near)
    assert "dev" in text and "far" in text
    text = json.dumps(records(served.far))
    assert "app" in text and "api" in text


def test_an_outbound_can_be_enrolled_and_taken_out_without_a_restart(served, tmp_path):
    second = Process(served.near, "relay", "outbound", "--listen", "127.0.0.1:0", "--key", "second.key",
                     "--to", f"http://127.0.0.1:{served.inbound.port('inbound')}",
                     "--peer", f"{served.far}/inbound.key.pub")
    with second:
        port = second.port("outbound")
        assert ask(port, path="/v1/second")[0] in (502, 503)
        allow = {**served.inbound_relay["allow"], "second": {"key": f"file:{served.near}/second.key.pub"}}
        write(served.far, {"relay": {"inbound": {**served.inbound_relay, "allow": allow}}})
        served.inbound.process.send_signal(signal.SIGHUP)
        settled(port, "/v1/second")
        write(served.far, {"relay": {"inbound": served.inbound_relay}})
        served.inbound.process.send_signal(signal.SIGHUP)
        until(lambda: ask(port, path="/v1/second")[0] in (403, 502, 503), "it is refused again")
        # The first is not disturbed by any of it.
        assert ask(served.port, "POST", "/v1/first", b"x", served.headers())[0] == 200


def test_an_inbound_changes_its_key_with_no_failed_request(tmp_path):
    served = Served(tmp_path)
    try:
        settled(served.port, "/v1/echo", served.headers())
        keygen(served.far, "next")
        both = {**served.inbound_relay, "keys": ["file:inbound.key", "file:next.key"]}

        def both_sides(inbound, keys):
            write(served.far, {"relay": {"inbound": inbound}})
            served.inbound.process.send_signal(signal.SIGHUP)
            served.outbound_config["relay"]["outbound"]["peers"]["far"]["keys"] = keys
            write(served.near, served.outbound_config)
            served.outbound.process.send_signal(signal.SIGHUP)

        files = [f"file:{served.far}/next.key.pub", f"file:{served.far}/inbound.key.pub"]
        both_sides(both, files)
        for process in (served.inbound, served.outbound):
            until(lambda p=process: '"message":"reloaded"' in p.logs.text(), "it reloaded")
        for i in range(20):
            assert ask(served.port, "POST", "/v1/echo", b"%d" % i, served.headers())[0] == 200
    finally:
        served.stop()


def test_a_caller_whose_key_expires_is_refused_from_then_on(tmp_path):
    """Its own outbound: the peer need not be there for a stranger to be refused."""
    keygen(tmp_path, "outbound"), keygen(tmp_path, "inbound")
    (key, digest), plain = new_key("soon"), Origin()
    expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)
    write(tmp_path, {
        "agents": {"soon": {"key": digest, "expires": expires.strftime("%Y-%m-%dT%H:%M:%S.000Z")}},
        "relay": {"outbound": {
            "listen": "127.0.0.1:0", "key": "file:outbound.key",
            "peers": {"far": {"url": "http://127.0.0.1:9", "keys": "file:inbound.key.pub"}},
            "plain": {"here": {"url": plain.url}}, "routes": [{"plain": "here"}],
        }},
    })
    with Process(tmp_path, "serve") as outbound:
        port, headers = outbound.port("outbound"), {"proxy-authorization": f"Bearer {key}"}
        status = ask(port, headers=headers)[0]
        assert status == 200 or datetime.datetime.now(datetime.UTC) > expires
        until(lambda: ask(port, headers=headers)[0] == 407, "it is refused")
    plain.stop()


def test_a_caller_that_is_stopped_or_suspended_is_refused_after_the_reload(tmp_path):
    """A grant that was good ends with the reload, so the next call is judged again."""
    keygen(tmp_path, "outbound"), keygen(tmp_path, "inbound")
    (key, digest), plain = new_key("dev"), Origin()
    config = {
        "agents": {"dev": {"key": digest}},
        "relay": {"outbound": {
            "listen": "127.0.0.1:0", "key": "file:outbound.key",
            "peers": {"far": {"url": "http://127.0.0.1:9", "keys": "file:inbound.key.pub"}},
            "plain": {"here": {"url": plain.url}}, "routes": [{"plain": "here"}],
        }},
    }
    write(tmp_path, config)
    with Process(tmp_path, "serve") as outbound:
        port, headers = outbound.port("outbound"), {"proxy-authorization": f"Bearer {key}"}
        suspended = {"agents": {"dev": {"key": digest, "state": "suspended"}}}
        for change, code in (({"stop": "agent:dev"}, b"gate.stopped"), ({"stop": ["lane:relay"]}, b"gate.stopped"),
                             (suspended, b"agent.suspended")):
            until(lambda: ask(port, headers=headers)[0] == 200, "it may call")
            write(tmp_path, {**config, **change})
            outbound.process.send_signal(signal.SIGHUP)
            until(lambda: ask(port, headers=headers)[0] != 200, "it is refused")
            assert code in ask(port, headers=headers)[2]
            write(tmp_path, config)
            outbound.process.send_signal(signal.SIGHUP)
    plain.stop()


def test_ticket_keys_turn_over_with_no_failed_request(tmp_path):
    weir(tmp_path, "relay", "keygen", "--tickets", "tickets")
    with Pair(tmp_path, inbound=["--ticket-keys", "tickets"]) as pair:
        for turn in range(3):
            key = base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
            begins = int(datetime.datetime.now().timestamp() * 1000)
            lines = (tmp_path / "tickets").read_text()
            (tmp_path / "new").write_text(f"{lines}shr1_tek_{turn:08x}_{begins}_{key}\n")
            os.replace(tmp_path / "new", tmp_path / "tickets")
            pair.inbound.process.send_signal(signal.SIGHUP)
            until(lambda: pair.inbound.logs.text().count("reloaded") > turn, "it reloaded")
            for i in range(20):
                assert ask(pair.port, "POST", "/echo", b"%d" % i)[2] == b"%d" % i
        # A file that is no good changes nothing, and says so.
        (tmp_path / "tickets").write_text("something else\n")
        pair.inbound.process.send_signal(signal.SIGHUP)
        until(lambda: "not reloaded" in pair.inbound.logs.text(), "it says no")
        assert ask(pair.port, "POST", "/echo", b"still")[2] == b"still"


# Keys on the command line.


def test_keygen_writes_what_only_we_can_read_and_overwrites_nothing(tmp_path):
    made = keygen(tmp_path, "a")
    private = (tmp_path / "a.key").read_text().strip()
    assert private.startswith("shr1_key_") and len(private) == 52
    assert stat.S_IMODE(os.stat(tmp_path / "a.key").st_mode) == 0o600
    public = (tmp_path / "a.key.pub").read_text().strip()
    assert public == made["public"] and public.startswith("shr1_pub_") and len(public) == 1631
    again = weir(tmp_path, "relay", "keygen", "a.key", code=2)
    assert "is there already" in again.stderr
    (tmp_path / "a.key").unlink()
    assert "is there already" in weir(tmp_path, "relay", "keygen", "a.key", code=2).stderr
    assert not (tmp_path / "a.key").exists()
    text = weir(tmp_path, "relay", "keygen", "b.key").stdout
    secret = (tmp_path / "b.key").read_text().strip()
    assert secret not in text and "pin" in text and "shr1_pub_" not in text and len(text) < 400
    text = weir(tmp_path, "relay", "keygen", "c.key", "--full").stdout
    assert (tmp_path / "c.key.pub").read_text().strip() in text


def test_show_says_the_same_of_both_files_and_no_secret(tmp_path):
    made = keygen(tmp_path, "a")
    shown = [json.loads(weir(tmp_path, "relay", "show", name, "--json").stdout) for name in ("a.key", "a.key.pub")]
    assert shown[0] == shown[1]
    assert {name: made[name] for name in shown[0]} == shown[0]
    assert shown[0]["pin"].startswith(shown[0]["kid"])
    private = (tmp_path / "a.key").read_text().strip()
    text = weir(tmp_path, "relay", "show", "a.key").stdout
    assert private not in text and made["pin"] in text and "shr1_pub_" not in text and len(text) < 400
    assert made["public"] in weir(tmp_path, "relay", "show", "a.key", "--full").stdout
    (tmp_path / "bad").write_text("shr1_key_AAAA\n")
    assert "private relay key" in weir(tmp_path, "relay", "show", "bad", code=2).stderr


def test_ticket_keys_are_brought_up_to_date(tmp_path):
    first = json.loads(weir(tmp_path, "relay", "keygen", "--tickets", "tickets", "--json").stdout)
    assert first["made"] == first["keys"] == 4
    text = (tmp_path / "tickets").read_text()
    again = json.loads(weir(tmp_path, "relay", "keygen", "--tickets", "tickets", "--json").stdout)
    assert again["made"] == 0 and (tmp_path / "tickets").read_text() == text
    assert stat.S_IMODE(os.stat(tmp_path / "tickets").st_mode) == 0o600
    (tmp_path / "other").write_text("something else\n")
    assert weir(tmp_path, "relay", "keygen", "--tickets", "other", code=2).stderr
    assert (tmp_path / "other").read_text() == "something else\n"


def test_a_secret_on_the_command_line_is_refused_and_not_repeated(tmp_path):
    keygen(tmp_path, "a"), keygen(tmp_path, "b")
    private = (tmp_path / "a.key").read_text().strip()
    arguments = ["relay", "outbound", "--listen", "127.0.0.1:0", "--to", "http://127.0.0.1:9", "--peer", "b.key.pub"]
    done = weir(tmp_path, *arguments, "--key", private, code=2)
    assert "command line" in done.stderr and private not in done.stderr
    done = weir(tmp_path, *arguments[:-1], "a.key", "--key", "b.key", code=2)
    assert "private" in done.stderr and private not in done.stderr
    done = weir(tmp_path, "relay", "outbound", "--listen", "0.0.0.0:0", "--to", "http://127.0.0.1:9",
                "--peer", "b.key.pub", code=2)
    assert "127.0.0.1" in done.stderr


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Pair(tmp_path_factory.mktemp("doctor")) as running:
        yield running


def doctor(pair, *arguments, code=0):
    url = f"http://127.0.0.1:{pair.inbound.port('inbound')}"
    done = weir(pair.folder, "relay", "doctor", "--to", url, "--json", *arguments, code=code)
    checks = json.loads(done.stdout)[0]["checks"]
    return {check["check"]: check for check in checks}


def test_doctor_finds_a_good_pair_good(pair):
    checks = doctor(pair, "--key", "outbound.key", "--peer", "inbound.key.pub", "--path", "/echo")
    assert {name: check["state"] for name, check in checks.items()} == {
        name: "good" for name in ("key", "reach", "http", "keys", "handshake", "clock", "ticket", "round trip")}
    assert "200" in checks["round trip"]["what"]
    text = weir(pair.folder, "relay", "doctor", "--to", f"http://127.0.0.1:{pair.inbound.port('inbound')}",
                "--key", "outbound.key", "--peer", pair.keys["inbound"]["pin"]).stdout
    assert text.count("good") == 8


def test_doctor_says_what_is_wrong_and_how_to_mend_it(pair):
    keygen(pair.folder, "stranger")
    checks = doctor(pair, "--key", "outbound.key", "--peer", "stranger.key.pub", code=1)
    assert checks["keys"]["state"] == "bad" and "handshake" not in checks
    checks = doctor(pair, "--key", "stranger.key", "--peer", "inbound.key.pub", code=1)
    assert checks["handshake"]["state"] == "bad" and "allow" in checks["handshake"]["mend"]
    done = weir(pair.folder, "relay", "doctor", "--to", "http://127.0.0.1:9", "--key", "outbound.key",
                "--peer", "inbound.key.pub", code=1)
    assert "reach" in done.stdout and "BAD" in done.stdout
    url = f"http://127.0.0.1:{pair.origin.port}"
    done = weir(pair.folder, "relay", "doctor", "--to", url, "--key", "outbound.key", "--peer",
                "inbound.key.pub", "--json", code=1)
    assert any(check["state"] == "bad" for check in json.loads(done.stdout)[0]["checks"])


def test_pin_shows_and_writes_only_what_was_expected(pair):
    url, pin = f"http://127.0.0.1:{pair.inbound.port('inbound')}", pair.keys["inbound"]["pin"]
    shown = weir(pair.folder, "relay", "pin", url)
    assert pin in shown.stdout and "compare" in shown.stdout
    weir(pair.folder, "relay", "pin", url, "--expect", "0" * 64, "--write", "not.pub", code=1)
    assert not (pair.folder / "not.pub").exists()
    assert weir(pair.folder, "relay", "pin", url, "--write", "not.pub", code=2).stderr
    done = weir(pair.folder, "relay", "pin", url, "--expect", pin, "--write", "found.pub", "--json")
    assert json.loads(done.stdout)["matched"] == pin
    assert (pair.folder / "found.pub").read_text().strip() == pair.keys["inbound"]["public"]
    assert weir(pair.folder, "relay", "pin", f"http://127.0.0.1:{pair.origin.port}", code=2).stderr


def test_from_the_environment_of_an_mte_relay(tmp_path):
    (tmp_path / "mte.env").write_text(
        "UPSTREAM='http://127.0.0.1:3000'\nCLIENT_ID_SECRET=hunter2hunter2hunter2hunter2\nPORT=8080\n"
        "MTE_ROUTES=/api/v1/*\nPASS_THROUGH_ROUTES=/health\nREDIS_URL=redis://10.0.0.1\nOUTBOUND_TOKEN=hunter3\n")
    done = weir(tmp_path, "init", "--from", "mte-env", "mte.env", "relay")
    for word in ("UPSTREAM", "relay.inbound.routes", "CLIENT_ID_SECRET", "REDIS_URL", "PASS_THROUGH_ROUTES", "weir_"):
        assert word in done.stdout, word
    assert "hunter" not in done.stdout
    assert "hunter" not in (tmp_path / "relay/weir.yaml").read_text()
    weir(tmp_path / "relay", "config", "check")
    assert "is there already" in weir(tmp_path, "init", "--from", "mte-env", "mte.env", "relay", code=2).stderr
    assert "not known" in weir(tmp_path, "init", "--from", "other", "mte.env", "x", code=2).stderr
