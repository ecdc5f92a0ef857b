"""`make certify-relay`: does the sealed relay carry everything once, whatever happens around it? A few minutes.

Two outbound and two inbound instances stand behind nginx, in turn by request or fixed by connection:

    load ─► nginx ─► outbound a, b ─► nginx ─► inbound a, b ─► origin

1. Levels: 8 to 128 connections, 2, 5 and 10 KB, with each way of spreading.
2. Rotation: the keys of the tickets are changed under load, in the file that both inbounds read.
3. Expiry: sessions last two seconds, under load.
4. Drain: each instance in its turn is told to end, and started again, under load.
5. Kill (relay_kills.py): `replay: strict` with a Redis, while instances, the balancer's choices and the store die.

It passes when nothing failed, no byte was wrong, the origin saw every request once and none twice, and both instances
of a side had their share: by request within 2 % of a half; by connection within four standard deviations of a fair
coin that is thrown once for each connection and weighs as much as that connection carried. It prints a table, writes
target/bench/relay/certify.json and ends with 1 when anything failed.
"""

import argparse
import collections
import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import generators as g
import pairs
from checks import Table

LEVELS, SIZES_KB = (8, 32, 128), (2, 5, 10)
BALANCES = ("request", "connection")
STEADY = 32
TICKET_KEYS_MAX = 8
SESSION_MS, DRAIN_STEP_S = 3_600_000, 7
SPLIT_BY_REQUEST, SPLIT_DEVIATIONS = 0.02, 4
# What the lab says of the machine is not what is certified here.
LAB_VERDICTS = (0, 91, 92, 93, 94)


class Inbounds:
    """The configuration of the inbound side: one for all instances but what is an instance's own."""

    def __init__(self, options, name, session_ms):
        self.options, self.folder, self.session_ms = options, pairs.WORK / name, session_ms
        self.folder.mkdir()
        self.pages = [g.free_port(), g.free_port()]
        self.tickets = pairs.keygen(options.weir, self.folder / "tickets", "--tickets")
        (self.folder / "policy.cedar").write_text("permit (principal, action, resource);\n")

    def write(self, index, port, origin_port):
        """Writes an instance's file at once, as one that is watched has to be. Gives its path."""
        inbound = {"listen": f"127.0.0.1:{port}", "keys": f"file:{self.options.keys.inbound}",
                   "origins": {"origin": {"url": f"http://127.0.0.1:{origin_port}", "addresses": ["127.0.0.0/8"]}},
                   "allow": {"app": {"key": f"file:{self.options.keys.outbound}.pub"}},
                   "ticket_keys": f"file:{self.tickets}", "session_ms": self.session_ms}
        instance = "ab"[index]
        path, draft = self.folder / f"{instance}.yaml", self.folder / f"{instance}.draft"
        draft.write_text(json.dumps({
            "listen": "127.0.0.1:0", "admin": {"listen": f"127.0.0.1:{self.pages[index]}"}, "state": f"state-{instance}", "policy": {"files": ["policy.cedar"]},
            "limits": {"agent_per_minute": 10_000_000},
            "log": {"durability": "os"}, "logs": {"level": "warn"}, "relay": {"inbound": inbound}}, indent=1))
        draft.rename(path)
        return path

    def events(self, name):
        """How often both instances counted an event since they began."""
        count = 0
        for port in self.pages:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            count += sum(float(line.split()[1]) for line in lines if f'event="{name}"' in line)
        return int(count)

    def rotate(self):
        """A new ticket key before the others; it mints from now on, and the others open what they minted."""
        new, draft = self.folder / "tickets.new", self.folder / "tickets.draft"
        pairs.keygen(self.options.weir, new, "--tickets")
        before = self.tickets.read_text().splitlines()
        draft.touch(mode=0o600)
        draft.write_text("\n".join([new.read_text().splitlines()[0], *before][:TICKET_KEYS_MAX]) + "\n")
        new.unlink()
        draft.rename(self.tickets)


class Fleet:
    """Two instances of each side behind nginx, before the lab's origin; ends with the block."""

    def __init__(self, options, balance, name, session_ms=SESSION_MS):
        self.options, self.balance, self.name = options, balance, name
        self.weir, self.keys, self.started = options.weir, options.keys, []
        self.inbounds = Inbounds(options, name, session_ms)
        self.origin = None

    def __enter__(self):
        self.origin = g.target(self.options.load).__enter__()
        ports = [g.free_port() for _ in range(6)]
        self.front_port, self.outbound_ports, self.middle_port, self.inbound_ports = (
            ports[0], ports[1:3], ports[3], ports[4:6])
        self.instances = {}
        for index in (0, 1):
            self.start("inbound", index)
        self.middle = self.front(f"{self.name}-middle", self.middle_port, self.inbound_ports)
        for index in (0, 1):
            self.start("outbound", index)
        self.near = self.front(f"{self.name}-front", self.front_port, self.outbound_ports)
        self.url = f"http://127.0.0.1:{self.front_port}"
        for port in self.outbound_ports:
            pairs.wait_until_carried(f"http://127.0.0.1:{port}")
        return self

    def front(self, name, port, next_ports):
        process = pairs.nginx_front(name, port, next_ports, self.balance)
        self.started.append(process)
        return process

    def start(self, side, index):
        """Starts one instance; it takes the place of one that ended."""
        name = f"{self.name}-{side}-{'ab'[index]}"
        if side == "inbound":
            port = self.inbound_ports[index]
            path = self.inbounds.write(index, port, self.origin.port)
            process = pairs.Process(name, [self.weir, "serve", "-c", path], port)
        else:
            process = pairs.weir_outbound(self.weir, self.keys, self.middle_port, self.outbound_ports[index], name)
        self.instances[side, index] = process

    def reload(self):
        """Has both inbounds read their configuration again."""
        for index in (0, 1):
            self.instances["inbound", index].signal(signal.SIGHUP)

    def __exit__(self, *_):
        for process in [*self.started, *self.instances.values()]:
            process.end()
        self.origin.__exit__()

    def shares(self, process, ports):
        """Of the requests that nginx sent on: the first instance's share, how far a fair spread may be off, and all."""
        time.sleep(1.2)  # nginx writes its log once a second; this waits for no state of ours.
        counts, connections = collections.Counter(), collections.Counter()
        for line in (pairs.WORK / f"{process.name}.split").read_text().splitlines():
            connection, addresses = line.split(" ", 1)
            connections[connection] += 1
            # Where nginx tried several, the last one answered.
            counts[addresses.rsplit(", ", 1)[-1]] += 1
        first, second = (counts[f"127.0.0.1:{port}"] for port in ports)
        every = max(sum(connections.values()), 1)
        coins = 0.5 * sum((count / every) ** 2 for count in connections.values()) ** 0.5
        bound = SPLIT_BY_REQUEST if self.balance == "request" else SPLIT_DEVIATIONS * coins
        return first / max(first + second, 1), bound, first + second


def begin(fleet, connections, kb, seconds):
    """Starts a load; every body is unique and every byte compared, and the origin tells what it saw twice."""
    command = [fleet.options.load, "lab", "load", f"{fleet.url}/echo", "-c", str(connections), "-t", "1", "-d",
               f"{seconds}s", "--unique", f"{kb}KB", "--expect", "echo", "--origin", fleet.origin.url, "--json", "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def judge(table, what, load, seconds, **values):
    """Waits for a load and judges it: nothing failed, nothing wrong, all executed, nothing twice."""
    out, err = load.communicate(timeout=seconds + 90)
    try:
        run = json.loads(out)
    except ValueError:
        table.add(what, False, f"the lab ended with {load.returncode}: {err.decode()[-300:]}")
        return None
    total, origin = run["total"], run.get("origin") or {}
    distinct, twice = origin.get("distinct", -1), origin.get("duplicates", -1)
    ok = (load.returncode in LAB_VERDICTS and total["requests"] > 0 and total["failed"] == 0
          and total["good"] == total["requests"] == distinct and twice == 0)
    latency = total["latency"].get("response", {})
    evidence = (f"{total['requests']:>8,} requests, {total['failed']} failed, {distinct - total['good']} executed and not "
                f"answered, {twice} executed twice; {total['rate']:>6,.0f}/s, p50 {latency.get('p50', 0) / 1e3:.2f} ms, "
                f"p99 {latency.get('p99', 0) / 1e3:.2f} ms")
    if not ok:
        evidence += f"; {total.get('errors', {})} {run.get('notes', [])[:3]}"
    table.add(what, ok, evidence, requests=total["requests"], failed=total["failed"], distinct=distinct, twice=twice,
              rate=total["rate"], latency_us=latency, **values)
    return run


def split(table, fleet):
    """Judges the shares of both sides."""
    for side, process, ports in (("outbound", fleet.near, fleet.outbound_ports),
                                 ("inbound", fleet.middle, fleet.inbound_ports)):
        share, bound, count = fleet.shares(process, ports)
        table.add(f"split by {fleet.balance}, {side}", abs(share - 0.5) <= bound,
                  f"{share:.1%} and {1 - share:.1%} of {count:,}; within {bound:.1%} of a half", share=share, bound=bound)


def levels(options, table):
    for balance in BALANCES:
        with Fleet(options, balance, f"levels-{balance}") as fleet:
            for level in LEVELS:
                for kb in SIZES_KB:
                    load = begin(fleet, level, kb, options.seconds)
                    judge(table, f"by {balance}, {level} connections, {kb} KB", load, options.seconds,
                          connections=level, kb=kb, balance=balance)
            split(table, fleet)


def rotation(options, table):
    with Fleet(options, "request", "rotation") as fleet:
        seconds = 4 * options.seconds
        load = begin(fleet, STEADY, 10, seconds)
        for _ in range(3):
            time.sleep(options.seconds)
            fleet.inbounds.rotate()
            fleet.reload()
        judge(table, "ticket keys changed three times", load, seconds)


def expiry(options, table):
    """Each outbound has to renew its session every two seconds, or fail."""
    with Fleet(options, "request", "expiry", session_ms=2_000) as fleet:
        seconds, before = 4 * options.seconds, fleet.inbounds.events("handshakes")
        judge(table, "sessions of two seconds", begin(fleet, STEADY, 10, seconds), seconds)
        made = fleet.inbounds.events("handshakes") - before
        table.add("sessions that began meanwhile", made >= seconds // 2, f"{made}; at least {seconds // 2}", handshakes=made)


def drain(options, table):
    """Each instance ends and starts again while the load goes on."""
    for balance in BALANCES:
        with Fleet(options, balance, f"drain-{balance}") as fleet:
            order = [(side, index) for index in (0, 1) for side in ("inbound", "outbound")]
            seconds = DRAIN_STEP_S * (len(order) + 1)
            load, begin_s = begin(fleet, STEADY, 10, seconds), time.monotonic()
            for number, (side, index) in enumerate(order):
                time.sleep(max(0, begin_s + DRAIN_STEP_S * number + 2 - time.monotonic()))
                process = fleet.instances[side, index]
                ended = process.end()
                table.add(f"drain by {balance}: {process.name} ends", ended and process.process.returncode == 0,
                          f"exit {process.process.returncode}")
                fleet.start(side, index)
            judge(table, f"drain by {balance}", load, seconds)


def main():
    import relay_kills  # It stands on what is here.

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the binary to certify")
    parser.add_argument("--load", help="the binary whose lab makes the load (default: the one to certify)")
    parser.add_argument("--minutes", type=float, default=4, help="about how long all of it takes, at least 4")
    parser.add_argument("--only", choices=["levels", "rotation", "expiry", "drain", "kill"])
    options = parser.parse_args()
    options.weir = str(Path(options.weir).resolve())
    options.load = str(Path(options.load or options.weir).resolve())
    # Twenty-six shares of the time beside what starting and draining takes.
    options.seconds = max(3, round((options.minutes * 60 - 110) / 26))
    pairs.prepare()
    options.keys = pairs.Keys(options.weir)
    table, begin_s = Table(pairs.WORK / "certify.json"), time.monotonic()
    parts = {"levels": levels, "rotation": rotation, "expiry": expiry, "drain": drain, "kill": relay_kills.kill}
    for name, part in parts.items():
        if options.only in (None, name):
            part(options, table)
    sys.exit(table.write(time.monotonic() - begin_s))


if __name__ == "__main__":
    main()
