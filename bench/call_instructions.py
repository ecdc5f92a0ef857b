"""Instructions that the whole gateway executes for one governed tools/call: the number that repeats on a shared machine.

The gateway of `bench.py` runs under callgrind, which counts each instruction of the process outside the kernel. It is
started twice, asked for few calls and for many, and what the second executed more is divided by the calls that it had
more: so the start, the sessions, and what is learned from the first calls are in neither. Both runs have one thread, so
that no timing decides what is counted, and one connection a run. Everything is on 127.0.0.1.

    python bench/call_instructions.py --weir target/dist/weir
    python bench/call_instructions.py --weir target/dist/weir --base OLDER --ways

With `--base` the governed call of another binary is counted in turns with it; with `--ways` the calls of the other
revision of MCP, at the URL of all servers, and from one revision to the other, and a list of all servers' tools. How
many of the servers' lists the calls of a way asked for is counted where they arrive. `--profile FOLDER` keeps callgrind's
output of the longer runs, for callgrind_annotate.
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
from typing import NamedTuple

import bench
import calls
import figures
from calls import ALL, LEGACY, MODERN, Way

# Sessions that call in turn; each has its own key, server and tool.
AGENTS = 20
FEW, MANY, ROUNDS = 200, 1200, 3
STOP_S = 120


class Case(NamedTuple):
    """What is counted: a binary, a way, and what is asked."""
    name: str
    weir: str
    way: Way = Way()
    is_list: bool = False
    # At most so many times the governed call of the other binary.
    due: float | None = None

    def body(self, number):
        if self.is_list:
            return calls.list_body(self.way.client)
        return calls.call_body(number, self.way.client)


class Counted(NamedTuple):
    """One round of a case: instructions for one call, those of the shorter run, and lists asked for in the longer one."""
    each: float
    less: int
    lists: int


def start(weir, origin_port, profile=None):
    """The gateway under callgrind, on one core, with an empty log. Gives the process, its port and callgrind's output."""
    state = bench.WORK / "state-os"
    shutil.rmtree(state, ignore_errors=True)
    path, out = bench.WORK / "weir-counted.yaml", bench.WORK / "callgrind.log"
    path.write_text(json.dumps(bench.configuration("os", origin_port), indent=1))
    out.unlink(missing_ok=True)
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile or '/dev/null'}", f"--log-file={out}",
               weir, "serve", "-c", str(path)]
    core = min(os.sched_getaffinity(0))
    process, port = bench.start(command, stderr=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    return process, port, out


def ask(port, case, sessions, count):
    """So many calls on one connection, each answered as it should be."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for number in range(count):
        agent = number % AGENTS
        body = case.body(agent)
        headers = {**calls.headers(body, case.way.client, sessions[agent]),
                   "authorization": f"Bearer {calls.agent_key(agent)}"}
        connection.request("POST", case.way.path(agent), body, headers)
        answer = connection.getresponse()
        calls.result("a call", (answer.status, None, answer.read()))
    connection.close()


def origin_counts(port):
    """How often a server was asked for each method."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/counts")
    counts = json.loads(connection.getresponse().read())
    connection.close()
    return counts


def run(case, origin_port, count, profile=None):
    """Instructions of a gateway from its start to its end, with so many calls between; and the lists of them."""
    process, port, out = start(case.weir, origin_port, profile)
    try:
        sessions = [calls.open_session(port, agent, case.way) for agent in range(AGENTS)]
        before = origin_counts(origin_port)["tools/list"]
        ask(port, case, sessions, count)
        lists = origin_counts(origin_port)["tools/list"] - before
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
    return int(found[1]), lists


def counted(case, origin_port, few, many, profile=None):
    """One round of a case."""
    less, _ = run(case, origin_port, few, profile and f"{profile}.{few}")
    more, lists = run(case, origin_port, many, profile and f"{profile}.{many}")
    return Counted((more - less) / (many - few), less, lists)


def measure(weir, origin_port, way=Way(), few=FEW, many=MANY, rounds=ROUNDS):
    """Instructions of a call, once a round; nothing where there is no valgrind."""
    if shutil.which("valgrind") is None:
        return []
    costs = []
    for number in range(rounds):
        round_ = counted(Case("weir", weir, way), origin_port, few, many)
        costs.append(round_.each)
        print(f"call_instructions: round {number + 1}: {round_.each:,.0f} a call; {round_.less:,} with {few} calls",
              flush=True)
    return costs


def cases(options):
    """What is counted in turns. The first is what the others are compared with."""
    base = str(Path(options.base or options.weir).resolve())
    weir = str(Path(options.weir).resolve())
    all_cases = [Case(f"the governed call of {options.base_name}", base)]
    if options.base:
        all_cases.append(Case(str(Way()), weir, due=1.0))
    if options.ways:
        all_cases += [
            Case(str(Way(MODERN, MODERN)), weir, Way(MODERN, MODERN), due=1.1),
            Case(str(Way(at=ALL)), weir, Way(at=ALL), due=1.2),
            Case(str(Way(MODERN, MODERN, ALL)), weir, Way(MODERN, MODERN, ALL), due=1.2),
            Case(str(Way(LEGACY, MODERN, ALL)), weir, Way(LEGACY, MODERN, ALL), due=1.5),
            Case(str(Way(MODERN, LEGACY, ALL)), weir, Way(MODERN, LEGACY, ALL), due=1.5),
            Case(f"a list of 60 tools, {Way(at=ALL)}", weir, Way(at=ALL), is_list=True, due=1.0),
            Case(f"a list of 60 tools, {Way(MODERN, MODERN, ALL)}", weir, Way(MODERN, MODERN, ALL), is_list=True, due=1.0),
        ]
    return all_cases


def compare(options, origins):
    """Counts all cases in turns and gives their rounds by name."""
    rounds = {case: [] for case in cases(options)}
    for number in range(options.rounds):
        for nth, case in enumerate(rounds):
            profile = options.profile and number == 0 and options.profile.resolve() / f"callgrind.{nth}"
            rounds[case].append(counted(case, origins[case.way.server], options.few, options.many, profile))
            print(f"call_instructions: round {number + 1}: {case.name}: {rounds[case][-1].each:,.0f}, "
                  f"{rounds[case][-1].lists} lists", flush=True)
    return rounds


def table(rounds, many):
    """The rounds as a table: each case beside the first of them, in the same round."""
    first = next(iter(rounds.values()))
    lines = ["| what | instructions | of the first, by round | due | lists that servers were asked for, of 1,000 calls |",
             "|---|--:|--:|--:|--:|"]
    for case, those in rounds.items():
        ratios = [one.each / base.each for one, base in zip(those, first)]
        due = f"{case.due:.1f}" if case.due else "–"
        lists = sum(one.lists for one in those) / len(those) / many * 1000
        lines.append(f"| {case.name} | {spread([one.each for one in those])} | "
                     f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | {due} | {lists:.1f} |")
    return "\n".join(lines)


def spread(costs):
    """Median (least to most)."""
    return f"{statistics.median(costs):,.0f} ({min(costs):,.0f} to {max(costs):,.0f})"


def parse_options():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--base", help="a binary whose governed call is counted in turns with it")
    options.add_argument("--base-name", help="what the page calls that binary, such as its commit")
    options.add_argument("--ways", action="store_true", help="count the other ways of MCP too")
    options.add_argument("--few", type=int, default=FEW, help="calls of the shorter run")
    options.add_argument("--many", type=int, default=MANY, help="calls of the longer run")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--profile", type=Path, help="a folder for callgrind's output of the first round")
    options.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = options.parse_args()
    if options.few < AGENTS or options.many <= options.few:
        sys.exit(f"call_instructions: --few is {AGENTS} or more, and --many is more than that")
    options.base_name = options.base_name or ("the other binary" if options.base else "the same binary")
    return options


def main():
    options = parse_options()
    bench.WORK = bench.ROOT / "target/bench/call-instructions"
    origin, origin_port = bench.prepare(needs=("valgrind",))
    started, origins = [origin], {LEGACY: origin_port}
    try:
        if not (options.base or options.ways):
            costs = measure(str(Path(options.weir).resolve()), origin_port, Way(), options.few, options.many, options.rounds)
            print(f"{figures.measured()}: {spread(costs)} instructions a governed call")
            return
        modern, origins[MODERN] = bench.start_origin(MODERN)
        started.append(modern)
        rounds = compare(options, origins)
    finally:
        bench.end(started)
    text = f"{figures.measured()}; {options.rounds} rounds in turns; median (least to most).\n\n{table(rounds, options.many)}"
    print(text)
    if options.write:
        figures.write("bench-mcp-instructions", text)


if __name__ == "__main__":
    main()
