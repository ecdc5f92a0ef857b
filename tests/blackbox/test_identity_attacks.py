"""What attacks on identities found: ended certificates, keys that were taken back, gateways that lie to `weir enrol`, contradictions."""

import datetime
import json
import os
import subprocess
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from gateway import WEIR, Gateway, Session, UnixConnection, child_server, until
from identity import JWT_BEARER, Identities, Key, sha256
from test_identity_clients import Issuer, Secured, enrolled, openssl

FORM = {"content-type": "application/x-www-form-urlencoded"}
PEM = serialization.Encoding.PEM


class Outside(Secured):
    """A gateway that takes the certificates of the test's own authority, by their SPIFFE ids."""

    SPIFFE = "spiffe://corp.example/dev"

    def __init__(self, folder):
        super().__init__(folder)
        text = json.loads((folder / "weir.yaml").read_text())
        text["identity"]["spiffe"] = {"dev": self.SPIFFE}
        (folder / "weir.yaml").write_text(json.dumps(text))

    def leaf(self, seconds):
        """A certificate that ends so soon, and its key."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        builder = (x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(self.outer.name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=5))
                   .not_valid_after(now + datetime.timedelta(seconds=seconds)))
        for extension, critical in [(x509.BasicConstraints(ca=False, path_length=None), True),
                                    (x509.SubjectAlternativeName([x509.UniformResourceIdentifier(self.SPIFFE)]), True),
                                    (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)]:
            builder = builder.add_extension(extension, critical)
        pair = self.folder / "leaf.crt", self.folder / "leaf.pem"
        pair[0].write_bytes(builder.sign(self.outer.key, hashes.SHA256()).public_bytes(PEM))
        pair[1].write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return pair


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with Outside(tmp_path_factory.mktemp("attacks") / "weir") as running:
        yield running
        running.verify()


def grant(gate, connection, **more):
    return gate.request("POST", "/oauth/token", urlencode({"grant_type": "client_credentials", **more}), FORM, connection)


def test_a_certificate_that_ended_gets_no_token_on_a_kept_connection(secured):
    connection = secured.connect(*secured.leaf(4))
    began = time.monotonic()
    assert secured.whoami(connection=connection).json()["agent"] == "dev"
    # A token is good no longer than the certificate by which it was asked for.
    first = grant(secured, connection)
    assert first.status == 200 and first.json()["expires_in"] <= 4, first.body
    time.sleep(max(0, 5.5 - (time.monotonic() - began)))
    assert secured.whoami(connection=connection).refusal()[0] == "agent.key_expired"
    late = grant(secured, connection)
    assert late.status == 401 and late.json()["error"] == "invalid_client", late.body


def test_a_key_that_was_taken_back_does_not_return(secured):
    folder = enrolled(secured, "stolen")
    pair = folder / "certificate.pem", folder / "key.pem"
    key = Key()
    answer = secured.request("POST", "/enrol/renew", json.dumps({"csr": key.csr()}), {"content-type": "application/json"}, secured.connect(*pair))
    assert answer.status == 201, answer.body
    renewed = secured.folder / "renewed.crt", secured.folder / "renewed.pem"
    renewed[0].write_text(answer.json()["certificate"])
    renewed[1].write_text(key.pem())
    serial = openssl("x509", "-in", pair[0], "-noout", "-serial").strip().split("=")[1]
    said = secured.weir("ca", "revoke", serial).stdout
    assert "other credentials of stolen are good still" in said, said
    # The thief renewed in time, and is still in; the key that was taken back is not brought back by that.
    assert secured.whoami(connection=secured.connect(*renewed)).status == 200
    openssl("req", "-new", "-key", pair[1], "-subj", "/CN=x", "-out", secured.folder / "again.csr")
    csr = (secured.folder / "again.csr").read_text()
    again = secured.request("POST", "/enrol/renew", json.dumps({"csr": csr}), {"content-type": "application/json"}, secured.connect(*renewed))
    assert (again.status, again.refusal()[0]) == (400, "identity.request_invalid"), again.body
    again = secured.send("/enrol", {"invite": secured.invite("stolen"), "csr": csr})
    assert again.status != 201, again.body


def test_credentials_that_contradict_are_refused_at_the_token_service(secured):
    build, other = enrolled(secured, "one"), Key()
    invite = secured.invite("two", "--approved")
    proof = other.sign({"aud": secured.base, "invite": sha256(invite)}, typ="weir-enrol+jwt")
    assert secured.send("/enrol", {"invite": invite, "jwk": other.jwk, "proof": proof}).status == 201
    said = {"client_assertion_type": JWT_BEARER}
    crossed = grant(secured, secured.connect(build / "certificate.pem", build / "key.pem"), client_assertion=other.assertion("two", secured.base), **said)
    assert crossed.status == 401 and crossed.json()["error"] == "invalid_client", crossed.body
    assert grant(secured, secured.connect(), client_assertion=other.assertion("two", secured.base), **said).status == 200


def test_a_certificate_is_good_no_longer_than_its_agent(secured):
    invite, key = secured.invite("brief", "--approved", "--agent-hours", "1"), Key()
    answer = secured.send("/enrol", {"invite": invite, "csr": key.csr()})
    leaf = x509.load_pem_x509_certificate(answer.json()["certificate"].encode())
    left = leaf.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert left <= datetime.timedelta(hours=1), left


def test_what_was_exchanged_ends_with_what_it_was_exchanged_for(tmp_path):
    issuer = Issuer()
    issuers = {"corp": {"url": issuer.url, "audience": "weir", "agents": {}}}
    try:
        with Identities(tmp_path, {"child": child_server()}, identity={"issuers": issuers}) as gate:
            key = gate.enrol("actor")
            exchange = lambda **claims: gate.form("/oauth/token", {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "client_assertion_type": JWT_BEARER,
                "client_assertion": key.assertion("actor", gate.base), "subject_token": issuer.token(**claims),
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt"})
            deadline = time.monotonic() + 20
            while (said := exchange(exp=int(time.time()) + 30)).status != 200 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert said.status == 200 and said.json()["expires_in"] <= 30, said.body
            assert exchange(exp=int(time.time()) - 30).status == 400
    finally:
        issuer.server.shutdown()


class Liar:
    """Answers `weir enrol` as it is told."""

    def __init__(self, answer):
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                liar.asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = answer(liar) if callable(answer) else answer
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(201)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def test_a_gateway_that_lies_is_not_believed(secured, tmp_path):
    other = enrolled(secured, "truthful")
    chain = (other / "certificate.pem").read_text()
    good = lambda liar: {"agent": "build", "state": "active", "issuer": liar.url}
    lies = [
        (lambda liar: b"", "names no agent"), (lambda liar: [], "names no agent"), (lambda liar: b"[" * 200_000, "names no agent"),
        (lambda liar: {**good(liar), "agent": "../../../etc"}, "names no agent"),
        (lambda liar: {**good(liar), "agent": "\x1b[31mx"}, "names no agent"),
        (lambda liar: {**good(liar), "state": "root"}, "whether the agent is active"),
        (lambda liar: {**good(liar), "issuer": "https://other.example"}, "says that its URL is"),
        (lambda liar: {**good(liar), "issuer": "file:///etc/passwd"}, "says that its URL is"),
        (lambda liar: {**good(liar), "certificate": "hello"}, "no certificate in PEM"),
        (lambda liar: {**good(liar), "certificate": chain, "id": "spiffe://example.org/agent/build"}, "for another key"),
        (lambda liar: {**good(liar), "certificate": chain + "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"}, "something else"),
    ]
    for number, (answer, what) in enumerate(lies):
        liar, folder = Liar(answer), tmp_path / str(number)
        done = secured.weir("enrol", liar.url, "--invite", "winv_x", "--dir", folder, check=False)
        liar.server.shutdown()
        assert done.returncode == 2 and what in done.stderr and "\x1b" not in done.stderr, (number, done.stdout, done.stderr)
        # No key is left that nobody took, and none was sent.
        assert not (folder / "key.pem").exists() and "PRIVATE" not in json.dumps(liar.asked)
    done = secured.weir("enrol", "http://10.255.255.1:9", "--invite", "winv_x", "--dir", tmp_path / "clear", check=False)
    assert done.returncode == 2 and "in the clear" in done.stderr, done.stderr


def test_an_agent_of_the_directory_is_stopped_also_where_the_configuration_is_broken(tmp_path):
    with Identities(tmp_path, {"child": child_server()}) as gate:
        key = gate.enrol("halted")
        gate.keys["halted"] = gate.token("halted", key)
        session = Session(gate, "child", "halted")
        call = lambda: session.call("echo", "x")
        assert "result" in call().messages()[-1]
        assert gate.weir("stop", "--agent", "halted").stdout == "stopped: agent:halted\n"
        until(lambda: call().refusal()[0] == "gate.stopped", "it is stopped")
        unknown = gate.weir("stop", "--agent", "halt", check=False)
        assert unknown.returncode == 2 and "halted" in unknown.stderr, unknown.stderr
        gate.weir("go")
        until(lambda: gate.whoami(f"Bearer {gate.keys['halted']}").status == 200, "it goes on")
        session = Session(gate, "child", "halted")
        text = (gate.folder / "weir.yaml").read_text()
        (gate.folder / "weir.yaml").write_text("agents: [\n")
        broken = gate.weir("stop", check=False)
        assert broken.returncode == 2 and "--state DIR" in broken.stderr and "SIGUSR1" in broken.stderr, broken.stderr
        assert gate.weir("stop", "--state", "state").stdout == "stopped: all\n"
        until(lambda: call().refusal()[0] == "gate.stopped", "everything is stopped")
        (gate.folder / "weir.yaml").write_text(text)


def test_a_beginning_of_a_uri_means_what_stands_below_it(tmp_path):
    policy = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);
@id("notes") permit (principal, action == Action::"mcp:read", resource in Server::"child") when { resource.uri like "file:///notes/*" };
"""
    with Gateway(tmp_path, {"child": child_server()}, policy=policy) as gateway:
        session = Session(gateway, "child", "dev")
        read = lambda uri: session.ask("resources/read", {"uri": uri}).refusal()[0]
        assert read("file:///notes/a.txt") not in ("policy.forbidden", "mcp.uri_dots")
        assert read("file:///private/plan.txt") == "policy.forbidden"
        for uri in ["file:///notes/../private/plan.txt", "file:///notes/%2e%2e/private/plan.txt", "file:///notes/..%2Fprivate/plan.txt",
                    "file:///notes/%252e%252e/private", "file:///notes/..\\private"]:
            assert read(uri) == "mcp.uri_dots", uri


def serve_once(gate, seconds=20):
    """Starts the gateway where it should not start, and gives its exit code and what it said."""
    done = subprocess.run([str(WEIR), "serve", "-c", str(gate.folder / "weir.yaml")], capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def test_a_directory_that_is_gone_is_no_empty_one(tmp_path):
    gate = Identities(tmp_path, {"child": child_server()})
    with gate:
        gate.enrol("build")
        gate.weir("agents", "revoke", "build")
    directory = gate.state / "directory.json"
    kept = directory.read_bytes()
    directory.unlink()
    code, said = serve_once(gate)
    assert code != 0 and "is gone" in said and "put a good copy back" in said and "directory.lock" in said, said
    assert not directory.exists()
    directory.write_bytes(kept)
    with gate:
        listed = json.loads(gate.weir("agents", "list", "--json").stdout)
        assert [one["state"] for one in listed["agents"] if one["name"] == "build"] == ["revoked"]
        # One that goes while it serves is told, and what is in force stays.
        directory.unlink()
        until(lambda: "the directory stays as it was" in gate.logs.text(), "it is told")
        directory.write_bytes(kept)


@pytest.mark.parametrize("name", ["token.key", "directory.json", "fingerprint.key", "break-glass.sha256", "ca/intermediate.key", "ca/intermediate.pkcs11"])
def test_a_pipe_or_a_device_in_the_place_of_a_file_stops_the_start_at_once(tmp_path, name):
    gate = Identities(tmp_path, {"child": child_server()}, authority=True)
    with gate:
        pass
    file = gate.state / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    for _ in range(2):
        code, said = serve_once(gate)
        assert code != 0 and "no file" in said and file.name in said, said
        file.unlink()
        file.symlink_to("/dev/zero")


def test_keys_are_their_owners_alone_and_a_looser_mode_is_told(tmp_path):
    gate = Identities(tmp_path, {"child": child_server()})
    with gate:
        for key in gate.state.glob("*.key"):
            assert key.stat().st_mode & 0o777 == 0o600, key
        assert "chmod 600" not in gate.logs.text()
    (gate.state / "token.key").chmod(0o644)
    with gate:
        assert '"mode":"644"' in gate.logs.text() and "chmod 600" in gate.logs.text()


def test_bodies_of_the_operator_say_nothing_that_is_not_understood(tmp_path):
    with Identities(tmp_path, {"child": child_server()}) as gate:
        def ask(method, path, body, kind="application/json"):
            headers = {"content-type": kind} if kind else {}
            return gate.request(method, path, body, headers, connection=UnixConnection(gate.state / "admin.sock"))
        invite = {"name": "build", "hours": 1}
        for method, path, body, member in [
            ("POST", "/admin/agents", {**invite, "agent_hour": 1}, "agent_hours"), ("POST", "/admin/agents", {**invite, "Approved": True}, "approved"),
            ("POST", "/admin/agents/build/keys", {"expires": 5}, "expires"), ("POST", "/admin/agents/build/revoke", {"hours": 1}, "hours"),
            ("PUT", "/stops", {"stop": [], "stops": ["all"]}, "stops")]:
            answer = ask(method, path, json.dumps(body))
            assert answer.status == 400 and member in answer.refusal()[1], answer.body
        for kind in (None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
            for method, path, body in [("POST", "/admin/agents", invite), ("PUT", "/stops", {"stop": ["all"]}), ("POST", "/admin/agents/x/keys", {})]:
                answer = ask(method, path, json.dumps(body), kind)
                assert (answer.status, answer.refusal()[0]) == (415, "http.content_type"), (kind, path, answer.body)
        assert ask("POST", "/admin/agents", '{"name": "x", "approved": "true"}').status == 400
        assert ask("GET", "/stops", None).json() == {"stopped": []} and ask("GET", "/admin/agents/build", None).status == 404
        assert ask("POST", "/admin/agents", json.dumps(invite), "application/json; charset=utf-8").status == 201
        # Names are those of the configuration: letters, digits, points, lines.
        for name in ("a b", "a/b", "ä", "", "-a", "x" * 65, "a\u202eb"):
            assert ask("POST", "/admin/agents", json.dumps({"name": name})).status == 400, name
            assert ask("POST", "/admin/agents", json.dumps({"name": "good", "groups": [name]})).status == 400, name


def test_an_assertion_says_that_it_is_one_or_nothing(secured):
    key, endpoint = secured.enrol("typed"), f"{secured.base}/oauth/token"
    for typ, is_taken in [("JWT", True), ("client-authentication+jwt", True), ("application/client-authentication+jwt", True), (None, True),
                          ("dpop+jwt", False), ("at+jwt", False), ("weir-enrol+jwt", False), ("logout+jwt", False)]:
        now = int(time.time())
        said = {"iss": "typed", "sub": "typed", "aud": endpoint, "jti": str(uuid.uuid4()), "iat": now, "exp": now + 60}
        answer = grant(secured, secured.connect(), client_assertion_type=JWT_BEARER, client_assertion=key.sign(said, typ=typ))
        assert (answer.status == 200) == is_taken, (typ, answer.body)


def test_a_key_or_an_invite_in_the_place_of_a_name_stands_nowhere(tmp_path):
    with Identities(tmp_path, {"child": child_server()}, web={"listen": "127.0.0.1:0"}, logs={"format": "json", "level": "debug"}) as gate:
        invite, key = gate.invite("late"), gate.keys["dev"]
        operator = lambda method, path, body=None: gate.request(
            method, path, body, {"content-type": "application/json"}, connection=UnixConnection(gate.state / "admin.sock"))
        for secret in (invite, key):
            for path in (f"/mcp/{secret}", f"/mcp/@{secret}", f"/a2a/{secret}", f"/{secret}", f"/enrol/{secret}", f"/enrol?invite={secret}",
                         f"/v1/models/{secret}", f"/v1/runs/{secret}", f"/fetch?url=http://a.example/{secret}", f"/mcp/child?key={secret}"):
                for method in ("GET", "POST"):
                    gate.request(method, path, b"{}" if method == "POST" else None, gate.headers("dev"))
            gate.post("child", {"jsonrpc": "2.0", "id": secret, "method": "tools/call", "params": {"name": secret, "arguments": {}}})
            for method, path in (("GET", f"/admin/agents/{secret}"), ("POST", f"/admin/agents/{secret}/suspend"), ("POST", f"/admin/agents/{secret}/keys"),
                                 ("DELETE", f"/admin/agents/dev/credentials/{secret}"), ("DELETE", f"/admin/agents/{secret}/credentials/0123456789abcdef")):
                assert operator(method, path, "{}" if method == "POST" else None).status in (400, 404, 409), path
            assert operator("POST", "/admin/agents", json.dumps({"name": secret})).status == 400
            assert operator("POST", "/admin/agents", json.dumps({"name": "x", "groups": [secret]})).status == 400
            assert secret not in operator("POST", "/admin/agents", json.dumps({"name": "x", secret: 1})).body.decode()
        gate.stop()
        written = gate.logs.text() + json.dumps(gate.records())
        for secret in (invite, key):
            assert secret not in written and secret[5:] not in written
