"""Instructions that the whole gateway executes for one governed tools/call: the number that repeats on a shared machine.

The gateway of `bench.py` runs under callgrind, which counts each instruction of the process outside the kernel. It is
started twice, asked for few calls and for many, and what the second executed more is divided by the calls that it had
more: so the start, the sessions, and what is learned from the first calls are in neither. Both runs have one thread, so
that no timing decides what is counted, and one connection a run. Everything is on 127.0.0.1.

    python bench/call_instructions.py --weir target/dist/weir
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import bench
import figures

# Sessions that call in turn; each has its own key, server and tool.
AGENTS = 20
FEW, MANY, ROUNDS = 200, 1200, 3
STOP_S = 120


def start(weir, origin_port):
    """The gateway under callgrind, on one core, with an empty log. Gives the process, its port and callgrind's output."""
    state = bench.WORK / "state-os"
    shutil.rmtree(state, ignore_errors=True)
    path, out = bench.WORK / "weir-counted.yaml", bench.WORK / "callgrind.log"
    path.write_text(json.dumps(bench.configuration("os", origin_port), indent=1))
    out.unlink(missing_ok=True)
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={out}",
               weir, "serve", "-c", str(path)]
    core = min(os.sched_getaffinity(0))
    process, port = bench.start(command, stderr=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    return process, port, out


def call(port, sessions, calls):
    """So many calls on one connection, each answered as it should be."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for number in range(calls):
        agent = number % AGENTS
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream",
                   "authorization": f"Bearer {bench.agent_key(agent)}", "mcp-protocol-version": "2025-11-25"}
        if sessions[agent]:
            headers["mcp-session-id"] = sessions[agent]
        connection.request("POST", f"/mcp/s{agent % bench.SERVERS}", bench.call_body(agent), headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200 or b'"result"' not in data:
            sys.exit(f"call_instructions: a call was answered {answer.status}: {data[:500]}")
    connection.close()


def counted(weir, origin_port, calls):
    """Instructions of a gateway from its start to its end, with so many calls between."""
    process, port, out = start(weir, origin_port)
    try:
        sessions = [bench.open_session(port, agent) for agent in range(AGENTS)]
        call(port, sessions, calls)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            sys.exit("call_instructions: the gateway did not end")
    found = re.search(r"Collected : (\d+)", out.read_text())
    if process.returncode or not found:
        sys.exit(f"call_instructions: the gateway ended with {process.returncode}:\n{out.read_text()}")
    return int(found[1])


def measure(weir, origin_port, few=FEW, many=MANY, rounds=ROUNDS):
    """Instructions of a call, once a round; nothing where there is no valgrind."""
    if shutil.which("valgrind") is None:
        return []
    costs = []
    for number in range(rounds):
        less, more = counted(weir, origin_port, few), counted(weir, origin_port, many)
        costs.append((more - less) / (many - few))
        print(f"call_instructions: round {number + 1}: {costs[-1]:,.0f} a call; {less:,} with {few} calls", flush=True)
    return costs


def spread(costs):
    """Median (least to most)."""
    return f"{statistics.median(costs):,.0f} ({min(costs):,.0f} to {max(costs):,.0f})"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--few", type=int, default=FEW, help="calls of the shorter run")
    options.add_argument("--many", type=int, default=MANY, help="calls of the longer run")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options = options.parse_args()
    if options.few < AGENTS or options.many <= options.few:
        sys.exit(f"call_instructions: --few is {AGENTS} or more, and --many is more than that")
    bench.WORK = bench.ROOT / "target/bench/call-instructions"
    origin, origin_port = bench.prepare(needs=("valgrind",))
    try:
        costs = measure(str(Path(options.weir).resolve()), origin_port, options.few, options.many, options.rounds)
    finally:
        origin.send_signal(signal.SIGTERM)
        origin.wait(20)
    print(f"{figures.measured()}: {spread(costs)} instructions a governed call")


if __name__ == "__main__":
    main()
