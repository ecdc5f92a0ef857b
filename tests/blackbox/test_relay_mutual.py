"""The relay's transport `mtls` in weir.yaml: two processes, certificates of our own, curl and openssl beside them."""

import datetime
import ipaddress
import os
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from gateway import until
from relay import Origin, Process, ask, claims, keygen, settled, weir
from test_relay_config import records, write

PEM, NO_PASSWORD = serialization.Encoding.PEM, serialization.NoEncryption()


class Authority:
    """Signs certificates of a day."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.own = self.sign(self.name, self.key.public_key(), x509.BasicConstraints(ca=True, path_length=0))
        self.pem = self.own.public_bytes(PEM)

    def sign(self, subject, public_key, *extensions):
        now = datetime.datetime.now(datetime.UTC)
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public_key)
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=5))
                   .not_valid_after(now + datetime.timedelta(days=1)))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self.key, hashes.SHA256())

    def write(self, folder, name, usage, *alternatives):
        """Writes NAME.crt and NAME.pem, each at once, as what is watched has to be."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.IPAddress(ipaddress.ip_address(a)) if a[0].isdigit() else x509.DNSName(a) for a in alternatives]
        signed = self.sign(x509.Name([]), key.public_key(), x509.BasicConstraints(ca=False, path_length=None),
                           x509.SubjectAlternativeName(names), x509.ExtendedKeyUsage([usage]))
        for suffix, data in (("crt", signed.public_bytes(PEM)),
                             ("pem", key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, NO_PASSWORD))):
            (folder / "draft").write_bytes(data)
            os.replace(folder / "draft", folder / f"{name}.{suffix}")

    def revoke(self, folder, *names):
        """Writes crl.pem: a list of these certificates, at once."""
        now = datetime.datetime.now(datetime.UTC)
        earlier = now - datetime.timedelta(minutes=5)
        builder = (x509.CertificateRevocationListBuilder().issuer_name(self.name).last_update(earlier)
                   .next_update(now + datetime.timedelta(days=1)).add_extension(x509.CRLNumber(1), critical=False))
        for name in names:
            serial = x509.load_pem_x509_certificate(name.read_bytes()).serial_number
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(earlier).build())
        (folder / "draft").write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(PEM))
        os.replace(folder / "draft", folder / "crl.pem")


def client(authority, folder, name, *alternatives):
    authority.write(folder, name, ExtendedKeyUsageOID.CLIENT_AUTH, *alternatives)


def server(authority, folder, name, *alternatives):
    authority.write(folder, name, ExtendedKeyUsageOID.SERVER_AUTH, *alternatives)


def shown(folder, name):
    """What has curl show a certificate."""
    return ["--cert", str(folder / f"{name}.crt"), "--key", str(folder / f"{name}.pem")]


class Served:
    def __init__(self, folder):
        self.origin, self.authority = Origin(), Authority()
        self.near, self.far = folder / "near", folder / "far"
        for place in (self.near, self.far):
            place.mkdir()
            (place / "ca.pem").write_bytes(self.authority.pem)
        server(self.authority, self.far, "far", "127.0.0.1", "localhost")
        client(self.authority, self.near, "app", "app.example")
        self.inbound_side = {
            "listen": "127.0.0.1:0", "transport": "mtls", "certificate": "file:far.crt",
            "certificate_key": "file:far.pem", "ca": "file:ca.pem", "origins": {"api": {"url": self.origin.url}},
            "allow": {"app": {"certificate_name": "app.example"}},
        }
        write(self.far, {"relay": {"inbound": self.inbound_side}})
        self.inbound = Process(self.far, "serve").start()
        self.at = f"https://127.0.0.1:{self.inbound.port('inbound')}"
        write(self.near, self.outbound_config())
        self.outbound = Process(self.near, "serve").start()
        self.port = self.outbound.port("outbound")

    def outbound_config(self, **more):
        peer = {"url": self.at, "transport": "mtls", "certificate": "file:app.crt", "certificate_key": "file:app.pem",
                "ca": "file:ca.pem", **more}
        return {"relay": {"outbound": {"listen": "127.0.0.1:0", "anyone": "dev", "peers": {"far": peer}}}}

    def curl(self, *more):
        command = ["curl", "-sS", "--noproxy", "*", "--cacert", str(self.far / "ca.pem"), "-d", "from curl", *more,
                   f"{self.at}/curl"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def stop(self):
        self.outbound.stop()
        self.inbound.stop()
        self.origin.stop()


@pytest.fixture
def served(tmp_path):
    running = Served(tmp_path)
    settled(running.port)
    yield running
    running.stop()
    for folder in (running.near, running.far):
        weir(folder, "audit", "verify", "state")


def test_requests_pass_and_both_sides_record_them(served):
    for size in (0, 10_240, 3_000_000):
        body = os.urandom(size)
        status, _, data = ask(served.port, "POST", "/echo", body)
        assert status == 200 and data == (body or b"nothing")
    headers = served.origin.seen[-1][2]
    assert {name.lower(): value for name, value in headers.items()}["host"] == "api.example"
    until(lambda: served.inbound.get("/health")[0] == 200, "it is ready")
    metrics = served.inbound.get("/metrics")[1]
    assert 'weir_relay_events_total{side="inbound",event="passages"} 4' in metrics
    text = {folder: str(records(folder)) for folder in (served.near, served.far)}
    assert "relay:pass" in text[served.far] and "'app'" in text[served.far] and "'dev'" in text[served.near]


def test_an_origin_cannot_say_that_weir_refused_and_the_peer_can(served):
    assert b"weir-refusal" not in claims(served.port).replace(b"trailer: weir-refusal", b"")
    status, fields, _ = ask(served.port, path="/gone")
    assert status == 502 and dict(fields)["weir-refusal"] == "relay.failed", fields


def test_doctor_looks_at_it(served):
    done = weir(served.near, "relay", "doctor", "--state", "probe")
    assert "by TLS 1.3" in done.stdout and "HEAD /: 200" in done.stdout, done.stdout


def test_clients_of_others_need_a_certificate_too(served):
    assert served.curl().returncode != 0
    own = shown(served.near, "app")
    done = served.curl(*own)
    assert done.stdout == "from curl", done
    assert served.curl(*own, "--tls-max", "1.2").returncode != 0
    client(Authority(), served.near, "forged", "app.example")
    assert served.curl(*shown(served.near, "forged")).returncode != 0
    client(served.authority, served.near, "other", "other.example")
    done = served.curl(*shown(served.near, "other"))
    assert "relay.refused" in done.stdout and served.origin.count("/curl") == 1
    until(lambda: "handshakes were refused" in served.inbound.logs.text(), "it says why")


def test_certificates_turn_over_while_serving(served):
    def reloaded(process, change):
        before = process.logs.text().count("reloaded")
        change()
        until(lambda: process.logs.text().count("reloaded") > before, "it is seen")

    new = Authority()
    both = served.authority.pem + new.pem
    for process, folder in ((served.inbound, served.far), (served.outbound, served.near)):
        reloaded(process, lambda folder=folder: (folder / "ca.pem").write_bytes(both))
    reloaded(served.inbound, lambda: server(new, served.far, "far", "127.0.0.1"))
    assert ask(served.port, "POST", "/echo", b"one")[2] == b"one"
    reloaded(served.outbound, lambda: client(new, served.near, "app", "app.example"))
    assert ask(served.port, "POST", "/echo", b"two")[2] == b"two"
    # One that cannot be read changes nothing.
    (served.near / "app.pem").write_text("no key\n")
    until(lambda: "not reloaded" in served.outbound.logs.text(), "it says no")
    assert ask(served.port, "POST", "/echo", b"three")[2] == b"three"


def test_who_is_taken_out_is_refused_at_once_and_the_seal_is_not_taken_away(served):
    write(served.far, {"relay": {"inbound": {**served.inbound_side, "allow": {}}}})
    until(lambda: ask(served.port)[0] == 403, "it is refused")
    write(served.far, {"relay": {"inbound": served.inbound_side}})
    until(lambda: ask(served.port)[0] == 200, "it is let through")


def test_a_revoked_certificate_ends_while_serving(served):
    served.authority.revoke(served.far)
    write(served.far, {"relay": {"inbound": {**served.inbound_side, "crl": "file:crl.pem"}}})
    until(lambda: "reloaded" in served.inbound.logs.text(), "it is seen")
    assert ask(served.port, "POST", "/echo", b"one")[2] == b"one"
    served.authority.revoke(served.far, served.near / "app.crt")
    until(lambda: ask(served.port)[0] == 403, "it is refused")
    client(served.authority, served.near, "app", "app.example")
    until(lambda: ask(served.port)[0] == 200, "another certificate is let through")


def test_a_peer_that_was_sealed_for_is_not_spoken_to_in_plain_by_a_reload(tmp_path):
    """A transport takes a restart: until then nothing of the new configuration holds."""
    authority, origin = Authority(), Origin()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    client(authority, tmp_path, "app", "app.example")
    keygen(tmp_path, "own"), keygen(tmp_path, "far")
    sealed = {"url": f"https://127.0.0.1:{origin.port}", "keys": "file:far.key.pub"}
    side = {"listen": "127.0.0.1:0", "key": "file:own.key", "anyone": "dev"}
    write(tmp_path, {"relay": {"outbound": {**side, "peers": {"far": sealed}}}})
    with Process(tmp_path, "serve") as outbound:
        by_tls = {"url": sealed["url"], "transport": "mtls", "certificate": "file:app.crt",
                  "certificate_key": "file:app.pem", "ca": "file:ca.pem"}
        write(tmp_path, {"relay": {"outbound": {**side, "peers": {"far": by_tls}}}})
        until(lambda: "not spoken to by mtls when this began" in outbound.logs.text(), "it says no")
        assert ask(outbound.port("outbound"), "POST", "/secret", b"x")[0] == 503
    assert origin.seen == []
    origin.stop()


def test_what_cannot_be_is_told(tmp_path):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    client(authority, tmp_path, "app", "app.example")
    client(authority, tmp_path, "other", "app.example")
    (tmp_path / "broken.pem").write_text("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
    good = {"url": "https://far.example", "transport": "mtls", "certificate": "file:app.crt",
            "certificate_key": "file:app.pem", "ca": "file:ca.pem"}
    for change, told in (
        ({"url": "http://far.example"}, "has to be https"),
        ({"certificate_key": "file:other.pem"}, "the key"),
        ({"certificate": None}, "is needed where the transport is mtls"),
        ({"crl": "file:ca.pem"}, "the file holds no revocation list"),
        ({"crl": "file:broken.pem"}, "the revocation lists"),
        ({"keys": "x"}, "does not go with transport: mtls"),
        ({"transport": "shr"}, "does not go with transport: shr"),
    ):
        peer = {name: value for name, value in {**good, **change}.items() if value is not None}
        write(tmp_path, {"relay": {"outbound": {"anyone": "dev", "peers": {"far": peer}}}})
        done = weir(tmp_path, "config", "check", code=None)
        assert done.returncode != 0 and told in done.stdout + done.stderr, (change, done.stdout, done.stderr)


def test_two_commands_and_no_file(tmp_path):
    origin, authority = Origin(), Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    server(authority, tmp_path, "far", "localhost", "127.0.0.1")
    client(authority, tmp_path, "app", "app.example")
    with Process(tmp_path, "relay", "inbound", "--listen", "127.0.0.1:0", "--origin", origin.url, "--allow",
                 "app=app.example", "--certificate", "far.crt", "--certificate-key", "far.pem", "--client-ca",
                 "ca.pem") as inbound:
        at = f"https://127.0.0.1:{inbound.port('inbound')}"
        with Process(tmp_path, "relay", "outbound", "--listen", "127.0.0.1:0", "--to", at, "--certificate", "app.crt",
                     "--certificate-key", "app.pem", "--ca", "ca.pem") as outbound:
            assert settled(outbound.port("outbound"))[2] == b"nothing"
            assert ask(outbound.port("outbound"), "POST", "/echo", b"by tls")[2] == b"by tls"
    for more, told in ((["--peer", "x"], "cannot be used with"), ([], None)):
        at = "https://127.0.0.1:1" if more else "http://127.0.0.1:1"
        done = weir(tmp_path, "relay", "outbound", "--listen", "127.0.0.1:0", "--to", at, "--certificate", "app.crt",
                    "--certificate-key", "app.pem", "--ca", "ca.pem", *more, code=None)
        assert done.returncode == 2 and (told or "has to be https") in done.stderr, done.stderr
    origin.stop()
