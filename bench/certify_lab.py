"""`make certify-lab`: is the instrument right? About twenty minutes, against servers and generators that others wrote.

1. Counts: the lab, wrk, oha and k6 on one nginx; what each says it sent is what the server's log says came.
2. Quantiles: where all measure the same thing (closed, service time), they agree.
3. Comparison: one server against itself 40 times at alpha 1 %: at most 2 false alarms; and a server that is 10 %
   dearer is found, at the effect that was printed.
4. Memory: it does not grow over seven million requests.

oha and k6 take part where they are installed (`setup/setup.sh generators`). It ends with 1 when anything fails.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import generators as g

MILLIONS = 7_000_000
FAILED = []


def check(what, ok, evidence):
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {evidence}", flush=True)
    if not ok:
        FAILED.append(what)


def lines_of(log):
    with open(log, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def counts(weir, seconds):
    """Each generator on a server of its own log. wrk gives up what is in flight at its end, one a connection."""
    runs = {"weir": lambda url: g.weir(weir, url, 32, seconds), "wrk": lambda url: g.wrk(url, 32, seconds)}
    runs |= {name: (lambda url, run=run: run(url, 32, seconds)) for name, run in (("oha", g.oha), ("k6", g.k6))
             if g.tool(name)}
    for name, run in runs.items():
        log = g.WORK / f"{name}.log"
        log.unlink(missing_ok=True)
        with g.nginx(log=log) as server:
            said = run(f"{server.url}/small.txt").requests
        came = lines_of(log)
        log.unlink()
        given_up = 0 if name in ("weir", "k6") else 32
        check(f"counts of {name}", 0 <= came - said <= given_up, f"it says {said:,}, the server's log has {came:,}")


def quantiles(weir, rounds, seconds):
    """Closed with 16 connections, in turns. Medians over the rounds; within 15 % or 60 µs of wrk's."""
    with g.nginx() as server:
        url, found = f"{server.url}/small.txt", {}
        runs = {"weir": lambda: g.weir(weir, url, 16, seconds, "-t", "1"), "wrk": lambda: g.wrk(url, 16, seconds)}
        if g.tool("oha"):
            runs["oha"] = lambda: g.oha(url, 16, seconds)
        for _ in range(rounds):
            for name, run in runs.items():
                found.setdefault(name, []).append(run().quantiles_us)
    for q in ("p50", "p90"):
        of = {name: statistics.median(run[q] for run in runs) for name, runs in found.items()}
        near = abs(of["weir"] - of["wrk"]) <= max(0.15 * of["wrk"], 60)
        check(f"quantile {q}", near, ", ".join(f"{name} {value:.0f} µs" for name, value in of.items()))


def compare(weir, more, repeat, expect, a="", b=""):
    def command(extra):
        return f"{weir} lab target --listen 127.0.0.1:{{port}} {extra}".strip()
    words = [weir, "lab", "compare", "--a-command", command(a), "--b-command", command(b),
             "http://127.0.0.1:{port}/", "--keep", "--metric", "cpu_us_per_request", "--alpha", "1%", "--repeat", str(repeat),
             "--truth", expect, "--accept", "noisy-host", "--accept", "generator-bound", "--accept", "too-short", "--quiet", "--json", *more]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout.strip():
        sys.exit(f"certify: {' '.join(words)} said nothing:\n{done.stderr}")
    return done.returncode, json.loads(done.stdout)


def comparison(weir, repeat, seconds):
    load = ["-R", "4000", "-c", "16", "-d", f"{seconds}s", "--warmup", "250ms", "--blocks", "6"]
    code, found = compare(weir, load, repeat, "same")
    check("false alarms", code == 0, json.dumps(found.get("counts", found))[:300])
    code, found = compare(weir, load, 5, "worse", a="--work 100us", b="--work 112us")
    check("a slowdown of 10 %", code == 0, json.dumps(found.get("counts", found))[:300])


def memory(weir):
    """One long run; its memory after a tenth of it and at its end."""
    with g.nginx() as server:
        url = f"{server.url}/small.txt"
        rate = g.weir(weir, url, 64, 2, "-t", "1").rate
        seconds = int(MILLIONS / rate * 1.15) + 5
        command = [weir, "lab", "load", url, "-c", "64", "-t", "1", "-d", f"{seconds}s", "--json", "--quiet"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        seen, begin = [], time.monotonic()
        while process.poll() is None and time.monotonic() - begin < seconds + 1:
            status = Path(f"/proc/{process.pid}/status").read_text()
            seen += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
            time.sleep(0.5)
        run = json.loads(process.communicate(timeout=60)[0])
    early, late = statistics.median(seen[len(seen) // 10:len(seen) // 5]), statistics.median(seen[-5:])
    check("seven million requests", run["requests"] >= MILLIONS, f"{run['requests']:,}")
    check("memory", late <= early * 1.05 + 1024, f"{early / 1024:.1f} MB after a tenth, {late / 1024:.1f} MB at the end")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weir", required=True, help="the binary to certify")
    parser.add_argument("--repeat", type=int, default=40, help="comparisons of one server with itself")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--only", choices=["counts", "quantiles", "comparison", "memory"])
    options = parser.parse_args()
    weir = str(Path(options.weir).resolve())
    g.WORK.mkdir(parents=True, exist_ok=True)
    parts = {
        "counts": lambda: counts(weir, options.seconds),
        "quantiles": lambda: quantiles(weir, 5, options.seconds),
        "memory": lambda: memory(weir),
        "comparison": lambda: comparison(weir, options.repeat, 1),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            part()
    sys.exit(1 if FAILED else 0)


main()
