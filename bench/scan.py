"""`make bench`, fourth part: what a scan costs, beside the same rules run one by one with the `regex` crate.

bench/scan measures CPU time; the instructions beside it are counted by valgrind, which needs no counters of the
machine. The start of a hook is that of the binary that ships. The result is written between two marks in
docs/performance.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parent.parent
HOOK_RUNS = 20
EVENT = {"hook_event_name": "PreToolUse", "session_id": "bench", "tool_name": "Bash",
         "tool_input": {"command": "ls -la && cat Cargo.toml"}}
# What is due, and what the peer needs, in microseconds.
DUE = {
    "URL allowed": (3, 91), "URL blocked by a list": (0.3, 4.3), "URL with a secret": (3, 11.6),
    "URL complex": (5, 168), "URL of 2 KB, 40 parameters": (100, 1_200_000), "secrets, 90 B": (1, 127),
    "secrets, 10 KB": (30, 20_000), "injection, 90 B": (1.5, 236), "injection, 10 KB": (40, 27_600),
    "injection, 1 MB": (4_000, 3_170_000), "MCP result": (3, 213), "JSON chat body, 100 KB": (500, 244_000),
}


def instructions(program, names):
    """Instructions of one call of each operation, by name."""
    found = {}
    # One call of what is never the same says little.
    for name in (name for name in names if shutil.which("valgrind") and "once" not in name):
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=*counted_body*", "--callgrind-out-file=/dev/null",
             program, "--only", name, "--once", "1"], capture_output=True, text=True, check=True)
        calls = int(run.stdout.split("\t")[1])
        found[name] = int(re.search(r"Collected : (\d+)", run.stderr)[1]) / calls
    return found


def hook(weir):
    """Least and median time of a hook from its start to its end, in milliseconds; nothing where there is no hook."""
    if not weir or subprocess.run([weir, "hook", "--help"], capture_output=True).returncode:
        return None
    times = []
    for _ in range(HOOK_RUNS):
        start = time.perf_counter()
        subprocess.run([weir, "hook", "claude"], input=json.dumps(EVENT).encode(), capture_output=True)
        times.append((time.perf_counter() - start) * 1000)
    return min(times), sorted(times)[len(times) // 2]


def short(value):
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def report(result, counted, hooked):
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    text = "real text" if result["real"] else "a small text of our own, since cargo has no sources here"
    lines = [f"{figures.measured()}, on {os.cpu_count()} cores, "
             f"{model[1] if model else 'unknown'}, on {text}; µs of CPU time, median (least to most).", "",
             "| operation | weir | instructions | rules one by one | due | peer |", "|---|--:|--:|--:|--:|--:|"]
    for operation in result["operations"]:
        name = operation["name"]
        least, median, most = operation["us"]
        naive = operation["naive_us"]
        due, peer = DUE.get(name, (None, None))
        lines.append(f"| {name} | {short(median)} ({short(least)} to {short(most)}) | "
                     f"{short(counted[name]) if name in counted else '–'} | {short(naive[1]) if naive else '–'} | "
                     f"{short(due) if due else '–'} | {short(peer) if peer else '–'} |")
    threads, slow = result["threads"], result["slow"]
    worst = slow["slowest"][0]
    lines += ["", "| what | value | due |", "|---|--:|--:|",
              f"| 10 KB, on one thread, and on each of two | {short(threads['one_us'])} µs, "
              f"{short(threads['two_us'])} µs | the same |",
              f"| a megabyte made to be slow: the slowest of {slow['rules']} rules, `{worst['rule']}` | "
              f"{worst['ms']:.1f} ms | 40 ms |",
              f"| rules above 40 ms | {slow['over_40_ms']} | 0 |"]
    grown = result["grown"]
    times = grown["bytes"][1] // grown["bytes"][0]
    lines += [f"| {times} times the text: the most that a byte costs more, of {grown['texts']} texts and lists | "
              f"{grown['times']:.1f} times | 1, and noise |"]
    lines += [f"| a megabyte of `{run['unit']}` in a row | {run['ms']:.1f} ms | 40 ms |" for run in slow["runs"]]
    if hooked:
        lines.append(f"| start to end of a hook, least and median | {hooked[0]:.1f} ms, {hooked[1]:.1f} ms | 10 ms |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="bench-scan, built")
    parser.add_argument("--weir", help="the binary that ships")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        subprocess.run([options.program, "--rounds", str(options.rounds), "--json", out], check=True)
        result = json.loads(out.read_text())
    names = [operation["name"] for operation in result["operations"]]
    text = report(result, instructions(options.program, names), hook(options.weir))
    print(text)
    figures.write("bench-scan", text)


main()
