"""The authority's keys in a PKCS #11 module: SoftHSM, with Debian's own tools beside it, and modules that are away, wrong or hang."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from gateway import child_server, until
from identity import Identities, Key

PIN = "271828"
SO_PIN = "31415926"
MODULES = [Path("/usr/lib/softhsm/libsofthsm2.so"), Path("/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so"),
           Path("/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so")]
MODULE = next((str(path) for path in MODULES if path.exists()), str(MODULES[0]))


def run(*command, check=True):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def new_token(label):
    run("softhsm2-util", "--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", SO_PIN)


def tool(*more, check=True):
    return run("pkcs11-tool", "--module", MODULE, *more, check=check)


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    """An empty folder for the tokens of SoftHSM."""
    folder = tmp_path / "tokens"
    folder.mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {folder}\nobjectstore.backend = file\nlog.level = ERROR\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm2.conf"))
    return folder


def house(folder, pin=PIN):
    made = Identities(folder / "house", {"child": child_server()}, identity={"passphrase": "file:pin"})
    (made.folder / "pin").write_text(pin)
    return made


def enrol(gate, invite):
    key = Key()
    return gate.send("/enrol", {"invite": invite, "csr": key.csr()})


def verified(gate, folder, leaf):
    """Whether OpenSSL and GnuTLS both take a chain."""
    root, intermediate = gate.state / "ca/root.pem", gate.state / "ca/intermediate.pem"
    (folder / "chain.pem").write_text(leaf)
    said = run("openssl", "verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", root, "-untrusted", intermediate, folder / "chain.pem")
    assert said.strip().endswith("OK"), said
    run("certtool", "--verify", "--load-ca-certificate", root, "--infile", folder / "chain.pem")


def test_a_token_signs_and_its_keys_cannot_be_read_out(tokens, tmp_path):
    new_token("weir")
    gate = house(tmp_path)
    said = gate.weir("ca", "init", "--pkcs11", MODULE, "--token", "weir").stdout
    assert "in the token weir" in said, said
    kept = {path.name for path in (gate.state / "ca").iterdir()}
    assert kept == {"root.pem", "roots.pem", "intermediate.pem", "trust_domain", "root.pkcs11", "intermediate.pkcs11"}
    assert not any(PIN in path.read_text() for path in (gate.state / "ca").iterdir())

    listed = tool("--login", "--pin", PIN, "--list-objects", "--type", "privkey")
    assert listed.count("Private Key Object; EC") == 2 and listed.count("never extractable") == 2, listed
    identity = json.loads((gate.state / "ca/intermediate.pkcs11").read_text())["id"]
    out = tmp_path / "stolen"
    said = tool("--login", "--pin", PIN, "--read-object", "--type", "privkey", "--id", identity, "--output-file", out, check=False)
    assert not out.exists() or not out.stat().st_size, said

    with gate:
        for name in ["build", "test"]:
            answer = enrol(gate, gate.invite(name, "--approved"))
            assert answer.status == 201, answer.body
            verified(gate, tmp_path, answer.json()["certificate"])
        serial = run("openssl", "x509", "-in", tmp_path / "chain.pem", "-noout", "-serial").strip().split("=")[1]
        gate.weir("ca", "revoke", serial)
        (tmp_path / "crl.pem").write_text(gate.weir("ca", "crl").stdout)
        assert serial.lower() in run("certtool", "--crl-info", "--infile", tmp_path / "crl.pem").lower()
        said = run("openssl", "crl", "-in", tmp_path / "crl.pem", "-noout", "-CAfile", gate.state / "ca/intermediate.pem")
        assert "verify OK" in said
        # Another intermediate in the same token; what the one before signed stays good.
        gate.weir("ca", "rotate")
    assert tool("--login", "--pin", PIN, "--list-objects", "--type", "privkey").count("Private Key Object; EC") == 3
    with gate:
        answer = enrol(gate, gate.invite("later", "--approved"))
        assert answer.status == 201, answer.body
        verified(gate, tmp_path, answer.json()["certificate"])
    assert PIN not in gate.logs.text()


def test_an_authority_moves_into_a_token(tokens, tmp_path):
    new_token("weir")
    gate = house(tmp_path)
    (gate.folder / "root.pass").write_text("correct horse battery staple")
    gate.weir("ca", "init", "--passphrase", "file:root.pass")
    refused = gate.weir("ca", "rotate", "--pkcs11", MODULE, "--token", "weir", check=False)
    assert refused.returncode == 2 and "passphrase" in refused.stderr, refused.stderr
    gate.weir("ca", "rotate", "--root-passphrase", "file:root.pass", "--pkcs11", MODULE, "--token", "weir")
    kept = {path.name for path in (gate.state / "ca").iterdir()}
    assert {"root.key", "intermediate.pkcs11"} <= kept and "intermediate.key" not in kept
    with gate:
        answer = enrol(gate, gate.invite("build", "--approved"))
        assert answer.status == 201, answer.body
        verified(gate, tmp_path, answer.json()["certificate"])


def test_a_root_has_a_token_of_its_own(tokens, tmp_path):
    new_token("weir")
    new_token("vault")
    gate = house(tmp_path)
    said = gate.weir("ca", "init", "--pkcs11", MODULE, "--token", "weir", "--root-token", "vault").stdout
    assert "in the token vault" in said, said
    assert tool("--token-label", "vault", "--login", "--pin", PIN, "--list-objects", "--type", "privkey").count("weir root") == 1
    assert tool("--token-label", "weir", "--login", "--pin", PIN, "--list-objects", "--type", "privkey").count("weir root") == 0


def test_an_hsm_that_is_away_is_told_and_used_again(tokens, tmp_path):
    new_token("weir")
    gate = house(tmp_path)
    gate.weir("ca", "init", "--pkcs11", MODULE, "--token", "weir")
    away = tokens.rename(tmp_path / "away")
    with gate:
        until(lambda: "authority" in gate.logs.text() and "does not sign" in gate.logs.text(), "the log says so")
        invite = gate.invite("build", "--approved")
        answer = enrol(gate, invite)
        assert (answer.status, answer.refusal()[0]) == (503, "identity.authority_away"), answer.body
        # What needs no certificate goes on, and the invite is good still once the HSM is back.
        key = gate.enrol("by-key")
        assert gate.whoami(f"Bearer {gate.token('by-key', key)}").status == 200
        away.rename(tokens)
        answer = until(lambda: (found := enrol(gate, invite)).status != 503 and found, "the HSM is used again")
        assert answer.status == 201, answer.body


def test_a_pin_that_is_wrong_is_sent_once(tokens, tmp_path):
    new_token("weir")
    gate = house(tmp_path)
    gate.weir("ca", "init", "--pkcs11", MODULE, "--token", "weir")
    (gate.folder / "pin").write_text("999999")
    with gate:
        invite = gate.invite("build", "--approved")
        for _ in range(3):
            answer = enrol(gate, invite)
            assert (answer.status, answer.refusal()[0]) == (503, "identity.authority_away"), answer.body
            assert "999999" not in answer.body.decode()
    assert "refused the PIN" in gate.logs.text() and "999999" not in gate.logs.text()
    # The token counts wrong ones: more would have locked it.
    flags = tool("--list-token-slots")
    assert "final user PIN try" not in flags and "user PIN locked" not in flags, flags
    (gate.folder / "pin").write_text(PIN)
    with gate:
        assert enrol(gate, invite).status == 201


HANGS = """
#include <unistd.h>
static unsigned long hang(void *arguments) { for (;;) pause(); }
static struct { unsigned char major, minor; void *functions[68]; } list = { 2, 40, { (void *) hang } };
unsigned long C_GetFunctionList(void **out) { *out = &list; return 0; }
"""


def test_a_module_that_hangs_stops_nothing_else(tokens, tmp_path):
    new_token("weir")
    gate = house(tmp_path)
    gate.weir("ca", "init", "--pkcs11", MODULE, "--token", "weir")
    (tmp_path / "hangs.c").write_text(HANGS)
    run("cc", "-shared", "-fPIC", "-o", tmp_path / "hangs.so", tmp_path / "hangs.c")
    record = gate.state / "ca/intermediate.pkcs11"
    record.write_text(json.dumps({**json.loads(record.read_text()), "module": str(tmp_path / "hangs.so")}))
    with gate:
        key = gate.enrol("by-key")
        invite = gate.invite("build", "--approved")
        connection, body = gate.connect(), json.dumps({"invite": invite, "csr": Key().csr()}).encode()
        connection.request("POST", "/enrol", body, {"content-type": "application/json"})
        began = time.monotonic()
        assert gate.whoami(f"Bearer {gate.token('by-key', key)}").status == 200
        assert time.monotonic() - began < 4, "others wait for the module"
        answer = connection.getresponse()
        assert answer.status == 503 and b"identity.authority_away" in answer.read()


def test_what_cannot_be_made_is_refused_with_what_to_do(tokens, tmp_path):
    new_token("weir")
    gate = house(tmp_path)
    refused = {
        ("--pkcs11", MODULE, "--token", "other"): "has no token",
        ("--pkcs11", "libsofthsm2.so", "--token", "weir"): "not absolute",
        ("--pkcs11", str(tmp_path / "none.so"), "--token", "weir"): "cannot be loaded",
        ("--pkcs11", "/etc/hostname", "--token", "weir"): "cannot be loaded",
        ("--pkcs11", MODULE): "--token",
        ("--token", "weir"): "--pkcs11",
    }
    for flags, what in refused.items():
        done = gate.weir("ca", "init", *flags, check=False)
        assert done.returncode == 2 and what in done.stderr, (flags, done.stderr)
        assert not (gate.state / "ca/root.pem").exists()
    assert "weir" in gate.weir("ca", "init", "--pkcs11", MODULE, "--token", "other", check=False).stderr
    (gate.folder / "pin").write_text("000000")
    done = gate.weir("ca", "init", "--pkcs11", MODULE, "--token", "weir", check=False)
    assert done.returncode == 2 and "PIN" in done.stderr and "000000" not in done.stderr, done.stderr
    assert os.listdir(gate.state / "ca") == []
