"""Load generators, run the same way: what each sent, what it cost, and what it says of latency.

A generator's cost is the CPU time of its whole process as the kernel counted it (wait4), set-up included. Everything
is on 127.0.0.1, bounded in time. Each run starts one process and waits for it.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "target/bench/lab"
TOOLS = ROOT / ".setup/tools/bin"


@dataclass
class Run:
    """One run of one generator. Times in microseconds."""

    requests: int
    cpu_us: float
    rate: float
    quantiles_us: dict = field(default_factory=dict)
    raw: dict = field(default_factory=dict)


def tool(name):
    """The path of a generator, or nothing where it is not installed."""
    own = TOOLS / name
    return str(own) if own.exists() else shutil.which(name)


def measured(command, ok=(0,), **more):
    """Runs a command to its end. Gives its standard output and its CPU seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in ok:
        sys.exit(f"bench: {' '.join(command)} ended with {process.returncode}:\n{out.decode()}{err.decode()}")
    return out.decode(), used.ru_utime + used.ru_stime


def weir(binary, url, connections, seconds, *more):
    """The lab. Verdicts on the machine (91 to 94) are for the caller to read in `raw`."""
    command = [binary, "lab", "load", url, "-c", str(connections), "-d", f"{seconds}s", "--json", "--quiet", *more]
    out, cpu = measured(command, ok=(0, 91, 92, 93, 94))
    run = json.loads(out)
    found = run["measured"]["latency"].get("response", {})
    quantiles = {name: found[name] for name in ("p50", "p90", "p99") if name in found}
    if run["total"]["failed"]:
        sys.exit(f"bench: the lab met errors: {run['total']['errors']} {run['notes']}")
    return Run(run["requests"], cpu / max(run["requests"], 1) * 1e6, run["measured"]["rate"], quantiles, run)


def wrk(url, connections, seconds, threads=1, script=None):
    command = [tool("wrk"), "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--latency"]
    command += ["-s", str(script)] if script else []
    out, cpu = measured([*command, url])
    if "Non-2xx" in out or "Socket errors" in out:
        sys.exit(f"bench: wrk met errors:\n{out}")
    requests = int(re.search(r"(\d+) requests in", out)[1])
    rate = float(re.search(r"Requests/sec:\s+([0-9.]+)", out)[1])
    units = {"us": 1.0, "ms": 1e3, "s": 1e6}
    quantiles = {f"p{q}": float(n) * units[u] for q, n, u in re.findall(r"^\s+(50|90|99)%\s+([0-9.]+)(us|ms|s)", out, re.M)}
    return Run(requests, cpu / requests * 1e6, rate, quantiles)


def oha(url, connections, seconds, *more):
    command = [tool("oha"), "--no-tui", "--output-format", "json", "-c", str(connections), "-z", f"{seconds}s",
               "-w", *more, url]
    out, cpu = measured(command)
    found = json.loads(out)
    requests = sum(found["statusCodeDistribution"].values())
    quantiles = {q: found["latencyPercentiles"][q] * 1e6 for q in ("p50", "p90", "p99")}
    return Run(requests, cpu / requests * 1e6, found["summary"]["requestsPerSec"], quantiles)


K6_SCRIPT = """
import http from 'k6/http';
export const options = {
  discardResponseBodies: true,
  summaryTrendStats: ['med', 'p(90)', 'p(99)'],
  scenarios: { closed: { executor: 'constant-vus', vus: @VUS@, duration: '@SECONDS@s', gracefulStop: '5s' } },
};
export default function () { http.get('@URL@'); }
"""


def k6(url, connections, seconds):
    script, summary = WORK / "k6.js", WORK / "k6.json"
    text = K6_SCRIPT.replace("@VUS@", str(connections)).replace("@SECONDS@", str(seconds)).replace("@URL@", url)
    script.write_text(text)
    environment = {**os.environ, "K6_NO_USAGE_REPORT": "true"}
    command = [tool("k6"), "run", "--quiet", "--summary-export", str(summary), str(script)]
    _, cpu = measured(command, env=environment)
    metrics = json.loads(summary.read_text())["metrics"]
    requests, duration = metrics["http_reqs"]["count"], metrics["http_req_duration"]
    quantiles = {"p50": duration["med"] * 1e3, "p90": duration["p(90)"] * 1e3, "p99": duration["p(99)"] * 1e3}
    return Run(requests, cpu / requests * 1e6, metrics["http_reqs"]["rate"], quantiles)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"bench: nothing listens on port {port}")


class Server:
    """A server process that ends with the block."""

    def __init__(self, command, port):
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        wait_for(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)


def nginx(log="off"):
    """nginx with one worker and a file of 128 bytes; `log` is the file of its access log."""
    (WORK / "www").mkdir(parents=True, exist_ok=True)
    (WORK / "www/small.txt").write_text("x" * 128)
    port, text = free_port(), (ROOT / "bench/lab-nginx.conf").read_text()
    for name, value in {"PORT": port, "WORK": WORK, "LOG": log}.items():
        text = text.replace(f"@{name}@", str(value))
    conf = WORK / "nginx.conf"
    conf.write_text(text)
    return Server([shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(conf), "-p", str(WORK)], port)


def target(binary, *more):
    """The lab's own origin."""
    port = free_port()
    return Server([binary, "lab", "target", "--listen", f"127.0.0.1:{port}", *more], port)
