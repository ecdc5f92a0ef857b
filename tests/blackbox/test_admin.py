"""The admin API: roles, who is known by what, the break-glass secret, records, and the document that describes it all."""

import http.client
import json
import os
import re
import subprocess

import pytest
from gateway import ROOT, Gateway, child_server, new_key, until
from identity import Identities

ROLES = ("auditor", "operator", "admin")
KEYS = {role: new_key(f"admin {role}") for role in ROLES}
OPERATORS = {role: {"key": digest, "role": role} for role, (_, digest) in KEYS.items()}


def admin_port(gate):
    """The port of the admin listener, as the gateway's messages say it."""
    line = next(line for line in gate.logs.all if "pages for the operator" in line)
    return int(json.loads(line)["address"].rpartition(":")[2])


class Admin:
    """The admin listener of a gateway, by TCP, as somebody with a key."""

    def __init__(self, gate):
        self.gate, self.port = gate, admin_port(gate)

    def ask(self, method, path, key=None, body=None):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        raw = json.dumps(body) if body is not None else None
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return self.gate.request(method, path, raw, {**headers, "content-type": "application/json"}, connection)


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    admin = {"listen": "127.0.0.1:0", "operators": OPERATORS}
    with Identities(tmp_path_factory.mktemp("admin"), {"child": child_server()}, admin=admin) as running:
        yield running
        running.verify()


def recorded(gate):
    """What was done, who did it, and why not."""
    return {(r["what"], r["by"], r.get("refused")) for r in gate.records() if r["kind"] == "admin"}


def code(answer):
    return answer.refusal()[0]


def actions(document):
    """What the document says there is: method, path with names in it, the least role."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                yield method.upper(), path, operation


def test_each_action_in_each_role(gate):
    admin = Admin(gate)
    document = admin.ask("GET", "/admin/openapi.json", KEYS["auditor"][0]).json()
    found = list(actions(document))
    assert len(found) >= 14
    for method, path, operation in found:
        least = ROLES.index(operation["x-weir-role"])
        asked = path.replace("{agent}", "nobody").replace("{id}", "0" * 16)
        for number, role in enumerate(ROLES):
            answer = admin.ask(method, asked, KEYS[role][0], {} if method != "GET" else None)
            what = (method, path, role, answer.status, answer.body)
            if number < least:
                assert (answer.status, code(answer)) == (403, "admin.role_missing"), what
                assert operation["x-weir-role"] in answer.refusal()[1], what
            else:
                assert answer.status != 403 or code(answer) != "admin.role_missing", what
                assert answer.status < 500, what
        for key in (None, "weir_nonsense", gate.keys["dev"]):
            answer = admin.ask(method, asked, key)
            assert (answer.status, code(answer)) == (401, "admin.key"), (method, path, key, answer.body)
    # Nothing of it is where agents are.
    for method, path, _ in found:
        asked = path.replace("{agent}", "nobody").replace("{id}", "0" * 16)
        assert gate.request(method, asked, headers=gate.headers("dev")).status == 404


def test_a_role_does_what_it_is_for(gate):
    admin = Admin(gate)
    made = admin.ask("POST", "/admin/agents/build/keys", KEYS["admin"][0], {"groups": ["engineers"]})
    assert made.status == 201
    bearer = f"Bearer {made.json()['key']}"
    assert gate.whoami(bearer).status == 200
    suspended = admin.ask("POST", "/admin/agents/build/suspend", KEYS["operator"][0], {})
    assert (suspended.status, suspended.json()["state"]) == (200, "suspended")
    assert gate.whoami(bearer).status == 403
    shown = admin.ask("GET", "/admin/agents/build", KEYS["auditor"][0]).json()
    assert shown["credentials"][0]["id"] == made.json()["id"] and made.json()["key"] not in str(shown)
    stops = admin.ask("PUT", "/stops", KEYS["operator"][0], {"stop": ["agent:dev"]})
    assert (stops.status, stops.json()) == (200, {"stopped": ["agent:dev"]})
    assert admin.ask("DELETE", "/stops", KEYS["operator"][0]).json() == {"stopped": []}
    due = {("key.new", "admin", None), ("agent.suspend", "operator", None), ("agents.show", "auditor", None),
           ("stops.set", "operator", None), ("stop", "operator", None), ("stops.lift", "operator", None), ("go", "operator", None)}
    until(lambda: due <= recorded(gate), "each is recorded")
    assert not any(what == "metrics" and refused is None for what, _, refused in recorded(gate))


def test_what_is_refused_is_recorded_and_guessing_fills_no_log(gate):
    admin = Admin(gate)
    assert code(admin.ask("POST", "/admin/agents", KEYS["auditor"][0], {"name": "x"})) == "admin.role_missing"
    before = sum(r["kind"] == "admin" for r in gate.records())
    for _ in range(200):
        assert admin.ask("GET", "/admin/agents", "weir_guess").status == 401
    due = {("agents.invite", "auditor", "admin.role_missing"), ("agents.list", "a stranger", "admin.key")}
    until(lambda: due <= recorded(gate), "refusals are recorded")
    records = [r for r in gate.records() if r["kind"] == "admin"]
    # Two minutes may have had a share.
    assert len(records) - before <= 120
    assert "weir_guess" not in json.dumps(records)


def test_users_of_the_socket_have_the_roles_that_are_written(tmp_path):
    me = os.getuid()
    for role, invites in (("auditor", False), ("operator", False), ("admin", True), (None, True)):
        admin = {"mode": "0660", "operators": {"me": {"uid": me, "role": role}} if role else {}}
        with Identities(tmp_path / str(role), {}, admin=admin) as gate:
            assert (gate.state / "admin.sock").stat().st_mode & 0o777 == 0o660
            assert gate.operator("/metrics").status == 200
            done = gate.weir("agents", "invite", "build", check=False)
            assert (done.returncode == 0) == invites, done.stderr
            assert invites or "admin.role_missing" in done.stderr
            who = f"me (uid {me})" if role else f"uid {me}"
            due = ("agent.invite", who, None) if invites else ("agents.invite", who, "admin.role_missing")
            until(lambda: due in recorded(gate), "it is recorded")
    # Another user is nobody: with its own number written for somebody else, and a key for the rest.
    admin = {"key": KEYS["admin"][1], "operators": {"other": {"uid": me + 1, "role": "admin"}}}
    with Identities(tmp_path / "other", {}, admin=admin) as gate:
        answer = gate.operator("/admin/agents")
        assert (answer.status, code(answer)) == (401, "admin.key")
        assert gate.operator("/admin/agents", headers={"authorization": f"Bearer {KEYS['admin'][0]}"}).status == 200


def test_over_tcp_without_keys_metrics_are_read_and_nothing_else(tmp_path):
    with Gateway(tmp_path, {}, admin={"listen": "127.0.0.1:0"}) as gate:
        admin = Admin(gate)
        assert admin.ask("GET", "/metrics").status == 200
        for method, path in (("GET", "/admin/agents"), ("GET", "/stops"), ("PUT", "/stops"), ("GET", "/admin/openapi.json")):
            assert admin.ask(method, path).status == 401, (method, path)


def test_the_break_glass_secret_is_shown_once_and_opens(tmp_path):
    admin = {"listen": "127.0.0.1:0", "operators": {"ci": OPERATORS["auditor"]}}
    gate = Identities(tmp_path, {}, admin=admin)

    def start():
        gate.stdout = (tmp_path / "out").open("w")
        gate.start()
        gate.stdout.close()
        return (tmp_path / "out").read_text()

    said = start()
    secret = next(word for word in said.split() if word.startswith("weir_break_glass_"))
    assert "shown once" in said and len(secret) == len("weir_break_glass_") + 64
    assert secret not in gate.logs.text()
    kept = gate.state / "break-glass.sha256"
    assert kept.stat().st_mode & 0o777 == 0o600 and secret not in kept.read_text()
    made = Admin(gate).ask("POST", "/admin/agents", secret, {"name": "build"})
    assert made.status == 201
    assert ("agent.invite", "break-glass", None) in recorded(gate)
    gate.stop()
    assert start() == ""
    assert Admin(gate).ask("GET", "/admin/agents", secret).status == 200
    gate.stop()
    kept.unlink()
    again = start()
    assert "shown once" in again and secret not in again
    assert Admin(gate).ask("GET", "/admin/agents", secret).status == 401
    gate.stop()
    kept.write_text("nonsense")
    done = gate.weir("serve", "-c", "weir.yaml", check=False)
    assert done.returncode == 2 and "take it away" in done.stderr, done.stderr


def test_a_reload_puts_other_operators_in_force(tmp_path):
    settings = {"admin": {"listen": "127.0.0.1:0", "operators": {"ci": OPERATORS["auditor"]}}}
    with Identities(tmp_path, {}, **settings) as gate:
        admin = Admin(gate)
        assert admin.ask("GET", "/admin/agents", KEYS["auditor"][0]).status == 200
        config = json.loads((tmp_path / "weir.yaml").read_text())
        config["admin"]["operators"] = {"boss": OPERATORS["admin"]}
        (tmp_path / "weir.yaml").write_text(json.dumps(config))
        until(lambda: admin.ask("GET", "/admin/agents", KEYS["auditor"][0]).status == 401, "the auditor is known no more")
        assert admin.ask("POST", "/admin/agents", KEYS["admin"][0], {"name": "x"}).status == 201


@pytest.mark.parametrize("admin, what", [
    ({"operators": {"a": {"role": "admin"}}}, "needs either uid or key"),
    ({"operators": {"a": {"uid": 1, "key": OPERATORS["admin"]["key"], "role": "admin"}}}, "needs either uid or key"),
    ({"operators": {"a": {"uid": 1}}}, "role"),
    ({"operators": {"a": {"uid": 1, "role": "root"}}}, "role"),
    ({"operators": {"a": {"uid": 1, "role": "admin"}, "b": {"uid": 1, "role": "auditor"}}}, "what somebody else is known by"),
    ({"key": OPERATORS["admin"]["key"], "operators": {"a": OPERATORS["admin"]}}, "what somebody else is known by"),
    ({"listen": "127.0.0.1:9", "mode": "0660"}, "mode"),
])
def test_operators_that_cannot_be_are_told(tmp_path, admin, what):
    gate = Gateway(tmp_path, {}, admin=admin)
    done = gate.weir("config", "check", check=False)
    assert done.returncode == 1 and what in done.stderr, done.stderr


def test_the_command_prints_the_document(gate):
    printed = json.loads(gate.weir("api", "openapi").stdout)
    assert printed == Admin(gate).ask("GET", "/admin/openapi.json", KEYS["auditor"][0]).json()


def test_schemathesis_finds_nothing_that_the_document_does_not_say(gate, tmp_path):
    admin = Admin(gate)
    (tmp_path / "api.json").write_text(gate.weir("api", "openapi").stdout)
    program = ROOT / ".setup/venv-openapi/bin/schemathesis"
    done = subprocess.run(
        [program, "run", tmp_path / "api.json", "--url", f"http://127.0.0.1:{admin.port}", "--header", f"Authorization: Bearer {KEYS['admin'][0]}",
         "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
         "--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--seed", "1", "--no-color"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    # Each operation was tried, and nothing went wrong.
    generated, passed = re.search(r"(\d+) generated, (\d+) passed", done.stdout).groups()
    assert generated == passed and int(passed) > 200 and "Tested: 14" in done.stdout, done.stdout[-3000:]
