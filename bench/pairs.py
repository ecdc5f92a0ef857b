"""Pairs that carry requests over a hop nobody is trusted on: weir's sealed relay, and nginx before nginx by mTLS.

It starts them, tells what they cost, and ends them; it ends only what it started. Everything is on 127.0.0.1. The
certificates are made anew for each run and last a day.
"""

import datetime
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import generators as g

WORK = g.ROOT / "target/bench/relay"
NAME = "relay.example"
TICK = os.sysconf("SC_CLK_TCK")
START_S = 10
# An inbound refuses what another of its kind may have let through before it started: two seconds at least.
READY_S = 20


# Processes

class Process:
    """A process of a pair: what it cost, and its end."""

    def __init__(self, name, command, port, check=True):
        self.name, self.command, self.port = name, [str(word) for word in command], port
        self.log = open(WORK / f"{name}.out", "ab")
        self.process = subprocess.Popen(self.command, cwd=WORK, stdout=self.log, stderr=self.log, start_new_session=True)
        if check:
            self.listening()

    def listening(self):
        """Waits until the process listens; one that ended or is late ends the benchmark."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        sys.exit(f"bench: {' '.join(self.command)} does not listen:\n{(WORK / f'{self.name}.out').read_text()}")

    def pids(self):
        found = [self.process.pid]
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
        return found

    def cpu_s(self):
        """User and system seconds of the process and its children, to a tick of 10 ms."""
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def rss_mb(self, what="VmRSS"):
        """Memory of the process and its children, in MB of 2^20 bytes; VmHWM is the most there ever was."""
        total = 0
        for pid in self.pids():
            total += int(re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
        return total / 1024

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, seconds=20):
        """Asks the process to end and waits. Gives whether it ended by itself."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            return False
        finally:
            self.log.close()


class Pair:
    """The outbound and the inbound process, and the URL where the outbound one listens."""

    def __init__(self, name, outbound, inbound):
        self.name, self.url = name, f"http://127.0.0.1:{outbound.port}"
        self.processes = (outbound, inbound)

    def cpu_s(self):
        return sum(process.cpu_s() for process in self.processes)

    def end(self):
        for process in self.processes:
            process.end()


def prepare():
    """An empty folder for everything that a run writes."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    g.WORK.mkdir(parents=True, exist_ok=True)


# nginx

def write_pem(path, *parts):
    path.write_bytes(b"".join(parts))
    path.chmod(0o600)
    return path


def certificate(common, key, issuer, issuer_key, authority=False):
    """A certificate for a day: an authority by itself, or the one name of both sides."""
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    builder = (x509.CertificateBuilder().subject_name(name).issuer_name(issuer or name).public_key(key.public_key())
               .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=5))
               .not_valid_after(now + datetime.timedelta(days=1))
               .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True))
    if not authority:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def certificates():
    """Writes an authority and a key and certificate for each side (P-256). Gives the folder."""
    folder = WORK / "tls"
    folder.mkdir(exist_ok=True)
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = certificate("bench authority", ca_key, None, ca_key, authority=True)
    write_pem(folder / "ca.pem", ca.public_bytes(pem))
    for side in ("near", "far"):
        key = ec.generate_private_key(ec.SECP256R1())
        write_pem(folder / f"{side}.pem", certificate(side, key, ca.subject, ca_key).public_bytes(pem))
        write_pem(folder / f"{side}.key", key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none))
    return folder


def nginx(name, template, values):
    """Starts one nginx from a template. Gives its process, which listens on values["PORT"]."""
    text = (g.ROOT / "bench" / template).read_text()
    for key, value in {"WORK": WORK, "NAME": name, **values}.items():
        text = text.replace(f"@{key}@", str(value))
    conf = WORK / f"{name}.conf"
    conf.write_text(text)
    return Process(name, [shutil.which("nginx") or "/usr/sbin/nginx", "-c", conf, "-p", WORK], values["PORT"])


def nginx_pair(origin_port, workers):
    """nginx ⇄ nginx: plain to the first, TLS 1.3 with certificates on both sides to the second, plain to the origin."""
    tls, near, far = certificates(), g.free_port(), g.free_port()
    tls_in = (f"ssl_certificate {tls}/far.pem; ssl_certificate_key {tls}/far.key; ssl_protocols TLSv1.3; "
              f"ssl_verify_client on; ssl_client_certificate {tls}/ca.pem; ssl_session_cache shared:bench:4m;")
    tls_out = (f"proxy_ssl_certificate {tls}/near.pem; proxy_ssl_certificate_key {tls}/near.key; "
               f"proxy_ssl_protocols TLSv1.3; proxy_ssl_verify on; proxy_ssl_trusted_certificate {tls}/ca.pem; "
               f"proxy_ssl_name {NAME}; proxy_ssl_server_name on;")
    inbound = nginx("nginx-inbound", "relay-nginx.conf", {
        "WORKERS": workers, "PORT": far, "NEXT": origin_port, "LISTEN": "ssl", "SCHEME": "http", "TLS_IN": tls_in,
        "TLS_OUT": ""})
    outbound = nginx("nginx-outbound", "relay-nginx.conf", {
        "WORKERS": workers, "PORT": near, "NEXT": far, "LISTEN": "", "SCHEME": "https", "TLS_IN": "",
        "TLS_OUT": tls_out})
    return Pair("nginx", outbound, inbound)


def nginx_front(name, port, next_ports, balance):
    """nginx before instances: balance is "request" or "connection"."""
    servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in next_ports)
    how = {"request": "", "connection": 'hash "$remote_addr:$remote_port";'}[balance]
    return nginx(name, "relay-nginx-front.conf", {"PORT": port, "SERVERS": servers, "BALANCE": how})


# weir

class Keys:
    """Key files of both sides, made by `weir relay keygen`; each has its public key beside it."""

    def __init__(self, weir):
        self.outbound, self.inbound = (keygen(weir, WORK / f"{side}.key") for side in ("outbound", "inbound"))


def keygen(weir, path, *more):
    done = subprocess.run([weir, "relay", "keygen", *more, str(path)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: weir relay keygen ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return path


def weir_inbound(weir, keys, origin_port, port, name="weir-inbound", threads=0):
    return Process(name, [weir, "relay", "inbound", "--listen", f"127.0.0.1:{port}", "--origin",
                          f"http://127.0.0.1:{origin_port}", "--key", keys.inbound, "--allow", f"{keys.outbound}.pub",
                          "--state", WORK / f"{name}.state", "--threads", threads, "--log-level", "warn"], port)


def weir_outbound(weir, keys, next_port, port, name="weir-outbound", threads=0):
    return Process(name, [weir, "relay", "outbound", "--listen", f"127.0.0.1:{port}", "--to",
                          f"http://127.0.0.1:{next_port}", "--key", keys.outbound, "--peer", f"{keys.inbound}.pub",
                          "--state", WORK / f"{name}.state", "--threads", threads, "--log-level", "warn"], port)


def weir_pair(weir, keys, origin_port, threads):
    """weir relay outbound ⇄ weir relay inbound, plain HTTP between them, as a middle that is not trusted sees it."""
    near, far = g.free_port(), g.free_port()
    inbound = weir_inbound(weir, keys, origin_port, far, threads=threads)
    pair = Pair("weir", weir_outbound(weir, keys, far, near, threads=threads), inbound)
    wait_until_carried(pair.url)
    return pair


def wait_until_carried(url):
    """Waits for the first answer from the origin: an inbound is ready two seconds after its start."""
    deadline, port, last = time.monotonic() + READY_S, int(url.rsplit(":", 1)[1]), "no answer"
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("POST", "/echo", b"ready?", {"content-type": "text/plain"})
            answer = connection.getresponse()
            body = answer.read()
            last = f"{answer.status} {body[:200]!r}"
            if answer.status == 200 and body == b"ready?":
                return
        except OSError as error:
            last = str(error)
        finally:
            connection.close()
        time.sleep(0.1)
    sys.exit(f"bench: {url} carried nothing in {READY_S} s: {last}")

