"""Identities before clients and identity providers that others wrote, in JavaScript and Python: openid-client, oauth4webapi, dpop, the
TypeScript SDK and fastmcp; oidc-provider (certified), oauth2-mock-server and oidc-provider-mock."""

import json
import subprocess
import threading
import time
import warnings
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from gateway import child_server, until
from identity import Identities, Key
from test_hub_clients import AGENTS_PYTHON, CLIENTS, NODE, NODE_CLIENTS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import oidc_provider_mock


def node(program, *arguments):
    return [str(NODE), str(CLIENTS / program), str(NODE_CLIENTS), *map(str, arguments)]


class NodeIssuer:
    """An identity provider of Node, spoken to in lines."""

    def __init__(self, kind):
        self.process = subprocess.Popen(node("issuer.mjs", kind), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.lock = threading.Lock()
        self.url = json.loads(self.process.stdout.readline())["url"]

    def say(self, line):
        with self.lock:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    with Identities(tmp_path_factory.mktemp("others"), {"child": child_server()}) as running:
        yield running
        running.verify()


def client(gate, kind, agent, *more):
    key = gate.enrol(agent)
    file = gate.folder / f"{agent}.pem"
    file.write_text(key.pem())
    done = subprocess.run(node("oauth.mjs", kind, gate.base, agent, file, *more), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_openid_client_gets_uses_and_revokes_a_bound_token(gate):
    said = client(gate, "openid-client", "oic")
    assert (said["type"], said["scope"].split()) == ("dpop", ["identity", "mcp"])
    for who in (said["who"], said["again"]):
        assert (who["agent"], who["by"], who["scopes"]) == ("oic", "access_token", ["identity", "mcp"]), who
    assert said["active"]["active"] and said["active"]["client_id"] == "oic" and said["active"]["token_type"] == "DPoP", said["active"]
    assert said["revoked"] == 401 and said["after"] == {"active": False}


@pytest.mark.parametrize("algorithm", ["ES256", "Ed25519", "RS256", "PS256"])
def test_oauth4webapi_discovers_and_binds_with_each_algorithm(gate, algorithm):
    agent = f"owa-{algorithm.lower()}"
    said = client(gate, "oauth4webapi", agent, algorithm)
    assert (said["type"], said["who"]["agent"]) == ("dpop", agent), said
    claims = jwt.decode(said["token"], options={"verify_signature": False})
    assert claims["aud"] == f"{gate.base}/whoami" and claims["cnf"].keys() == {"jkt"}
    # What was stolen is of no use without the key.
    assert gate.whoami(f"DPoP {said['token']}").status == 401


def test_proofs_that_the_package_dpop_makes(gate):
    key = gate.enrol("prover")
    token = gate.token("prover", key)
    for algorithm in ["ES256", "Ed25519", "RS256", "PS256"]:
        url = f"{gate.base}/whoami"
        file = gate.folder / "prover.pem"
        file.write_text(key.pem())
        made = lambda *more: json.loads(subprocess.run(node("oauth.mjs", "dpop", gate.base, "prover", file, algorithm, *more), capture_output=True,
                                                       text=True, timeout=60, check=True).stdout)["proof"]
        # A token is asked for with one proof, which binds it to that proof's key.
        proof = made("POST", f"{gate.base}/oauth/token", gate.nonce(), "")
        form = {"grant_type": "client_credentials", "client_assertion": key.assertion("prover", gate.base),
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}
        answer = gate.form("/oauth/token", form, dpop=proof)
        assert answer.status == 200 and answer.json()["token_type"] == "DPoP", answer.body
        # The package makes a new key each time, so the proof that goes with the token is another key's: refused, and told why.
        other = gate.whoami(f"DPoP {answer.json()['access_token']}", made("GET", url, gate.nonce(), answer.json()["access_token"]))
        assert other.status == 401 and other.refusal()[0] == "agent.proof_invalid", other.body
    assert gate.whoami(f"Bearer {token}").status == 200


def test_the_typescript_sdk_finds_the_token_service_and_calls(gate):
    said = client(gate, "sdk", "tsdk", gate.url("child"))
    assert "by a token" in said["text"]
    assert said["token"] not in json.dumps(gate.records())


def test_fastmcp_finds_the_token_service_and_calls(gate):
    file = gate.folder / "fast.pem"
    file.write_text(gate.enrol("fast").pem())
    command = [str(AGENTS_PYTHON), str(CLIENTS / "fast_oauth.py"), gate.url("child"), gate.base, "fast", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "by a token" in done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["oidc-provider", "oauth2-mock-server"])
def test_a_provider_that_others_wrote_says_who_calls(tmp_path, kind):
    issuer = NodeIssuer(kind)
    try:
        issuers = {"corp": {"url": issuer.url, "audience": "weir", "agents": {"dev": "ci"}}}
        with Identities(tmp_path, {"child": child_server()}, identity={"issuers": issuers}) as gate:
            bearer = lambda name: gate.whoami(f"Bearer {issuer.say(name)}")
            answer = until(lambda: (found := bearer("ci")).status == 200 and found, "the keys are fetched")
            assert answer.json()["agent"] == "dev"
            refused = bearer("other")
            assert refused.refusal()[0] == "agent.subject_unknown", (refused.status, refused.body)
            if issuer.say("rotate") == "rotated":
                # A token with a key that was not there is what makes the gateway fetch them again.
                until(lambda: bearer("ci").status == 200, "the new key is fetched")
            token = issuer.say("ci")
            head, body, signature = token.split(".")
            assert gate.whoami(f"Bearer {head}.{body}.{signature[:-4]}AAAA").status == 401
    finally:
        issuer.stop()


def test_a_login_of_oidc_provider_mock_says_who_calls(tmp_path):
    with oidc_provider_mock.run_server_in_thread() as server:
        url = f"http://localhost:{server.server_port}"
        issuers = {"corp": {"url": url, "audience": "desk", "agents": {"dev": "ann"}}}
        with Identities(tmp_path, {"child": child_server()}, identity={"issuers": issuers}) as gate:
            def login(sub):
                back = "http://localhost:1/back"
                asked = {"client_id": "desk", "redirect_uri": back, "response_type": "code", "scope": "openid"}
                sent = requests.post(f"{url}/oauth2/authorize", params=asked, data={"sub": sub}, allow_redirects=False, timeout=10)
                code = parse_qs(urlsplit(sent.headers["location"]).query)["code"][0]
                form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
                said = requests.post(f"{url}/oauth2/token", data=form, auth=("desk", "anything"), timeout=10).json()
                return said["id_token"]
            answer = until(lambda: (found := gate.whoami(f"Bearer {login('ann')}")).status == 200 and found, "the keys are fetched")
            assert answer.json()["agent"] == "dev"
            assert gate.whoami(f"Bearer {login('bob')}").refusal()[0] == "agent.subject_unknown"


def test_clocks_that_are_off_are_refused_both_ways(gate):
    key = gate.enrol("clock")
    assertion = lambda by: {"grant_type": "client_credentials", "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                            "client_assertion": key.assertion("clock", gate.base, iat=int(time.time()) + by, exp=int(time.time()) + by + 60)}
    for by in (-600, 600, 86_400):
        answer = gate.form("/oauth/token", assertion(by))
        assert answer.status == 401 and answer.json()["error"] == "invalid_client", (by, answer.body)
    proof_key = Key()
    token = gate.token("clock", key, proof_key)
    for by in (-600, 600, 86_400):
        answer = gate.bound(token, proof_key, iat=int(time.time()) + by)
        assert answer.status == 401, (by, answer.body)
    assert gate.bound(token, proof_key).status == 200
