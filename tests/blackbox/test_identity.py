"""Who is calling, proved on every call: keys made while serving, enrolment, tokens, proofs, and what takes them back at once."""

import base64
import http.client
import json
import re
import threading
import time

import pytest
from gateway import Answer, Session, UnixConnection, child_server
from identity import JWT_BEARER, Identities, Key, b64, sha256
from test_listeners import port_of

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(scope="module")
def gate(origin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("identity")
    with Identities(folder, {"web": {"url": origin.url}, "child": child_server()}) as running:
        yield running
        running.verify()


def refused(answer, status, code):
    assert (answer.status, answer.refusal()[0]) == (status, code), (answer.status, answer.body)


def test_keys_are_made_rotated_and_revoked_while_it_serves(gate):
    made = json.loads(gate.weir("keys", "new", "ops", "--group", "engineers", "--json").stdout)
    bearer = f"Bearer {made['key']}"
    said = gate.whoami(bearer).json()
    assert (said["agent"], said["groups"], said["by"]) == ("ops", ["engineers"], "key")
    assert gate.post("web", LIST, None, authorization=bearer).status in (200, 400)
    listed = gate.weir("keys", "list", "ops").stdout
    assert made["id"] in listed and made["key"] not in listed
    second = json.loads(gate.weir("keys", "rotate", "ops", "--overlap-hours", "1", "--json").stdout)
    assert gate.whoami(bearer).status == 200
    gate.weir("keys", "revoke", "ops", made["id"])
    refused(gate.whoami(bearer), 401, "agent.key_unknown")
    assert gate.whoami(f"Bearer {second['key']}").status == 200
    for verb, status, code in [("suspend", 403, "agent.suspended"), ("resume", 200, None), ("revoke", 403, "agent.revoked")]:
        gate.weir("agents", verb, "ops")
        answer = gate.whoami(f"Bearer {second['key']}")
        assert answer.status == status
        assert code is None or answer.refusal()[0] == code
    again = gate.weir("keys", "new", "ops", check=False)
    assert again.returncode == 2 and "identity.agent_taken" in again.stderr


def test_agents_of_the_configuration_are_shown_and_not_changed(gate):
    listed = gate.weir("agents", "list").stdout
    assert re.search(r"^dev +active +weir.yaml +engineers$", listed, re.M), listed
    for command in (["agents", "suspend", "dev"], ["keys", "new", "dev"], ["agents", "invite", "dev"]):
        done = gate.weir(*command, check=False)
        assert done.returncode == 2 and "identity.agent_configured" in done.stderr, done.stderr
    assert gate.whoami(f"Bearer {gate.keys['dev']}").status == 200


def test_a_directory_outlives_a_restart(origin, tmp_path):
    gate = Identities(tmp_path, {"web": {"url": origin.url}})
    with gate:
        made = json.loads(gate.weir("keys", "new", "ops", "--json").stdout)
        gate.kill()
        gate.start()
        assert gate.whoami(f"Bearer {made['key']}").status == 200
        gate.weir("agents", "revoke", "ops")
        gate.kill()
        gate.start()
        refused(gate.whoami(f"Bearer {made['key']}"), 403, "agent.revoked")


def test_an_invite_is_used_once_and_locked_when_it_is_used_wrongly(gate):
    key, other = Key(), Key()
    invite = gate.invite("once")
    body = lambda key, invite=invite, aud=gate.base: {
        "invite": invite, "jwk": key.jwk, "proof": key.sign({"aud": aud, "invite": sha256(invite)}, typ="weir-enrol+jwt")}
    guess = invite[:-2] + ("AA" if not invite.endswith("AA") else "BA")
    refused(gate.send("/enrol", body(key, guess)), 403, "identity.invite_unknown")
    refused(gate.send("/enrol", {"invite": invite}), 400, "identity.request_invalid")
    stolen = {**body(key), "jwk": other.jwk}
    refused(gate.send("/enrol", stolen), 400, "identity.request_invalid")
    refused(gate.send("/enrol", body(key, aud="https://other.example")), 400, "identity.request_invalid")
    private = {**body(key), "jwk": {**key.jwk, "d": "AQ"}}
    refused(gate.send("/enrol", private), 400, "identity.request_invalid")
    answer = gate.send("/enrol", body(key))
    assert (answer.status, answer.json()["state"]) == (201, "pending"), answer.body
    refused(gate.send("/enrol", body(other)), 403, "identity.invite_used")
    pending = gate.token("once", key, check=False)
    assert (pending.status, pending.json()["code"]) == (401, "agent.pending")
    # Two approvals at once: one of them wins.
    done = []
    threads = [threading.Thread(target=lambda: done.append(gate.weir("agents", "approve", "once", check=False).returncode)) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(done) == [0, 2]
    assert gate.whoami(f"Bearer {gate.token('once', key)}").status == 200

    locked = gate.invite("locked")
    for _ in range(5):
        refused(gate.send("/enrol", {**body(key, locked), "jwk": other.jwk}), 400, "identity.request_invalid")
    refused(gate.send("/enrol", body(other, locked)), 403, "identity.invite_locked")


def test_an_invite_that_is_raced_has_one_winner(gate):
    invite = gate.invite("race", "--approved")
    keys, answers = [Key() for _ in range(8)], []

    def enrol(key):
        proof = key.sign({"aud": gate.base, "invite": sha256(invite)}, typ="weir-enrol+jwt")
        answers.append(gate.send("/enrol", {"invite": invite, "jwk": key.jwk, "proof": proof}).status)
    threads = [threading.Thread(target=enrol, args=(key,)) for key in keys]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(answers) == [201] + [403] * 7
    shown = json.loads(gate.weir("agents", "show", "race").stdout)
    assert len(shown["credentials"]) == 1


@pytest.mark.parametrize("kind", ["ES256", "ES384", "EdDSA", "RS256", "PS256"])
def test_a_bound_token_is_good_with_a_proof_of_its_key(gate, kind):
    name = f"bound-{kind.lower()}"
    key, proof_key = gate.enrol(name, key=Key(kind)), Key(kind)
    token = gate.token(name, key, proof_key)
    answer = gate.bound(token, proof_key)
    assert answer.status == 200, answer.body
    assert (answer.json()["agent"], answer.json()["by"]) == (name, "access_token")


def test_a_stolen_token_or_proof_is_of_no_use(gate):
    key, proof_key, thief = gate.enrol("victim"), Key(), Key()
    token = gate.token("victim", key, proof_key)
    url = f"{gate.base}/whoami"
    refused(gate.whoami(f"Bearer {token}"), 401, "agent.proof_missing")
    refused(gate.whoami(f"DPoP {token}"), 401, "agent.proof_missing")
    refused(gate.bound(token, thief), 401, "agent.proof_invalid")
    refused(gate.bound(token, proof_key, nonce="AAAAAAAAAAAAAAAAAAAA"), 401, "agent.proof_nonce")
    challenge = gate.whoami(f"DPoP {token}", proof_key.proof("GET", url, token))
    refused(challenge, 401, "agent.proof_nonce")
    assert 'DPoP' in challenge.headers["www-authenticate"] and "use_dpop_nonce" in challenge.headers["www-authenticate"]
    now = int(time.time())
    for wrong in [{"htm": "POST"}, {"htm": "get"}, {"htu": f"{gate.base}/other"}, {"htu": f"https://evil.example/whoami"},
                  {"htu": "/whoami"}, {"ath": sha256("another")}, {"ath": None}, {"jti": None}, {"jti": ""},
                  {"iat": now - 3600}, {"iat": now + 3600}, {"iat": None}, {"iat": "now"},
                  {"header": {"typ": "JWT"}}, {"header": {"jwk": {**proof_key.jwk, "d": "AQ"}}},
                  {"header": {"jwk": thief.jwk}}, {"header": {"crit": ["jti"]}}]:
        refused(gate.bound(token, proof_key, **wrong), 401, "agent.proof_invalid")
    # What names the same resource is the same.
    for same in [f"{url}?a=b", f"{url}#x", f"{gate.base}/./whoami", f"HTTP://127.0.0.1:{gate.port}/who%61mi"]:
        assert gate.bound(token, proof_key, htu=same).status == 200, same
    proof = proof_key.proof("GET", url, token, gate.nonce())
    assert gate.whoami(f"DPoP {token}", proof).status == 200
    for _ in range(4):
        refused(gate.whoami(f"DPoP {token}", proof), 401, "agent.key_used")


def test_a_proof_is_once_over_threads_processes_and_kill_9(origin, tmp_path):
    gate = Identities(tmp_path, {"web": {"url": origin.url}}, threads=4, public_url="https://gate.example")
    with gate:
        key, proof_key = gate.enrol("agent"), Key()
        token = gate.token("agent", key, proof_key)
        proof = proof_key.proof("GET", f"{gate.base}/whoami", token, gate.nonce())
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(gate.whoami(f"DPoP {token}", proof).status)) for _ in range(12)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sorted(answers) == [200] + [401] * 11
        unused = proof_key.proof("GET", f"{gate.base}/whoami", token, gate.nonce())
        gate.kill()
        gate.start()
        # Its nonce names the boot before: it is asked for anew, whether it was used or not.
        for old in (proof, unused):
            refused(gate.whoami(f"DPoP {token}", old), 401, "agent.proof_nonce")
        assert gate.bound(token, proof_key).status == 200


def test_tokens_outlive_the_key_that_signed_them(origin, tmp_path):
    gate = Identities(tmp_path, {"web": {"url": origin.url}}, public_url="https://gate.example")
    jwks = lambda: json.loads(gate.request("GET", "/oauth/jwks").body)["keys"]
    with gate:
        key = gate.enrol("agent")
        token, keys = gate.token("agent", key), jwks()
    (gate.state / "token.key").rename(gate.state / "token-before.key")
    with gate:
        assert gate.whoami(f"Bearer {token}").status == 200
        assert gate.whoami(f"Bearer {gate.token('agent', key)}").status == 200
        assert len(jwks()) == 2 and keys[0] in jwks()
    (gate.state / "token-before.key").unlink()
    with gate:
        refused(gate.whoami(f"Bearer {token}"), 401, "agent.token_invalid")


def test_forged_and_confused_tokens_are_refused(gate):
    key = gate.enrol("forger")
    token = gate.token("forger", key)
    assert gate.whoami(f"Bearer {token}").status == 200
    header, claims, signature = token.split(".")
    read = lambda part: json.loads(base64.urlsafe_b64decode(part + "=="))
    said, kid = read(claims), read(header)["kid"]
    part = lambda value: b64(json.dumps(value).encode())
    none = f"{part({'alg': 'none', 'typ': 'at+jwt'})}.{claims}."
    embedded = key.sign(said, typ="at+jwt", jwk=key.jwk)
    named = key.sign(said, typ="at+jwt", kid=kid)
    remote = key.sign(said, typ="at+jwt", jku="https://evil.example/jwks")
    for forged in [none, embedded, named, remote, f"{header}.{part({**said, 'client_id': 'dev'})}.{signature}",
                   f"{header}.{claims}.", f"{header}.{claims}.{signature}x", "a.b.c", "..", f"{token}.{token}"]:
        refused(gate.whoami(f"Bearer {forged}"), 401, "agent.token_invalid")
    twice = "{" + f'"iss":"{gate.base}","iss":"{gate.base}"' + "}"
    refused(gate.whoami(f"Bearer {header}.{b64(twice.encode())}.{signature}"), 401, "agent.token_invalid")
    other = key.sign({**said, "iss": "https://evil.example"}, typ="at+jwt")
    refused(gate.whoami(f"Bearer {other}"), 401, "agent.issuer_unknown")
    # Names in fields of others are no identity.
    named = {"x-client-cert": "x", "x-forwarded-client-cert": "URI=spiffe://example.org/agent/forger",
             "x-agent": "forger", "x-ssl-client-dn": "CN=forger"}
    refused(gate.request("GET", "/whoami", headers=named), 401, "agent.key_missing")


def test_assertions_are_once_and_for_this_gateway_and_of_an_enrolled_key(gate):
    key = gate.enrol("client")
    ask = lambda assertion, **more: gate.form("/oauth/token", {
        "grant_type": "client_credentials", "client_assertion_type": JWT_BEARER, "client_assertion": assertion, **more})
    good = key.assertion("client", gate.base)
    assert ask(good).status == 200
    again = ask(good)
    assert (again.status, again.json()["error"]) == (401, "invalid_client")
    now = int(time.time())
    for bad in [Key().assertion("client", gate.base), key.assertion("nobody", gate.base), key.assertion("dev", gate.base),
                key.assertion("client", "https://other.example"), key.assertion("client", gate.base, exp=now - 120),
                key.assertion("client", gate.base, nbf=now + 120), key.assertion("client", gate.base, exp=now + 86400),
                key.assertion("client", gate.base, sub="other"), key.assertion("client", gate.base, jti=None),
                # It may have been used before this process began, which remembers only what it saw.
                key.assertion("client", gate.base, iat=None),
                key.assertion("client", gate.base, iat=gate.began - 1, exp=gate.began + 300),
                key.assertion("client", gate.base, iat=now + 30), "x.y.z"]:
        answer = ask(bad)
        assert (answer.status, answer.json()["error"]) == (401, "invalid_client"), answer.body
        assert bad not in answer.body.decode()
    fresh = lambda: key.assertion("client", gate.base)
    for more, error in [({"grant_type": "password"}, "unsupported_grant_type"), ({"scope": "everything"}, "invalid_scope"),
                        ({"resource": "https://other.example"}, "invalid_target"), ({"client_id": "other"}, "invalid_client")]:
        answer = ask(fresh(), **more)
        assert answer.json()["error"] == error, answer.body
    double = f"grant_type=client_credentials&grant_type=client_credentials&client_assertion={fresh()}"
    answer = gate.request("POST", "/oauth/token", double, {"content-type": "application/x-www-form-urlencoded"})
    assert (answer.status, answer.json()["error"]) == (400, "invalid_request")


def test_what_two_readers_take_in_two_ways_is_refused(gate):
    bearer = f"Bearer {gate.keys['dev']}"

    def ask(*fields):
        connection = gate.connect()
        connection.putrequest("GET", "/whoami")
        for name, value in fields:
            connection.putheader(name, value)
        connection.endheaders()
        return Answer(connection.getresponse())
    assert ask(("Authorization", bearer)).status == 200
    refused(ask(("Authorization", bearer), ("Authorization", bearer)), 401, "agent.key_malformed")
    refused(ask(("Authorization", bearer), ("DPoP", "a"), ("DPoP", "a")), 401, "agent.proof_invalid")


def test_the_operators_routes_are_for_who_is_known_and_for_no_page(origin, gate, tmp_path):
    socket = lambda: UnixConnection(gate.state / "admin.sock")
    foreign = {"origin": "https://evil.example", "content-type": "application/json"}
    body = json.dumps({"name": "page", "approved": True})
    refused(gate.request("POST", "/admin/agents", body, foreign, connection=socket()), 403, "http.origin")
    refused(gate.request("PUT", "/stops", b'{"stop": ["all"]}', foreign, connection=socket()), 403, "http.origin")
    with Identities(tmp_path, {"web": {"url": origin.url}}, admin={"listen": "127.0.0.1:0"}) as open_to_all:
        said = [json.loads(line) for line in open_to_all.logs.all if "pages for the operator" in line]
        port = port_of(said[0]["address"])
        for method, path in [("GET", "/admin/agents"), ("POST", "/admin/agents"), ("GET", "/stops"), ("PUT", "/stops"), ("DELETE", "/stops")]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            answer = open_to_all.request(method, path, body, {"content-type": "application/json"}, connection=connection)
            refused(answer, 401, "admin.key")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        assert open_to_all.request("GET", "/metrics", connection=connection).status == 200


def test_stops_and_budgets_hold_at_the_token_service(origin, tmp_path):
    limits = {"agent_per_minute": 2}
    with Identities(tmp_path, {"web": {"url": origin.url}}, limits=limits) as gate:
        key = gate.enrol("busy")
        stops = lambda method, body=b"": gate.request(
            method, "/stops", body, {"content-type": "application/json"}, connection=UnixConnection(gate.state / "admin.sock"))
        assert stops("PUT", b'{"stop": ["agent:busy"]}').status == 200
        stopped = gate.token("busy", key, check=False)
        assert (stopped.status, stopped.json()["code"]) == (503, "gate.stopped"), stopped.body
        assert stops("DELETE").status == 200
        statuses = [gate.token("busy", key, check=False).status for _ in range(40)]
        assert statuses[0] == 200 and 429 in statuses, statuses
        # It spends what is its own: another agent goes on.
        other = gate.enrol("calm")
        assert gate.token("calm", other, check=False).status == 200


def test_scopes_and_audiences_hold_and_say_what_is_missing(gate, origin):
    key = gate.enrol("scoped")
    listing = gate.token("scoped", key, scope="mcp:use mcp:list")
    gate.keys["scoped"] = listing
    session = Session(gate, "child", "scoped")
    refusal = session.call("echo", "x")
    assert refusal.status == 403 and refusal.refusal()[0] == "agent.scope_missing", refusal.body
    assert 'error="insufficient_scope", scope="mcp:call"' in refusal.headers["www-authenticate"]
    gate.keys["scoped"] = gate.token("scoped", key, scope="mcp")
    assert "result" in Session(gate, "child", "scoped").call("echo", "x").messages()[-1]
    narrow = gate.token("scoped", key, resource=f"{gate.base}/mcp/web")
    refused(gate.post("child", LIST, None, authorization=f"Bearer {narrow}"), 401, "agent.token_audience")
    assert gate.post("web", LIST, None, authorization=f"Bearer {narrow}").status != 401
    # What the agent showed stays here.
    assert narrow not in json.dumps(origin.seen())


def test_a_revoked_agent_loses_its_next_call_and_its_session(gate):
    key = gate.enrol("leaving")
    gate.keys["leaving"] = gate.token("leaving", key)
    session = Session(gate, "child", "leaving")
    assert "result" in session.call("echo", "x").messages()[-1]
    stream = gate.connect()
    stream.request("GET", "/mcp/child", headers={**gate.headers("leaving"), "accept": "text/event-stream",
                                                 "mcp-session-id": session.extra["mcp_session_id"],
                                                 "mcp-protocol-version": "2025-11-25"})
    opened = stream.getresponse()
    assert opened.status == 200
    gate.weir("agents", "suspend", "leaving")
    refused(session.call("echo", "x"), 403, "agent.suspended")
    began = time.monotonic()
    try:
        opened.read()
    except Exception:
        pass  # It was cut.
    assert time.monotonic() - began < 5


def test_a_token_is_introspected_and_taken_back(gate):
    key, other = gate.enrol("owner"), gate.enrol("someone")
    token = gate.token("owner", key)
    ask = lambda path, agent, key: gate.form(path, {"token": token, "client_assertion_type": JWT_BEARER,
                                                    "client_assertion": key.assertion(agent, gate.base)})
    said = ask("/oauth/introspect", "someone", other).json()
    assert (said["active"], said["client_id"]) == (True, "owner")
    assert gate.form("/oauth/introspect", {"token": token}).status == 401
    assert ask("/oauth/revoke", "someone", other).json()["error"] == "unauthorized_client"
    assert gate.whoami(f"Bearer {token}").status == 200
    assert ask("/oauth/revoke", "owner", key).status == 200
    refused(gate.whoami(f"Bearer {token}"), 401, "agent.token_invalid")
    assert ask("/oauth/introspect", "someone", other).json() == {"active": False}


def test_secrets_stay_out_of_the_log_and_of_what_is_said(gate):
    key, proof_key = gate.enrol("quiet"), Key()
    invite = gate.invite("quiet-too")
    token = gate.token("quiet", key, proof_key)
    proof = proof_key.proof("GET", f"{gate.base}/whoami", token, gate.nonce())
    gate.whoami(f"DPoP {token}", proof)
    gate.whoami(f"Bearer {token}")
    written = json.dumps(gate.records()) + gate.logs.text() + gate.operator("/metrics").body.decode()
    written += (gate.state / "directory.json").read_text()
    for secret in [invite, token, proof, token.split(".")[2], proof.split(".")[1]]:
        assert secret not in written
    admin = [record for record in gate.records() if record.get("kind") == "admin"]
    assert {"agent.invite", "agent.enrol", "token"} <= {record["what"] for record in admin}
    assert any(record["by"].startswith("uid ") for record in admin)
    assert oct((gate.state / "directory.json").stat().st_mode & 0o777) == "0o600"


def test_without_the_section_nothing_of_it_is_there(gateway):
    for path in ["/oauth/token", "/enrol"]:
        answer = gateway.request("POST", path, b"{}", {"content-type": "application/json"})
        refused(answer, 404, "identity.off")
    refused(gateway.request("GET", "/oauth/jwks"), 404, "identity.off")
    refused(gateway.request("GET", "/whoami", headers={"authorization": "Bearer a.b.c"}), 401, "agent.key_malformed")
