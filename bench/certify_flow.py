"""`make certify-flow`: work tracking under crowds and kills, on SQLite and on PostgreSQL with and without `fsync`.

For `MINUTES` (10) on each store 50 agents on three servers of one board make items, take them, count together, close circles and look. Then
`KILLS` (100) times, at points by chance, somebody is killed: whoever has SQLite's file, another of the servers, the process of PostgreSQL
that writes, all of PostgreSQL. Afterwards nothing acknowledged is lost, nothing was done or taken twice, no update is lost, no circle is closed,
versions rise by one, and the events made anew give the same state, byte for byte. The same is played for seconds by the black-box tests
(tests/blackbox/flow_crowd.py). `PAIRS` (100,000) documents are compared with PostgreSQL's own containment.

It prints a line for each check, writes target/bench/certify_flow/certify.json and ends with 1 when anything failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "target/bench/certify_flow"
AGENTS, KILLED_AGENTS, SERVERS = 50, 12, 3
# After a kill: an answer of another server, or of PostgreSQL once it has recovered.
BACK_S, RECOVERED_S, IDLE_MB, GROWN_MB = 2, 10, 60, 16
PAIRS_S = 3600


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True, help="the binary to certify")
    parser.add_argument("--minutes", type=float, default=10, help="of the crowd, on each store")
    parser.add_argument("--kills", type=int, default=100, help="on each store")
    parser.add_argument("--pairs", type=int, default=100_000, help="documents compared with PostgreSQL; 0 for none")
    return parser.parse_args()


options = parse_options()
# The black-box tests' tools take the binary from the environment.
os.environ["WEIR_BIN"] = str(options.weir.resolve())
sys.path.insert(0, str(ROOT / "tests/blackbox"))

from checks import Table  # noqa: E402
from flow_crowd import Crowd, database_killer  # noqa: E402
from postgres import Board, Cluster  # noqa: E402


def boards(name, cluster):
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if cluster:
        return [Board(folder / str(number), cluster, "flow", name.replace(" ", "-")) for number in range(SERVERS)]
    return [Board(folder / "board")] * SERVERS


class Memory:
    """What a server has of memory, without the pages of its program's file, which are the system's to take; looked at once a second."""

    def __init__(self, server):
        self.path, self.seen, self.stops = Path(f"/proc/{server.process.pid}/status"), [], threading.Event()
        self.look()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def look(self):
        line = next(line for line in self.path.read_text().splitlines() if line.startswith("RssAnon"))
        self.seen.append(int(line.split()[1]) / 1024)

    def watch(self):
        while not self.stops.wait(1):
            self.look()

    def end(self):
        """At the start, in the second quarter of the time, and in the last."""
        self.stops.set()
        self.thread.join()
        quarter = max(1, len(self.seen) // 4)
        return self.seen[0], max(self.seen[quarter:2 * quarter] or self.seen), max(self.seen[-quarter:])


def told(table, name, crowd, began):
    did = f"{len(crowd.made)} made, {len(crowd.taken)} taken, {len(crowd.counted)} counted, {len(crowd.refused)} circles refused"
    table.add(f"{name}: everything was done", crowd.made and crowd.taken and crowd.counted and "cycle" in crowd.refused,
              f"{did}, {crowd.answers / (time.monotonic() - began):.0f} answers/s")
    for what, holds in crowd.check().items():
        table.add(f"{name}: {what}", holds, "holds" if holds else "does not hold")


def crowd_of(table, store, cluster):
    name = f"{store}, {AGENTS} agents"
    crowd, began = Crowd(boards(f"{store}-crowd", cluster)), time.monotonic()
    try:
        memory = [Memory(server) for server in crowd.servers]
        crowd.play(AGENTS, options.minutes * 60)
        seen = [one.end() for one in memory]
    finally:
        crowd.end()
    told(table, name, crowd, began)
    table.add(f"{name}: memory", all(idle < IDLE_MB and late < early + GROWN_MB for idle, early, late in seen),
              "; ".join(f"{idle:.0f} MB idle, {early:.0f}, then {late:.0f}" for idle, early, late in seen))


def kills(table, store, cluster):
    name = f"{store}, {options.kills} kills"
    crowd, began = Crowd(boards(f"{store}-kills", cluster)), time.monotonic()
    kill, back = (database_killer(crowd, cluster), RECOVERED_S) if cluster else (crowd.kill_server, BACK_S)
    try:
        crowd.play(KILLED_AGENTS, 0, kill, options.kills)
    finally:
        crowd.end()
    told(table, name, crowd, began)
    table.add(f"{name}: back", max(crowd.gaps) < back, f"an answer after {max(crowd.gaps):.2f} s at most")


def pairs(table):
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "tests/blackbox/test_flow_postgres.py::test_containment_is_postgresqls"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "WEIR_FLOW_PAIRS": str(options.pairs)}, capture_output=True, text=True,
                          timeout=PAIRS_S)
    passed = done.returncode == 0 and "2 passed" in done.stdout
    table.add(f"containment: {options.pairs:,} pairs, both stores", passed, f"{time.monotonic() - begun:.0f} s" if passed else done.stdout[-600:])


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    begun, table = time.monotonic(), Table(WORK / "certify.json")
    for store, fsync in [("SQLite", None), ("PostgreSQL", False), ("PostgreSQL with fsync", True)]:
        cluster = None if fsync is None else Cluster(fsync=fsync)
        try:
            if cluster:
                cluster.database("flow")
            # Minutes of a crowd on PostgreSQL say the same with either.
            if options.minutes and not fsync:
                crowd_of(table, store, cluster)
            if options.kills:
                kills(table, store, cluster)
        finally:
            if cluster:
                cluster.remove()
    if options.pairs:
        pairs(table)
    sys.exit(table.write(time.monotonic() - begun))


main()
