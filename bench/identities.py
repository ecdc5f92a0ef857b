"""A part of `make bench`: what each way to show who calls costs the gateway, beside a governed call by a key in the same run.

Everything is on as in `bench.py`. The ways take turns: a key; an access token without a binding; one that is bound by DPoP, with a proof of
its own in each call, by ES256 and by EdDSA; TLS on a kept connection, and a client certificate above it; a token minted with a proof. What is
counted is the CPU time of the gateway's process over so many requests, which are prepared before. Then 1,000 agents enrol with a certificate
request at once: none may be lost, none certified twice.

    python bench/identities.py --weir target/dist/weir
"""

import argparse
import hashlib
import os
import socket
import ssl
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[1]
CONNECTIONS, CLIENTS = 8, 32
# What the issue of each way is due above a call by a key, in microseconds of CPU; for a mint, of all.
DUE = {"a DPoP proof, ES256": 75, "a DPoP proof, EdDSA": 75, "TLS": 12, "a client certificate": 14, "a token minted with a proof": 200}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--weir", type=Path, required=True, help="the binary to measure")
parser.add_argument("--calls", type=int, default=12_000, help="requests of a way in one round")
parser.add_argument("--rounds", type=int, default=6)
parser.add_argument("--agents", type=int, default=1_000, help="agents that enrol at once")
parser.add_argument("--no-page", action="store_true", help="leave docs/performance.md alone")
options = parser.parse_args()
# The black-box tests' tools take the binary from the environment.
os.environ["WEIR_BIN"] = str(options.weir.resolve())
sys.path.insert(0, str(ROOT / "tests/blackbox"))

import bench  # noqa: E402
import calls  # noqa: E402
import figures  # noqa: E402
from identity import JWT_BEARER, Identities, Key  # noqa: E402
from test_identity_clients import Secured  # noqa: E402


def raw(method, path, headers, body=b""):
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items()),
             f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def send(sock, requests):
    """Sends requests one after the other on a kept connection. An answer that is no result or token ends the benchmark."""
    reader = sock.makefile("rb")
    for request in requests:
        sock.sendall(request)
        status = reader.readline()
        length = 0
        while (line := reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = reader.read(length)
        if b" 200 " not in status or not (b'"result"' in body or b'"access_token"' in body):
            sys.exit(f"identity: an answer is not good: {status!r} {body[:300]!r}")


def connected(gate, pair=None):
    sock = socket.create_connection(("127.0.0.1", gate.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if isinstance(gate, Secured):
        return gate.context(*(pair or ())).wrap_socket(sock, server_hostname="127.0.0.1")
    return sock


def run(gate, pair, requests):
    """CPU microseconds of the gateway for a request."""
    parts = [requests[n::CONNECTIONS] for n in range(CONNECTIONS)]
    socks = [connected(gate, pair) for _ in parts]
    before = bench.cpu_s(gate.process)
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(send, socks, parts))
    spent = bench.cpu_s(gate.process) - before
    for sock in socks:
        sock.close()
    return spent / len(requests) * 1e6


CALL = calls.call_body(0, calls.MODERN)


def called(headers):
    """A governed tools/call of 1 KB, by a client of 2026-07-28, which has no session to open."""
    return raw("POST", "/mcp/s0", {**calls.headers(CALL, calls.MODERN), **headers}, CALL.encode())


def ways(plain, secured):
    """The name of each way, with the gateway, how it is connected to, and how its requests are made."""
    count = options.calls
    key, proof_keys = plain.enrol("bench"), {kind: Key(kind) for kind in ("ES256", "EdDSA")}

    def by_key():
        return [called({"authorization": plain.headers()["authorization"]})] * count

    def by_token():
        return [called({"authorization": f"Bearer {plain.token('bench', key)}"})] * count

    def by_proof(kind):
        def make():
            proof_key, url = proof_keys[kind], plain.url("s0")
            token, nonce = plain.token("bench", key, proof_key), plain.nonce()
            return [called({"authorization": f"DPoP {token}", "dpop": proof_key.proof("POST", url, token, nonce)}) for _ in range(count)]
        return make

    def mint():
        proof_key, nonce, url = proof_keys["ES256"], plain.nonce(), f"{plain.base}/oauth/token"
        made = []
        for _ in range(count // 4):
            form = {"grant_type": "client_credentials", "client_assertion_type": JWT_BEARER,
                    "client_assertion": key.assertion("bench", plain.base)}
            made.append(raw("POST", "/oauth/token", {"content-type": "application/x-www-form-urlencoded",
                                                     "dpop": proof_key.proof("POST", url, nonce=nonce)}, urlencode(form).encode()))
        return made

    folder = secured.folder / "agent-bench"
    (secured.folder / "bench.invite").write_text(secured.invite("bench", "--approved"))
    secured.weir("enrol", secured.base, "--invite", "file:bench.invite", "--dir", folder, "--ca", "outer.pem")
    pair = (folder / "certificate.pem", folder / "key.pem")
    by_tls = [called({"authorization": secured.headers()["authorization"]})] * count
    return {
        "a key": (plain, None, by_key),
        "an access token": (plain, None, by_token),
        "a DPoP proof, ES256": (plain, None, by_proof("ES256")),
        "a DPoP proof, EdDSA": (plain, None, by_proof("EdDSA")),
        "a token minted with a proof": (plain, None, mint),
        "TLS": (secured, None, lambda: by_tls),
        "a client certificate": (secured, pair, lambda: [called({})] * count),
    }


def enrol_at_once(gate, count):
    """So many certificate requests at once: seconds of all, the p99 in milliseconds, and what was certified."""
    brought = [(f"many-{number}", Key()) for number in range(count)]
    invites = [gate.invite(name, "--approved") for name, _ in brought]
    serials, times, lock = [], [], threading.Lock()

    def one(number):
        (_, key), invite = brought[number], invites[number]
        began = time.perf_counter()
        answer = gate.send("/enrol", {"invite": invite, "csr": key.csr()})
        took = time.perf_counter() - began
        if answer.status != 201:
            sys.exit(f"identity: an enrolment failed: {answer.body[:300]!r}")
        with lock:
            times.append(took)
            serials.append(hashlib.sha256(answer.json()["certificate"].encode()).hexdigest())

    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(one, range(count)))
    all_s = time.perf_counter() - began
    if len(set(serials)) != count:
        sys.exit("identity: certificates are missing or twice the same")
    return all_s, sorted(times)[int(count * 0.99) - 1] * 1e3


def page(runs, enrolled, sync):
    lines = [f"{figures.measured()}, on {bench.machine()}; {options.rounds} rounds of {options.calls:,} governed calls of 1 KB for each way, "
             f"{CONNECTIONS} kept connections; median (least to most).", "",
             "| who calls, shown by | CPU µs a request | above a call by a key, by round | due at most |", "|---|--:|--:|--:|"]
    for name, costs in runs.items():
        above = [cost - key for cost, key in zip(costs, runs["a key"])]
        due = f"{DUE[name]}" + (" in all" if "minted" in name else "") if name in DUE else "–"
        lines.append(f"| {name} | {bench.spread(costs)} | {bench.spread(above)} | {due} |")
    all_s, p99 = enrolled
    lines += ["", f"{options.agents:,} certificate requests at once, {CLIENTS} clients, a record and the directory's file for each: "
              f"{options.agents / all_s:,.0f} a second, p99 {p99:.0f} ms, none lost, none twice; fdatasync of this disk {sync[0]:.2f} ms."]
    return "\n".join(lines)


def main():
    _, origin_port = (started := bench.prepare(needs=(), revision=calls.MODERN))
    work = bench.WORK / "identities"
    sync = bench.fdatasync_ms()
    mcp = {"s0": {"url": f"http://127.0.0.1:{origin_port}/mcp/0"}}
    settings = {"limits": {"agent_per_minute": 10_000_000}}
    try:
        plain = Identities(work / "plain", mcp, authority=True, **settings)
        secured = Secured(work / "secured", mcp)
        with plain, secured:
            all_ways = ways(plain, secured)
            runs = {name: [] for name in all_ways}
            for number in range(options.rounds):
                for name in list(all_ways) if number % 2 == 0 else reversed(list(all_ways)):
                    gate, pair, make = all_ways[name]
                    runs[name].append(run(gate, pair, make()))
                    print(f"identities: round {number + 1}: {name}: {runs[name][-1]:.1f} µs", flush=True)
            enrolled = enrol_at_once(plain, options.agents)
    finally:
        bench.end([started[0]])
    text = page(runs, enrolled, sync)
    print(text)
    if not options.no_page:
        figures.write("identities", text)


if __name__ == "__main__":
    main()
