"""What work tracking costs: 1,200 items and 10,000 entities, asked and written by one client, and by 50 at once, over HTTP.

Wall time and the server's CPU time a call stand side by side, for SQLite with both durabilities and for PostgreSQL on a Unix socket, `fsync` on; beside them the
floors: a bare INSERT loop of SQLite on the same disk, one transaction each and fifty in one, one `fdatasync` of that disk, and `SELECT 1` of
PostgreSQL. It prints a table and writes target/bench/flow.json; with `--page` it writes its part of docs/performance.md.
"""

import argparse
import http.client
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/blackbox"))

import bench  # noqa: E402
import figures  # noqa: E402
from postgres import ROLE, Cluster  # noqa: E402

ITEMS, ENTITIES, CALLS, AGENTS, AGENT_WRITES = 1_200, 10_000, 300, 50, 20
TICK = os.sysconf("SC_CLK_TCK")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Agent:
    """One session over HTTP."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        answer = self.post({"id": 0, "method": "initialize", "params": HELLO})
        self.headers |= {"mcp-session-id": answer.getheader("mcp-session-id"), "mcp-protocol-version": "2025-11-25"}
        answer.read()
        self.post({"method": "notifications/initialized"}).read()

    def post(self, body):
        self.connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **body}), self.headers)
        return self.connection.getresponse()

    def ask(self, tool, **arguments):
        answer = self.post({"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}).read().decode()
        data = [line[5:] for line in answer.splitlines() if line.startswith("data:") and line[5:].strip()]
        result = json.loads(data[-1] if data else answer)["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def timed(server, agent, name, calls):
    """Wall times of each call, and CPU time of the server for all."""
    times, before = [], cpu_s(server.pid)
    for tool, arguments in calls:
        began = time.perf_counter()
        agent.ask(tool, **arguments)
        times.append((time.perf_counter() - began) * 1000)
    cpu = (cpu_s(server.pid) - before) * 1000 / len(times)
    return {"what": name, "p50_ms": percentile(times, 0.5), "p95_ms": percentile(times, 0.95), "p99_ms": percentile(times, 0.99),
            "cpu_ms": cpu}


def floor(folder, durability, together):
    """Bare INSERTs a second."""
    db = sqlite3.connect(folder / f"floor-{durability}-{together}.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={'FULL' if durability == 'fsync' else 'NORMAL'}")
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, doc TEXT)")
    doc, count, began = "x" * 600, 0, time.perf_counter()
    while time.perf_counter() - began < 1:
        db.execute("BEGIN IMMEDIATE")
        for _ in range(together):
            db.execute("INSERT INTO t(doc) VALUES(?)", (doc,))
        db.execute("COMMIT")
        count += together
    return count / (time.perf_counter() - began)


def synced(folder):
    """The median of one fdatasync after a small write, in milliseconds."""
    times = []
    with open(folder / "sync", "wb") as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return percentile(times, 0.5)


def select_one(cluster, folder):
    """The median of `SELECT 1` on a connection that stays open, by PostgreSQL's own pgbench, in milliseconds."""
    script = folder / "one.sql"
    script.write_text("SELECT 1;\n")
    script.chmod(0o644)
    done = subprocess.run([str(cluster.bin / "pgbench"), "-n", "-h", str(cluster.folder), "-U", ROLE, "-f", str(script), "-T", "2", "flow"],
                          capture_output=True, text=True, timeout=60)
    line = next(line for line in done.stdout.splitlines() if line.startswith("latency average"))
    return float(line.split("=")[1].split()[0])


def crowd(port, writes):
    """Writes a second of many agents, and how long each claim took."""
    agents, claims, errors = [Agent(port) for _ in range(AGENTS)], [], []

    def work(agent, number):
        try:
            for count in range(writes):
                agent.ask("work_item_create", project="bench", title=f"{number}/{count}")
            for _ in range(writes // 4):
                began = time.perf_counter()
                taken = agent.ask("claim", project="bench")
                claims.append((time.perf_counter() - began) * 1000)
                agent.ask("work_item_update", project="bench", id=taken["item"]["id"], version=taken["item"]["version"],
                          lease_token=taken["token"], status="completed")
        except Exception as error:  # Told once all have ended.
            errors.append(error)

    threads = [threading.Thread(target=work, args=(agent, number)) for number, agent in enumerate(agents)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    assert not errors, errors[0]
    return AGENTS * (writes + writes // 4 * 2) / seconds, claims


def rss_mb(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def measure(weir, folder, store, durability, more=()):
    command = [weir, "tools", "flow", "--http", "127.0.0.1:0", "--data", str(folder / f"{store}-{durability}"), "--durability", durability, *more]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        port = int(server.stdout.readline().decode().strip().rsplit(":")[-1].split("/")[0])
        agent = Agent(port)
        agent.ask("project", action="create", name="bench")
        schema = {"type": "object", "properties": {"n": {"type": "integer"}, "kind": {"type": "string"}}}
        agent.ask("entity_type", action="register", name="box", schema=schema)
        rows = [timed(server, agent, "entity_write create", [
            ("entity_write", {"action": "create", "type": "box", "name": f"b{n}",
                              "data": {"n": n, "kind": f"k{n % 50}", "deep": {"flag": n % 3 == 0}}}) for n in range(ENTITIES)])]
        rows.append(timed(server, agent, "work_item_create", [
            ("work_item_create", {"title": f"item {n}", "priority": n % 5 + 1, "description": "word " * 60,
                                  "tags": [f"t{n % 7}"]}) for n in range(ITEMS)]))
        for name, tool, arguments in [
            ("entity_query eq", "entity_query", {"type": "box", "filter": {"eq": {"kind": "k7"}}}),
            ("entity_query contains, gt", "entity_query", {"type": "box", "filter": {"and": [
                {"contains": {"deep": {"flag": True}}}, {"gt": {"n": 5000}}]}}),
            ("work_item_query", "work_item_query", {"status": ["planned"], "tags": ["t3"]}),
            ("next_work", "next_work", {}),
            ("search", "search", {"query": "item 77"}),
            ("status", "status", {}),
            ("work_item_get", "work_item_get", {"id": "#77"}),
        ]:
            rows.append(timed(server, agent, name, [(tool, arguments)] * CALLS))
        version = agent.ask("work_item_get", id="#5")["item"]["version"]
        rows.append(timed(server, agent, "work_item_update", [
            ("work_item_update", {"id": "#5", "version": version + n, "title": f"changed {n}"}) for n in range(CALLS)]))
        idle = rss_mb(server.pid)
        rate, claims = crowd(port, AGENT_WRITES)
        return {"store": store, "durability": durability, "rows": rows, "rss_mb": idle, "rss_after_mb": rss_mb(server.pid),
                "agents_writes_per_s": rate, "claim_p99_ms": percentile(claims, 0.99),
                "claim_p50_ms": percentile(claims, 0.5), "fdatasync_ms": synced(folder),
                "floor_one_per_s": floor(folder, durability, 1), "floor_fifty_per_s": floor(folder, durability, 50)}
    finally:
        server.kill()
        server.wait()


def measured(weir):
    """Every store; PostgreSQL is a cluster of this program's own."""
    # Not in memory: what is measured is a disk.
    base = ROOT / "target/bench"
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as folder:
        results = [measure(weir, Path(folder), "sqlite", durability) for durability in ("os", "fsync")]
    cluster = Cluster(fsync=True)
    try:
        url = cluster.database("flow")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            result = measure(weir, Path(folder), "postgres", "fsync", ["--postgres", url])
            result["select_one_ms"] = select_one(cluster, Path(folder))
    finally:
        cluster.remove()
    return [*results, result]


def name_of(result):
    return "PostgreSQL" if result["store"] == "postgres" else f"SQLite, {result['durability']}"


def table(results):
    """The results as Markdown: p95 of each call on each store, and what stands beside it."""
    names = [name_of(result) for result in results]
    lines = ["| p95, CPU time a call | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for number, row in enumerate(results[0]["rows"]):
        cells = [f"{result['rows'][number]['p95_ms']:.1f} ms, {result['rows'][number]['cpu_ms']:.1f} ms" for result in results]
        lines.append(f"| {row['what']} | " + " | ".join(cells) + " |")
    for what, text in [
        (f"{AGENTS} agents, writes/s", lambda r: f"{r['agents_writes_per_s']:.0f}"),
        (f"`claim` of {AGENTS} at once, p50, p99", lambda r: f"{r['claim_p50_ms']:.0f} ms, {r['claim_p99_ms']:.0f} ms"),
        ("RSS before and after them", lambda r: f"{r['rss_mb']:.0f} MB, {r['rss_after_mb']:.0f} MB"),
        ("floor", lambda r: f"`SELECT 1` {r['select_one_ms']:.2f} ms" if "select_one_ms" in r else
         f"bare INSERTs {r['floor_one_per_s']:.0f}/s one by one, {r['floor_fifty_per_s']:.0f}/s by fifty"),
    ]:
        lines.append(f"| {what} | " + " | ".join(text(result) for result in results) + " |")
    lines.append("")
    lines.append(f"{ITEMS:,} items and {ENTITIES:,} entities, over HTTP, one client but where it says more. One `fdatasync` of this disk took "
                 f"{results[0]['fdatasync_ms']:.2f} ms at the median.")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", default=str(ROOT / "target/dist/weir"))
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    options = parser.parse_args()
    results = measured(options.weir)
    print(table(results))
    out = ROOT / "target/bench/flow.json"
    out.write_text(json.dumps(results, indent=1))
    if options.page:
        figures.write("bench-flow", f"{figures.measured()}, on {bench.machine()}.\n\n{table(results)}")
    return 0


sys.exit(main())
