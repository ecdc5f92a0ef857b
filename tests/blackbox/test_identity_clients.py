"""Identities with what others wrote: requests-oauth2client, the MCP SDK, `openssl`, `curl`; certificates, an outside issuer."""

import asyncio
import http.client
import json
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import jwskate
import pytest
import requests
from gateway import WEIR, Answer, Lines, child_server, until
from identity import JWT_BEARER, PASSPHRASE, Identities, Key
from mcp import Client
from mcp.client.auth.extensions.client_credentials import PrivateKeyJWTOAuthProvider, SignedJWTParameters
from mcp.client.streamable_http import streamable_http_client
from requests_oauth2client import OAuth2Client, PrivateKeyJwt
from test_listeners import addresses, port_of
from test_relay_mutual import Authority, client, server


class Issuer:
    """An identity provider of the tests: metadata, keys and tokens."""

    def __init__(self):
        self.key, self.kid, self.delay, self.asked = Key("RS256"), "one", 0, 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked += 1
                documents = {"/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks"},
                             "/jwks": {"keys": [{**issuer.key.jwk, "kid": issuer.kid, "use": "sig"}]}}
                found = documents.get(self.path)
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write(json.dumps(found or {}).encode())

            def log_message(self, *_):
                pass
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, **claims):
        now = int(time.time())
        said = {"iss": self.url, "aud": "weir", "sub": "ann", "iat": now, "exp": now + 300, **claims}
        return self.key.sign(said, kid=self.kid)


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.server.shutdown()


@pytest.fixture(scope="module")
def gate(issuer, tmp_path_factory):
    issuers = {"corp": {"url": issuer.url, "audience": "weir", "claim": "azp", "agents": {"dev": "ci"}}}
    folder = tmp_path_factory.mktemp("clients")
    with Identities(folder, {"child": child_server()}, identity={"issuers": issuers}) as running:
        yield running
        running.verify()


def test_requests_oauth2client_gets_and_uses_bound_tokens(gate):
    key = gate.enrol("roc")
    private = jwskate.Jwk.from_pem(key.pem()).with_kid_thumbprint()
    auth = PrivateKeyJwt("roc", private, alg="ES256", aud=gate.base)
    oauth = OAuth2Client(token_endpoint=f"{gate.base}/oauth/token", auth=auth, dpop_bound_access_tokens=True, testing=True)
    token = oauth.client_credentials(scope="mcp identity")
    assert token.token_type.lower() == "dpop"
    for _ in range(3):
        said = requests.get(f"{gate.base}/whoami", auth=token, timeout=10)
        assert said.status_code == 200, said.text
        assert (said.json()["agent"], said.json()["scopes"]) == ("roc", ["mcp", "identity"])


def test_the_mcp_sdk_finds_the_token_service_and_calls(gate):
    key = gate.enrol("sdk")

    class Storage:
        tokens = client = None

        async def get_tokens(self):
            return self.tokens

        async def set_tokens(self, tokens):
            self.tokens = tokens

        async def get_client_info(self):
            return self.client

        async def set_client_info(self, client):
            self.client = client

    signs = SignedJWTParameters(issuer="sdk", subject="sdk", signing_key=key.pem(), signing_algorithm="ES256")
    storage = Storage()
    provider = PrivateKeyJWTOAuthProvider(server_url=gate.url("child"), storage=storage, client_id="sdk", issuer=gate.base,
                                          assertion_provider=signs.create_assertion_provider())

    async def call():
        async with httpx2.AsyncClient(auth=provider, timeout=30) as http:
            async with Client(streamable_http_client(gate.url("child"), http_client=http)) as client:
                return await client.call_tool("echo", {"text": "by a token"})
    result = asyncio.run(call())
    assert "by a token" in "".join(part.text for part in result.content)
    # The client's token stays here: the server's environment and messages have none.
    assert storage.tokens.access_token not in json.dumps(gate.records())


def test_metadata_says_where_tokens_are(gate):
    challenge = gate.post("child", {}, None)
    assert challenge.status == 401
    where = f"{gate.base}/.well-known/oauth-protected-resource/mcp/child"
    assert f'resource_metadata="{where}"' in challenge.headers["www-authenticate"]
    resource = requests.get(where, timeout=10).json()
    assert resource["resource"] == gate.url("child") and gate.base in resource["authorization_servers"]
    served = requests.get(f"{gate.base}/.well-known/oauth-authorization-server", timeout=10).json()
    assert served["issuer"] == gate.base and "private_key_jwt" in served["token_endpoint_auth_methods_supported"]
    keys = jwskate.JwkSet(requests.get(served["jwks_uri"], timeout=10).json())
    key = gate.enrol("reader")
    read = jwskate.SignedJwt(gate.token("reader", key))
    assert read.verify_signature(keys.jwks[0], alg="EdDSA") and read.claims["client_id"] == "reader"


def test_tokens_of_an_outside_issuer_are_the_mapped_agents_until_its_keys_change(gate, issuer):
    bearer = lambda **claims: gate.whoami(f"Bearer {issuer.token(**claims)}")
    until(lambda: bearer(azp="ci").status == 200, "the keys are fetched")
    assert bearer(azp="ci").json()["agent"] == "dev"
    for claims, code in [({"azp": "other"}, "agent.subject_unknown"), ({"azp": "ci", "aud": "x"}, "agent.token_audience"),
                         ({"azp": "ci", "exp": int(time.time()) - 120}, "agent.token_expired"),
                         ({"azp": "ci", "nbf": int(time.time()) + 600}, "agent.token_invalid")]:
        answer = bearer(**claims)
        assert (answer.status, answer.refusal()[0]) == (401, code), answer.body
    key = gate.enrol("actor")
    said = gate.form("/oauth/token", {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "client_assertion_type": JWT_BEARER,
        "client_assertion": key.assertion("actor", gate.base), "subject_token": issuer.token(sub="ann"),
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt"})
    assert said.status == 200, said.body
    who = gate.whoami(f"Bearer {said.json()['access_token']}").json()
    assert (who["agent"], who["behalf"]) == ("actor", "corp:ann")
    issuer.key, before = Key("RS256"), issuer.key
    assert bearer(azp="ci").status == 401
    issuer.key = before


def test_an_issuer_that_is_away_is_refused(tmp_path):
    with Issuer().server as gone:
        url = f"http://127.0.0.1:{gone.server_port}"
        gone.shutdown()
    issuers = {"corp": {"url": url, "audience": "weir", "agents": {"dev": "ann"}}}
    with Identities(tmp_path, {"child": child_server()}, identity={"issuers": issuers}) as gate:
        now = int(time.time())
        token = Key("RS256").sign({"iss": url, "aud": "weir", "sub": "ann", "exp": now + 60})
        answer = gate.whoami(f"Bearer {token}")
        assert (answer.status, answer.refusal()[0]) == (503, "agent.issuer_away")


class Secured(Identities):
    """By TLS, with clients' certificates of the gateway's own authority."""

    def __init__(self, folder, mcp=None):
        self.outer = Authority()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "outer.pem").write_bytes(self.outer.pem)
        server(self.outer, folder, "weir", "localhost", "127.0.0.1")
        (folder / "roots.pem").write_bytes(self.outer.pem)
        tls = {"certificates": {"certificate": "file:weir.crt", "key": "file:weir.pem"},
               "clients": {"ca": "file:roots.pem", "required": False}}
        super().__init__(folder, mcp or {"child": child_server()}, authority=True, listen={"address": "127.0.0.1:0", "tls": tls})
        (folder / "roots.pem").write_bytes((self.state / "ca/roots.pem").read_bytes() + self.outer.pem)

    @property
    def base(self):
        return f"https://127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen([str(WEIR), "serve", "-c", "weir.yaml"], cwd=self.folder,
                                        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.logs = Lines(self.process.stderr)
        self.port = port_of(addresses(self, 1)[0])
        return self

    def context(self, *certificate):
        context = ssl.create_default_context(cafile=self.folder / "outer.pem")
        if certificate:
            context.load_cert_chain(*certificate)
        return context

    def connect(self, *certificate):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context(*certificate))


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with Secured(tmp_path_factory.mktemp("secured") / "weir") as running:
        yield running
        running.verify()


def enrolled(gate, name, *more):
    folder = gate.folder / f"agent-{name}"
    invite = gate.invite(name, "--approved")
    (gate.folder / f"{name}.invite").write_text(invite)
    gate.weir("enrol", gate.base, "--invite", f"file:{name}.invite", "--dir", folder, "--ca", "outer.pem", *more)
    return folder


def test_weir_enrol_gives_a_certificate_whose_key_stays(secured):
    folder = enrolled(secured, "build")
    key, chain = folder / "key.pem", folder / "certificate.pem"
    assert key.stat().st_mode & 0o777 == 0o600
    answer = secured.whoami(connection=secured.connect(chain, key))
    assert (answer.json()["agent"], answer.json()["by"]) == ("build", "certificate"), answer.body
    said = secured.weir("whoami", "--dir", folder, "--ca", "outer.pem").stdout
    assert said.startswith("build by access_token"), said
    token = secured.weir("token", "--dir", folder, "--ca", "outer.pem", "--scope", "identity").stdout.strip()
    assert secured.whoami(f"Bearer {token}").json()["scopes"] == ["identity"]
    again = secured.weir("enrol", secured.base, "--invite", "file:build.invite", "--dir", folder, check=False)
    assert again.returncode == 2 and "has a key already" in again.stderr
    # A token by the certificate is bound to it.
    connection = secured.connect(chain, key)
    connection.request("POST", "/oauth/token", "grant_type=client_credentials",
                       {"content-type": "application/x-www-form-urlencoded"})
    token = Answer(connection.getresponse()).json()["access_token"]
    assert secured.whoami(f"Bearer {token}", connection=secured.connect(chain, key)).status == 200
    stolen = secured.whoami(f"Bearer {token}")
    assert (stolen.status, stolen.refusal()[0]) == (401, "agent.proof_missing")
    other = enrolled(secured, "other")
    mixed = secured.whoami(f"Bearer {token}", connection=secured.connect(other / "certificate.pem", other / "key.pem"))
    assert (mixed.status, mixed.refusal()[0]) == (401, "agent.proof_missing")
    # Two credentials that contradict are refused; those of one agent are not.
    unbound = secured.weir("token", "--dir", folder, "--ca", "outer.pem").stdout.strip()
    assert secured.whoami(f"Bearer {unbound}", connection=secured.connect(chain, key)).status == 200
    crossed = secured.whoami(f"Bearer {unbound}", connection=secured.connect(other / "certificate.pem", other / "key.pem"))
    assert (crossed.status, crossed.refusal()[0]) == (401, "agent.certificate_unknown"), crossed.body
    for directory in (secured.state, secured.folder):
        for file in directory.rglob("*"):
            if file.is_file() and file != key and folder not in file.parents:
                assert key.read_text().splitlines()[1] not in file.read_text(errors="replace")


def openssl(*arguments, check=True):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_openssl_takes_leaves_chains_keys_and_the_list(secured, tmp_path):
    folder = enrolled(secured, "seen")
    leaf, root = folder / "certificate.pem", secured.state / "ca/root.pem"
    intermediate = secured.state / "ca/intermediate.pem"
    verify = ["verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", root, "-untrusted", intermediate]
    assert openssl(*verify, leaf).strip().endswith("OK")
    shown = openssl("x509", "-in", leaf, "-noout", "-ext", "subjectAltName,basicConstraints,keyUsage,extendedKeyUsage")
    for part in ("URI:spiffe://example.org/agent/seen", "CA:FALSE", "Digital Signature", "TLS Web Client Authentication"):
        assert part in shown, shown
    assert "DNS" not in shown
    opened = openssl("pkcs8", "-in", secured.state / "ca/intermediate.key", "-passin", f"pass:{PASSPHRASE}")
    assert "BEGIN PRIVATE KEY" in opened
    assert "BEGIN PRIVATE KEY" not in openssl("pkcs8", "-in", secured.state / "ca/root.key", "-passin", "pass:x", check=False)
    (tmp_path / "crl.pem").write_text(secured.weir("ca", "crl").stdout)
    listed = [*verify, "-crl_check", "-CRLfile", tmp_path / "crl.pem"]
    assert openssl(*listed, leaf).strip().endswith("OK")
    before = secured.weir("token", "--dir", folder, "--ca", "outer.pem").stdout.strip()
    serial = openssl("x509", "-in", leaf, "-noout", "-serial").strip().split("=")[1]
    secured.weir("ca", "revoke", serial)
    (tmp_path / "crl.pem").write_text(secured.weir("ca", "crl").stdout)
    assert "certificate revoked" in openssl(*listed, leaf, check=False)
    gone = secured.whoami(connection=secured.connect(leaf, folder / "key.pem"))
    assert (gone.status, gone.refusal()[0]) == (401, "agent.certificate_unknown")
    # Its key is locked out too, and so is the token that it gave; and the log says who did it.
    asked = secured.weir("token", "--dir", folder, "--ca", "outer.pem", check=False)
    assert asked.returncode == 2 and "agent.key_unknown" in asked.stderr, asked.stderr
    assert secured.whoami(f"Bearer {before}").status == 401
    assert "credential.revoke" in {record.get("what") for record in secured.records()}


def test_requests_that_openssl_and_others_write(secured, tmp_path):
    def post(csr, name="maker"):
        invite = secured.invite(name, "--approved")
        return secured.send("/enrol", {"invite": invite, "csr": csr})
    for number, algorithm in enumerate(["EC", "ED25519", "RSA"]):
        options = {"EC": ["-pkeyopt", "ec_paramgen_curve:P-384"], "RSA": ["-pkeyopt", "rsa_keygen_bits:2048"]}
        openssl("genpkey", "-algorithm", algorithm, *options.get(algorithm, []), "-out", tmp_path / "key")
        openssl("req", "-new", "-key", tmp_path / "key", "-subj", "/CN=root", "-out", tmp_path / "csr")
        answer = post((tmp_path / "csr").read_text(), f"maker-{number}")
        assert answer.status == 201, answer.body
        (tmp_path / "crt").write_text(answer.json()["certificate"])
        who = secured.whoami(connection=secured.connect(tmp_path / "crt", tmp_path / "key"))
        assert who.json()["agent"] == f"maker-{number}", who.body
    key = Key()
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", tmp_path / "key")
    openssl("req", "-new", "-key", tmp_path / "key", "-subj", "/CN=weak", "-out", tmp_path / "weak")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", tmp_path / "key",
            "-subj", "/CN=ca", "-addext", "basicConstraints=critical,CA:TRUE", "-out", tmp_path / "ca")
    changed = key.csr()[:-60] + "AAAA" + key.csr()[-56:]
    for bad in [key.csr("spiffe://example.org/agent/root"), key.csr("spiffe://example.org/agent/a", "spiffe://example.org/agent/b"),
                key.csr("https://example.org"), (tmp_path / "weak").read_text(), (tmp_path / "ca").read_text(), changed, "", "x",
                "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----"]:
        answer = post(bad)
        assert (answer.status, answer.refusal()[0]) == (400, "identity.request_invalid"), answer.body
    assert post(key.csr("spiffe://example.org/agent/maker")).status == 201


def test_a_certificate_is_renewed_by_the_one_before_and_rotation_loses_nobody(secured):
    folder = enrolled(secured, "renewing")
    chain, key = folder / "certificate.pem", folder / "key.pem"
    new = Key()
    connection = secured.connect(chain, key)
    connection.request("POST", "/enrol/renew", json.dumps({"csr": new.csr()}), {"content-type": "application/json"})
    answer = Answer(connection.getresponse())
    assert answer.status == 201, answer.body
    # What can be copied, or is limited, becomes no certificate.
    ask = lambda *scope: secured.weir("token", "--dir", folder, "--ca", "outer.pem", *scope).stdout.strip()
    for token in (ask(), ask("--scope", "identity")):
        again = secured.send("/enrol/renew", {"csr": Key().csr()}, authorization=f"Bearer {token}")
        assert (again.status, again.refusal()[0]) == (401, "agent.certificate_unknown"), again.body
    (folder / "new.pem").write_text(answer.json()["certificate"])
    (folder / "new.key").write_text(new.pem())
    for pair in [(chain, key), (folder / "new.pem", folder / "new.key")]:
        assert secured.whoami(connection=secured.connect(*pair)).json()["agent"] == "renewing"
    secured.weir("ca", "rotate")
    assert secured.whoami(connection=secured.connect(chain, key)).status == 200
    secured.weir("agents", "revoke", "renewing")
    for pair in [(chain, key), (folder / "new.pem", folder / "new.key")]:
        answer = secured.whoami(connection=secured.connect(*pair))
        assert (answer.status, answer.refusal()[0]) == (403, "agent.revoked")


def test_certificates_of_others_name_nobody(secured, tmp_path):
    # Of an authority that the listener trusts, for another purpose; and of one that it does not.
    client(secured.outer, tmp_path, "known", "client.example")
    answer = secured.whoami(connection=secured.connect(tmp_path / "known.crt", tmp_path / "known.pem"))
    assert (answer.status, answer.refusal()[0]) == (401, "agent.certificate_unknown"), answer.body
    client(Authority(), tmp_path, "unknown", "client.example")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        secured.whoami(connection=secured.connect(tmp_path / "unknown.crt", tmp_path / "unknown.pem"))
