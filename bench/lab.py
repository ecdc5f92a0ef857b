"""`make bench`, third part: what a request costs the lab's generator, beside wrk, oha and k6.

All take turns on the same server, in an order drawn anew for each round, with 64 connections. The generator is to be
due at most 1.15 times wrk's CPU time a request on a small file (three histograms, lag and checks on), and at most 1.5
times with a payload made anew for each request and every byte of its echo compared. oha and k6 are measured where
they are installed (`setup/setup.sh generators`). The result is written between two marks in docs/performance.md.
"""

import argparse
import os
import random
import re
import statistics
from pathlib import Path

import figures
import generators as g

CONNECTIONS, SEED = 64, 20
POST = """
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.body = '{"text":"' .. string.rep("x", 1024 - 11) .. '"}'
"""


def rounds(contenders, count):
    """Runs every contender once a round, in random order. Gives the runs by name."""
    draw, found = random.Random(SEED), {name: [] for name in contenders}
    for number in range(count):
        for name in draw.sample(sorted(contenders), len(contenders)):
            run = contenders[name]()
            found[name].append(run)
            print(f"round {number + 1}: {name}: {run.cpu_us:.2f} µs CPU, {run.rate:,.0f}/s", flush=True)
    return found


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(found, base):
    lines = ["| generator | CPU µs a request | times wrk, by round | requests/s |", "|---|---|---|---|"]
    for name, runs in found.items():
        ratios = [run.cpu_us / other.cpu_us for run, other in zip(runs, found[base])]
        lines.append(f"| {name} | {spread([r.cpu_us for r in runs])} | {spread(ratios)} | "
                     f"{spread([r.rate for r in runs], 0)} |")
    return lines


def small_file(weir, options):
    with g.nginx() as server:
        url = f"{server.url}/small.txt"
        contenders = {
            "weir lab load": lambda: g.weir(weir, url, CONNECTIONS, options.seconds, "-t", "1"),
            "wrk": lambda: g.wrk(url, CONNECTIONS, options.seconds),
        }
        if g.tool("oha"):
            contenders["oha"] = lambda: g.oha(url, CONNECTIONS, options.seconds)
        if g.tool("k6"):
            contenders["k6"] = lambda: g.k6(url, CONNECTIONS, options.seconds)
        return rounds(contenders, options.rounds)


def echo(weir, options):
    script = g.WORK / "post.lua"
    script.write_text(POST)
    with g.target(weir) as server:
        url = f"{server.url}/echo"
        contenders = {
            "weir lab load, unique and compared": lambda: g.weir(
                weir, url, CONNECTIONS, options.seconds, "-t", "1", "--unique", "1KiB", "--expect", "echo"),
            "wrk, one body": lambda: g.wrk(url, CONNECTIONS, options.seconds, script=script),
        }
        return rounds(contenders, options.rounds)


def steady(weir, options):
    """Open load: the lag at 10,000 a second on the small file."""
    with g.nginx() as server:
        url = f"{server.url}/small.txt"
        return [g.weir(weir, url, CONNECTIONS, options.seconds, "-t", "1", "-R", "10000").raw
                for _ in range(options.rounds)]


def report(file, echoed, open_runs, options):
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    machine = f"{os.cpu_count()} cores, {model[1] if model else 'unknown'}"
    lines = [f"{figures.measured()}, on {machine}; {options.rounds} rounds of "
             f"{options.seconds} s, {CONNECTIONS} connections, one generator thread (oha: two; k6: its own); median "
             "(least to most).", "", "nginx, one worker, a file of 128 bytes:", ""]
    lines += table(file, "wrk")
    lines += ["", "The lab's own origin echoing 1 KiB; every body made anew and every byte compared, against one body "
              "and nothing compared:", ""]
    lines += table(echoed, "wrk, one body")
    rates = [run["measured"]["rate"] for run in open_runs]
    lag = [run["measured"]["latency"]["lag"]["p99"] for run in open_runs]
    lag50 = [run["measured"]["latency"]["lag"]["p50"] for run in open_runs]
    lines += ["", "Open load of 10,000 a second on the same file:", "", "| achieved/s | lag p50, µs | lag p99, µs |",
              "|---|---|---|", f"| {spread(rates, 0)} | {spread(lag50, 1)} | {spread(lag, 1)} |"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weir", required=True, help="the binary to measure")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    weir = str(Path(options.weir).resolve())
    g.WORK.mkdir(parents=True, exist_ok=True)
    text = report(small_file(weir, options), echo(weir, options), steady(weir, options), options)
    print(text)
    figures.write("bench-lab", text)


main()
