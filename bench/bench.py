"""`make bench`: the gateway's CPU time for one governed tools/call, beside nginx proxying the same bytes.

Both stand before the same server, in turns, so that a noisy neighbour meets both. What is counted is the CPU
time of the whole process (and of nginx's workers) from /proc, over the requests that the load tool counted.
Everything is on 127.0.0.1, bounded in count and time. The configuration is made from constants, and its
SHA-256 is printed; the result is written between two marks in docs/performance.md. `--revision` and `--at` measure
another way of MCP and leave the page alone; `mcp_lane.py` measures all ways in one run.
"""

import argparse
import contextlib
import hashlib
import json
import operator
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import calls
import figures
from calls import AGENTS, SERVERS, TOOLS, Way, agent_key

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "target/bench/run"
GROUPS = 20
CONNECTIONS, LOAD_THREADS = 32, 1
TICK = os.sysconf("SC_CLK_TCK")
# Where the build puts the server behind.
BUILT = ROOT / "target/bench"


# The configuration

def policies():
    """100 policies: 79 permits by group and server, 20 that read arguments, one that permits the rest of MCP."""
    texts = ['@id("use")\npermit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);']
    for i in range(79):
        group, server = f"g{i % GROUPS:02}", f"s{i % SERVERS}"
        scope = f'principal in Group::"{group}", action == Action::"mcp:call", resource in Server::"{server}"'
        texts.append(f'@id("permit-{i:02}")\npermit ({scope});')
    for i in range(20):
        server, tool = f"s{i % SERVERS}", f"t{calls.first_tool(i % SERVERS) + i:02}"
        scope = f'principal, action == Action::"mcp:call", resource == Tool::"{server}/{tool}"'
        when = (f'context.arguments has text && context.arguments.text like "*forbidden-{i:02}*" || '
                f'context.arguments has count && context.arguments.count > {1000 + i}')
        texts.append(f'@id("arguments-{i:02}")\nforbid ({scope}) when {{ {when} }};')
    return "\n\n".join(texts) + "\n"


def configuration(durability, origin_port):
    """The gateway's configuration: `durability` is the log's, and names the folder of its state."""
    agents = {}
    for i in range(AGENTS):
        digest = hashlib.sha256(agent_key(i).encode()).hexdigest()
        # 20 groups and 3 servers: every agent's group is permitted every server.
        agents[f"a{i:04}"] = {"key": f"sha256:{digest}", "groups": [f"g{i % GROUPS:02}"]}
    def url(server):
        return f"http://127.0.0.1:{origin_port}/mcp/{calls.first_tool(server)}"
    return {
        "listen": "127.0.0.1:0",
        "state": f"state-{durability}",
        "agents": agents,
        "mcp": {f"s{i}": {"url": url(i), "sessions_max": 4096} for i in range(SERVERS)},
        "policy": {"files": ["policy.cedar"], "arguments": {"text": "String", "count": "Long"}},
        "limits": {"agent_per_minute": 10_000_000},
        "log": {"durability": durability},
        "logs": {"format": "json", "level": "info"},
    }


# Processes

def start(command, **more):
    """Starts a process that says where it listens. Gives it and its port."""
    process, ports = start_on(command, 1, **more)
    return process, ports[0]


def start_on(command, count, **more):
    """The same of a process that listens on so many ports."""
    process = subprocess.Popen(command, cwd=WORK, start_new_session=True, **more)
    stream = process.stdout or process.stderr
    pattern = re.compile(r"listening on (?:http://[0-9.]+:)?(\d+)|\"address\":\s*\"[0-9.]+:(\d+)\"")
    seen, ports = [], []
    for raw in stream:
        line = raw.decode(errors="replace")
        seen.append(line)
        found = "listening" in line and pattern.search(line)
        if found:
            ports.append(int(found[1] or found[2]))
        if len(ports) == count:
            threading.Thread(target=lambda: [None for _ in stream], daemon=True).start()
            return process, ports
    sys.exit(f"bench: {command[0]} did not start:\n{''.join(seen)}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_nginx(origin_port, name="nginx", more=""):
    port, binary = free_port(), shutil.which("nginx") or "/usr/sbin/nginx"
    text = (ROOT / "bench/nginx.conf").read_text()
    for key, value in {"PORT": port, "ORIGIN": origin_port, "WORK": WORK, "NAME": name, "MORE": more}.items():
        text = text.replace(f"@{key}@", str(value))
    path = WORK / f"{name}.conf"
    path.write_text(text)
    process = subprocess.Popen([binary, "-c", str(path), "-p", str(WORK)], start_new_session=True)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process, port
        except OSError:
            time.sleep(0.02)
    sys.exit("bench: nginx did not start")


def cpu_s(process):
    """User and system seconds of a process and its children."""
    pids = [process.pid]
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        # A thread of a server with one for each connection may be gone by now.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pids += map(int, (task / "children").read_text().split())
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def rss_mb(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


# Requests

class Load(NamedTuple):
    """What the load tool saw."""
    requests: int
    rate: float
    # Connections that failed, answers that came too late, and answers that are no result.
    errors: int
    # Microseconds of an answer; nothing where no table was sent.
    p50_us: int | None
    p99_us: int | None


class Run(NamedTuple):
    """One run: CPU microseconds of the measured process for a request, and what the load tool saw."""
    cpu_us: float
    rate: float
    errors: int
    p50_us: int | None
    p99_us: int | None


def load(port, seconds, table=None, path="/", scheme="http", connections=CONNECTIONS, is_strict=True):
    """Runs the load tool. Where it is strict, any error ends the benchmark."""
    command = ["wrk", "-t", str(LOAD_THREADS), "-c", str(connections), "-d", f"{seconds}s"]
    if table:
        command += ["-s", str(ROOT / "bench/calls.lua")]
    environment = {**os.environ, "BENCH_TABLE": str(WORK / f"{table}.lua")}
    done = subprocess.run([*command, f"{scheme}://127.0.0.1:{port}{path}"], env=environment,
                          capture_output=True, text=True, timeout=seconds + 60)
    found = re.search(r"(\d+) requests in ([0-9.]+)(m?s)", done.stdout)
    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout|Non-2xx or 3xx responses:|wrong answers:) (\d+)",
                                     done.stdout)))
    if not found or (table and "wrong answers:" not in done.stdout) or (is_strict and errors):
        sys.exit(f"bench: the load met errors:\n{done.stdout}{done.stderr}")
    took = float(found[2]) / (1000 if found[3] == "ms" else 1)
    latency = re.search(r"latency us: p50 (\d+) p99 (\d+)", done.stdout)
    p50, p99 = map(int, latency.groups()) if latency else (None, None)
    return Load(int(found[1]), int(found[1]) / took, errors, p50, p99)


def measured(process, port, seconds, **more):
    before = cpu_s(process)
    seen = load(port, seconds, **more)
    return Run((cpu_s(process) - before) / max(1, seen.requests) * 1e6, *seen[1:])


def fdatasync_ms():
    """The disk's own time: the median and 95th percentile of 200 appends of 4 KiB, each synced."""
    path, times = WORK / "fdatasync.probe", []
    with open(path, "wb", buffering=0) as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            before = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - before) * 1e3)
    path.unlink()
    return statistics.median(times), sorted(times)[189]


# The result

def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def by_pair(runs, compare, one, other):
    """The CPU time of one target compared with that of another in the same pair."""
    return [compare(a.cpu_us, b.cpu_us) for a, b in zip(runs[one], runs[other])]


def machine():
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}"


def report(runs, ratios, instructions, sync, idle_mb, loaded_mb, digest, options):
    rows = [("weir, `os`", "weir-os"), ("weir, `fsync`", "weir-fsync"), ("weir, `os`, by TLS", "weir-tls"),
            ("nginx", "nginx"), ("weir `/health/live`", "live"), ("nginx `return 200`", "nginx-live")]
    lines = [f"{figures.measured()}, on {machine()}; {options.pairs} pairs of "
             f"{options.seconds} s, {CONNECTIONS} connections; median (least to most).", "",
             "| what | CPU µs a request | requests/s |", "|---|---|---|"]
    for label, name in rows:
        costs, rates = [run.cpu_us for run in runs[name]], [run.rate for run in runs[name]]
        lines.append(f"| {label} | {spread(costs)} | {spread(rates)} |")
    lines += ["", "| what | value |", "|---|---|",
              f"| weir `os` / nginx, CPU a call, by pair | {spread(ratios['nginx'])} |",
              f"| weir `os` by TLS less without, CPU µs a call, by pair | {spread(ratios['tls'])} |",
              f"| weir `/health/live` / nginx `return 200`, CPU, by pair | {spread(ratios['live'])} |",
              f"| instructions of weir `os` for a call, by callgrind | {instructions} |",
              f"| fdatasync of 4 KiB on this disk | median {sync[0]:.2f} ms, p95 {sync[1]:.2f} ms |",
              f"| memory of the gateway (RSS), idle | {idle_mb:.1f} MB |",
              f"| memory of the gateway (RSS), after the load | {loaded_mb:.1f} MB |",
              f"| SHA-256 of the configuration | `{digest}` |"]
    return "\n".join(lines)


def prepare(needs=("wrk",), revision=calls.LEGACY):
    """An empty work folder with the policies; builds and starts the server behind. Gives it and its port."""
    for program in needs:
        if shutil.which(program) is None:
            sys.exit(f"bench: {program} is not installed: make bench installs what it needs")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    (WORK / "policy.cedar").write_text(policies())
    manifest = ROOT / "bench/origin/Cargo.toml"
    subprocess.run(["cargo", "build", "--locked", "--release", "--quiet", "--manifest-path", str(manifest),
                    "--target-dir", str(BUILT)], check=True)
    return start_origin(revision)


def start_origin(revision):
    """A server that speaks this revision, and its port."""
    return start([str(BUILT / "release/origin"), revision], stdout=subprocess.PIPE)


def end(processes):
    """Ends what was started, the last first."""
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_gateway(weir, durability, origin_port):
    """The gateway, and the ports on which it speaks plain HTTP and TLS."""
    path = WORK / f"weir-{durability}.yaml"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-subj", "/CN=bench", "-keyout", "tls.key", "-out", "tls.crt"], cwd=WORK, check=True,
                   capture_output=True)
    tls = {"certificates": {"certificate": "file:tls.crt", "key": "file:tls.key"}}
    # JSON is YAML.
    path.write_text(json.dumps({**configuration(durability, origin_port),
                                "listen": ["127.0.0.1:0", {"address": "127.0.0.1:0", "tls": tls}]}, indent=1))
    return start_on([weir, "serve", "-c", str(path)], 2, stderr=subprocess.PIPE)


def run_pairs(options, targets):
    """The runs in turns. Gives them by name, as (CPU µs, requests/s). A target is a process, its port, and what is asked
    of it how."""
    runs = {name: [] for name in targets}
    for process, port, how in targets.values():
        load(port, 2, **how)
    for pair in range(options.pairs):
        # Every other pair goes the other way round.
        for name in list(targets) if pair % 2 == 0 else reversed(list(targets)):
            process, port, how = targets[name]
            seconds = options.seconds if "table" in how else max(2, options.seconds // 2)
            runs[name].append(measured(process, port, seconds, **how))
        line = "  ".join(f"{name} {values[-1].cpu_us:.1f} µs" for name, values in runs.items())
        print(f"bench: pair {pair + 1}: {line}", flush=True)
    return runs


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--pairs", type=int, default=6)
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--revision", choices=calls.REVISIONS, default=calls.LEGACY, help="of clients and servers")
    options.add_argument("--at", choices=(calls.ONE, calls.ALL), default=calls.ONE, help="where clients ask")
    options.add_argument("--dry", action="store_true", help="print the result and leave the page alone")
    options = options.parse_args()
    weir = str(Path(options.weir).resolve())
    way = Way(options.revision, options.revision, options.at)
    origin, origin_port = prepare(revision=way.server)
    started = [origin]
    try:
        shape = json.dumps([configuration("os", 0), configuration("fsync", 0), policies()], sort_keys=True)
        digest = hashlib.sha256(shape.encode()).hexdigest()
        print(f"bench: the configuration's SHA-256 is {digest}")
        gateways = {}
        for durability in ("os", "fsync"):
            gateways[f"weir-{durability}"] = start_gateway(weir, durability, origin_port)
            started.append(gateways[f"weir-{durability}"][0])
        nginx = start_nginx(origin_port)
        started.append(nginx[0])
        time.sleep(1)  # Idle means idle: let start-up work end before memory is read.
        idle_mb = rss_mb(gateways["weir-os"][0])
        for name, (_, ports) in gateways.items():
            sessions = [calls.open_session(ports[0], i, way) for i in range(AGENTS)]
            calls.write_requests(WORK / f"{name}.lua", way, sessions)
        sync = fdatasync_ms()
        os_process, (plain, secured) = gateways["weir-os"]
        fsync_process, (fsync_port, _) = gateways["weir-fsync"]
        runs = run_pairs(options, {
            "weir-os": (os_process, plain, {"table": "weir-os"}),
            "weir-fsync": (fsync_process, fsync_port, {"table": "weir-fsync"}),
            "weir-tls": (os_process, secured, {"table": "weir-os", "scheme": "https"}),
            "nginx": (*nginx, {"table": "weir-os"}),
            "live": (os_process, plain, {"path": "/health/live"}),
            "nginx-live": (*nginx, {"path": "/health/live"}),
        })
        ratios = {"nginx": by_pair(runs, operator.truediv, "weir-os", "nginx"),
                  "tls": by_pair(runs, operator.sub, "weir-tls", "weir-os"),
                  "live": by_pair(runs, operator.truediv, "live", "nginx-live")}
        loaded_mb = rss_mb(gateways["weir-os"][0])
        # Imported here, as it imports this file.
        import call_instructions
        costs = call_instructions.measure(weir, origin_port, way)
        instructions = call_instructions.spread(costs) if costs else "–"
        text = report(runs, ratios, instructions, sync, idle_mb, loaded_mb, digest, options)
    finally:
        end(started)
    print(text)
    if not options.dry and way == Way():
        figures.write("bench", text)


if __name__ == "__main__":
    main()
