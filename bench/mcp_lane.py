"""The second part of `make bench`: what the gateway carries of MCP, in both eras, at the URL of one server and of all.

Everything is on as in `bench.py`: 1,000 agents, 100 policies, the scan, the record. All that is compared takes turns in one
run: the ways of a call, nginx before the same servers, the servers themselves. Beside rates it measures the curve over
connections, what is left of it at eight times the knee, the first list of twenty servers of which one is dead, the memory
of ten thousand calls that wait for their clients, and other gateways where they are installed. About eleven minutes.

    python bench/mcp_lane.py --weir target/dist/weir

The knee is the least of the numbers of connections that gives nine tenths of the highest rate. Recovery is the time from
the end of the load until ten calls in a row take less than twice what nearly all took before it (p99).
"""

import argparse
import http.client
import json
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import bench
import calls
import figures
import mcp_rivals
from call_instructions import origin_counts
from calls import ALL, LEGACY, MODERN, Way

CURVE = (1, 8, 64, 256)
WAYS = (Way(), Way(MODERN, MODERN), Way(at=ALL), Way(MODERN, MODERN, ALL), Way(LEGACY, MODERN, ALL), Way(MODERN, LEGACY, ALL))
OVERLOAD, KNEE = 8, 0.9
# Servers of the first list, and how often it is asked for from a gateway that just started.
SERVERS, STARTS = 20, 3
PARKED, PARKED_OF_AGENT, PARK_CLIENTS = 10_000, 500, 32
# Files of a gateway beside one connection for each parked call.
FILES_BESIDE = 2_000
PARKED_KB_DUE, PARKED_MB_DUE, FIRST_LIST_MS_DUE, RECOVERY_MS_DUE = 40, 400, 1_000, 1_000


class Target(NamedTuple):
    """What is measured: a process, its port, and the table of requests that it is sent."""
    process: subprocess.Popen
    port: int
    table: str
    # The nginx that it is compared with: that for the revision of its clients.
    nginx: str
    # Where the lists are counted that its calls cause.
    counted: int | None = None


def sys_files():
    """As many open files as there may be, for what is started."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def start_gateway(weir, name, configuration):
    path = bench.WORK / f"{name}.yaml"
    path.write_text(json.dumps({**configuration, "state": f"state-{name}"}, indent=1))
    return bench.start([weir, "serve", "-c", str(path)], stderr=subprocess.PIPE)


def prepare_table(name, port, way):
    """Opens every agent's session in a way, and writes the tables of its calls and of its lists."""
    sessions = [calls.open_session(port, agent, way) for agent in range(calls.AGENTS)]
    calls.write_requests(bench.WORK / f"{name}.lua", way, sessions)
    calls.write_requests(bench.WORK / f"{name}-list.lua", way, sessions, lambda _, revision: calls.list_body(revision))


def targets(weir, origins, started):
    """Starts a gateway and an nginx before the servers of each era. Gives what is measured, by its name on the page."""
    found, lists = {}, {}
    gateways = {}
    for revision, (_, port) in origins.items():
        gateways[revision] = start_gateway(weir, f"weir-{revision}", bench.configuration("os", port))
        started.append(gateways[revision][0])
    for nth, way in enumerate(WAYS):
        process, port = gateways[way.server]
        prepare_table(f"way-{nth}", port, way)
        rest = (f"nginx, {way.client}", origins[way.server][1])
        found[f"weir, {way}"] = Target(process, port, f"way-{nth}", *rest)
        if way.at == ALL and way.client == way.server:
            lists[f"weir, a list of 60 tools, {way}"] = Target(process, port, f"way-{nth}-list", *rest)
    for nth, revision in enumerate(origins):
        nginx, name = bench.start_nginx(origins[revision][1], f"nginx-{revision}"), f"nginx, {revision}"
        started.append(nginx[0])
        found[name] = Target(*nginx, f"way-{nth}", name)
        found[f"direct, {revision}"] = Target(*origins[revision], f"way-{nth}", name)
    return found, lists, gateways


# Rates

def in_turns(names, rounds, run, program="mcp_lane"):
    """Runs each name so many times, every other round the other way about. Gives the runs by name."""
    runs = {name: [] for name in names}
    for number in range(rounds):
        for name in list(names) if number % 2 == 0 else reversed(list(names)):
            runs[name].append(run(name))
            one = runs[name][-1]
            print(f"{program}: round {number + 1}: {name}: {one.cpu_us:.1f} µs, {one.rate:,.0f}/s", flush=True)
    return runs


def rates(all_targets, rounds, seconds):
    """The runs of each target, and how many lists its servers were asked for, of 1,000 requests."""
    asked = {name: [0, 0] for name in all_targets}

    def run(name):
        target = all_targets[name]
        before = target.counted and origin_counts(target.counted)["tools/list"]
        one = bench.measured(target.process, target.port, seconds, table=target.table)
        if target.counted:
            asked[name][0] += origin_counts(target.counted)["tools/list"] - before
            asked[name][1] += one.rate * seconds
        return one

    for target in all_targets.values():
        bench.load(target.port, 1, table=target.table)
    runs = in_turns(all_targets, rounds, run)
    return runs, {name: lists / requests * 1000 for name, (lists, requests) in asked.items() if requests}


def rates_table(all_targets, runs, lists):
    lines = ["| what | CPU µs a request | requests/s | p50, ms | p99, ms | CPU, of nginx's by round | lists asked for, of 1,000 |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    for name, those in runs.items():
        nginx = runs[all_targets[name].nginx]
        ratios = [one.cpu_us / other.cpu_us for one, other in zip(those, nginx)]
        asked = f"{lists[name]:.2f}" if name in lists else "–"
        lines.append(f"| {name} | {bench.spread([one.cpu_us for one in those])} | {whole([one.rate for one in those])} | "
                     f"{ms([one.p50_us for one in those])} | {ms([one.p99_us for one in those])} | "
                     f"{bench.spread(ratios)} | {asked} |")
    return "\n".join(lines)


def whole(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def ms(values_us):
    return f"{statistics.median(values_us) / 1e3:.2f} ({min(values_us) / 1e3:.2f} to {max(values_us) / 1e3:.2f})"


# The curve, and beyond it

def curve(all_targets, rounds, seconds):
    """The runs at each number of connections, of the calls at one server's URL in both eras, nginx and the servers."""
    names = [name for name in all_targets if not name.startswith("weir") or f"`{calls.ONE}`" in name]

    def run(name):
        target = all_targets[name[1]]
        return bench.measured(target.process, target.port, seconds, table=target.table, connections=name[0])

    return in_turns([(count, name) for count in CURVE for name in names], rounds, run)


def curve_table(runs):
    lines = ["| connections | what | requests/s | p50, ms | p99, ms |", "|--:|---|--:|--:|--:|"]
    for (count, name), those in runs.items():
        lines.append(f"| {count} | {name} | {whole([one.rate for one in those])} | {ms([one.p50_us for one in those])} | "
                     f"{ms([one.p99_us for one in those])} |")
    return "\n".join(lines)


def knee(runs, name):
    """The least of the numbers of connections that gives nine tenths of the highest rate."""
    by_count = {count: statistics.median(one.rate for one in those) for (count, of), those in runs.items() if of == name}
    return min(count for count, rate in by_count.items() if rate >= KNEE * max(by_count.values()))


class Caller:
    """One connection that calls as the first agent of a way."""

    def __init__(self, port, way):
        self.port, self.way = port, way
        self.session = calls.open_session(port, 0, way)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def call_ms(self):
        body = calls.call_body(0, self.way.client)
        fields = {**calls.headers(body, self.way.client, self.session), "authorization": f"Bearer {calls.agent_key(0)}"}
        before = time.perf_counter()
        self.connection.request("POST", self.way.path(0), body, fields)
        answer = self.connection.getresponse()
        calls.result("a call", (answer.status, None, answer.read()))
        return (time.perf_counter() - before) * 1e3


def overload(target, way, count, seconds):
    """A load of so many connections, each answer of which is looked at; gives its run, and the milliseconds to recover."""
    caller = Caller(target.port, way)
    quiet = sorted(caller.call_ms() for _ in range(300))
    good_ms = 2 * quiet[int(len(quiet) * 0.99)]
    run = bench.measured(target.process, target.port, seconds, table=target.table, connections=count, is_strict=False)
    ended, first, good = time.perf_counter(), None, 0
    while good < 10:
        begun = time.perf_counter()
        good = good + 1 if caller.call_ms() < good_ms else 0
        if good == 1:
            first = begun
        if time.perf_counter() - ended > 60:
            sys.exit("mcp_lane: the gateway did not recover within a minute")
    return run, (first - ended) * 1e3


def overload_table(all_targets, runs, seconds):
    lines = ["| at 8 times the knee | connections | requests/s | p99, ms | errors (due: 0) | recovered after, ms (due: 1,000) |",
             "|---|--:|--:|--:|--:|--:|"]
    for way in WAYS[:2]:
        name = f"weir, {way}"
        count = OVERLOAD * knee(runs, name)
        run, recovered = overload(all_targets[name], way, count, seconds)
        lines.append(f"| {name} | {count} | {run.rate:,.0f} | {run.p99_us / 1e3:.2f} | {run.errors} | {recovered:.1f} |")
    return "\n".join(lines)


# The first list

def many_servers(origin_port, dead_port):
    """The configuration with twenty servers, the last of which is dead; every agent may call all."""
    configuration = bench.configuration("os", origin_port)
    urls = [f"http://127.0.0.1:{origin_port}/mcp/{calls.first_tool(i)}" for i in range(SERVERS - 1)]
    urls.append(f"http://127.0.0.1:{dead_port}/mcp/0")
    (bench.WORK / "all.cedar").write_text('@id("all")\npermit (principal, action == Action::"mcp:call", resource);\n')
    return {**configuration, "mcp": {f"s{i}": {"url": url} for i, url in enumerate(urls)},
            "policy": {**configuration["policy"], "files": ["policy.cedar", "all.cedar"]}}


def first_list(weir, origin_port, is_silent):
    """Milliseconds of the first list after a start, and how many tools it has. The dead server takes no connection, or
    takes one and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dead = silent.getsockname()[1] if is_silent else bench.free_port()
        shown = "silent" if is_silent else "refusing"
        process, port = start_gateway(weir, f"weir-{shown}", many_servers(origin_port, dead))
        try:
            before = time.perf_counter()
            answered = calls.post(port, ALL, calls.agent_key(0), calls.list_body(MODERN), MODERN)
            took = (time.perf_counter() - before) * 1e3
            return took, len(json.loads(calls.result("the first list", answered))["result"]["tools"])
        finally:
            bench.end([process])


def first_list_table(weir, origin_port, starts):
    lines = [f"| the first list of {SERVERS} servers, one of which | ms (due: {FIRST_LIST_MS_DUE:,}) | tools in it |", "|---|--:|--:|"]
    for is_silent, what in ((False, "takes no connection"), (True, "takes a connection and is silent")):
        times, tools = zip(*(first_list(weir, origin_port, is_silent) for _ in range(starts)))
        lines.append(f"| {what} | {bench.spread(times)} | {min(tools)} of {(SERVERS - 1) * calls.TOOLS} |")
    return "\n".join(lines)


# Calls that wait for their clients

def park_call(connection, agent):
    """Calls the tool that asks its client something, as a client of 2026-07-28. Gives the answer."""
    params = {"name": "ask", "arguments": json.loads(calls.call_body(agent))["params"]["arguments"]}
    body = calls.message("tools/call", params, MODERN, can={"elicitation": {}})
    fields = {**calls.headers(body, MODERN), "authorization": f"Bearer {calls.agent_key(agent)}"}
    connection.request("POST", ALL, body, fields)
    return json.loads(connection.getresponse().read())


def park_some(port, numbers, wrong):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for number in numbers:
        answer = park_call(connection, number // PARKED_OF_AGENT)
        if answer.get("result", {}).get("resultType") != "input_required":
            wrong.append(answer)
            return
    connection.close()


def park(weir, origin_port, count):
    """Parks so many calls of one process. Gives its memory before and with them, in MB, and the code of one more."""
    configuration = bench.configuration("os", origin_port)
    (bench.WORK / "ask.cedar").write_text('@id("ask")\npermit (principal, action == Action::"mcp:call", '
                                          'resource in Server::"ask");\n')
    process, port = start_gateway(weir, "weir-park", {
        **configuration, "mcp": {"ask": {"url": f"http://127.0.0.1:{origin_port}/mcp/ask", "sessions_max": 4096}},
        "policy": {**configuration["policy"], "files": ["policy.cedar", "ask.cedar"]}})
    try:
        agents = -(-count // PARKED_OF_AGENT)
        # What an agent has before it calls is no part of a parked call.
        for agent in range(agents):
            calls.result("tools/list", calls.post(port, ALL, calls.agent_key(agent), calls.list_body(MODERN), MODERN))
        time.sleep(1)
        before = bench.rss_mb(process)
        wrong, begun = [], time.perf_counter()
        threads = [threading.Thread(target=park_some, args=(port, range(nth, count, PARK_CLIENTS), wrong))
                   for nth in range(PARK_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong:
            sys.exit(f"mcp_lane: a call was not parked: {json.dumps(wrong[0])[:500]}")
        took = time.perf_counter() - begun
        time.sleep(1)
        after = bench.rss_mb(process)
        more = park_call(http.client.HTTPConnection("127.0.0.1", port, timeout=60), agents)
        code = more.get("error", {}).get("data", {}).get("code", "it was parked")
        return before, after, code, took
    finally:
        bench.end([process])


def park_table(weir, origin_port, count):
    before, after, code, took = park(weir, origin_port, count)
    each = (after - before) * 1024 / count
    return "\n".join([
        f"| {count:,} calls that wait for their clients | value | due |", "|---|--:|--:|",
        f"| memory of each (VmRSS), KB | {each:.1f} | {PARKED_KB_DUE} |",
        f"| memory of all of the process (VmRSS), MB; before them {before:.1f} | {after:.1f} | {PARKED_MB_DUE} |",
        f"| parked in, s | {took:.1f} | – |",
        f"| one more is answered | `{code}` | `mcp.park_full` at 10,000 |"])


# Others

def rivals_table(origin_port, weir_target, rounds, seconds, started):
    """Other gateways in turns with weir, and what is switched off in them; those that do not start are named."""
    all_targets, said = {"weir, one server's URL": weir_target}, []
    for name in mcp_rivals.ALL:
        try:
            rival = mcp_rivals.start(name, origin_port)
        except OSError as why:
            said.append(f"{name} is left out: {why}.")
            continue
        started.append(rival.process)
        (bench.WORK / f"rival-{name}.lua").write_text(rival.rows())
        all_targets[name] = Target(rival.process, rival.port, f"rival-{name}", name)
        said.append(f"Switched off in {name}: {mcp_rivals.OFF[name]}.")
    for target in all_targets.values():
        bench.load(target.port, 1, table=target.table, connections=mcp_rivals.CONNECTIONS, is_strict=False)

    def run(name):
        target = all_targets[name]
        return bench.measured(target.process, target.port, seconds, table=target.table,
                              connections=mcp_rivals.CONNECTIONS, is_strict=False)

    runs = in_turns(all_targets, rounds, run)
    lines = [f"Other gateways, {LEGACY}, {mcp_rivals.CONNECTIONS} connections, one worker each. {' '.join(said)}", "",
             "| what | CPU µs a call | calls/s | p50, ms | p99, ms | errors | memory, MB |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    for name, those in runs.items():
        memory = bench.rss_mb(all_targets[name].process)
        lines.append(f"| {name} | {whole([one.cpu_us for one in those])} | {whole([one.rate for one in those])} | "
                     f"{ms([one.p50_us for one in those])} | {ms([one.p99_us for one in those])} | {sum(one.errors for one in those)} | {memory:.0f} |")
    return "\n".join(lines)


# All of it

def parse_options():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--curve-rounds", type=int, default=3)
    options.add_argument("--seconds", type=int, default=3)
    options.add_argument("--parked", type=int, default=PARKED)
    options.add_argument("--no-rivals", action="store_true", help="leave out other gateways")
    options.add_argument("--smoke", action="store_true", help="one short round of each; leaves the page alone")
    options.add_argument("--dry", action="store_true", help="print the result and leave the page alone")
    options = options.parse_args()
    if options.smoke:
        options.rounds, options.curve_rounds, options.seconds, options.dry = 1, 1, 1, True
        options.parked = min(options.parked, 200)
    return options


def main():
    options = parse_options()
    # What was started ends with it, however it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mcp_lane: ended by a signal"))
    begun = time.monotonic()
    weir = str(Path(options.weir).resolve())
    bench.WORK = bench.ROOT / "target/bench/mcp-lane"
    files = sys_files()
    if files < options.parked + FILES_BESIDE:
        sys.exit(f"mcp_lane: {options.parked + FILES_BESIDE} open files are needed: ulimit -n")
    started = []
    try:
        origins = {LEGACY: bench.prepare()}
        started.append(origins[LEGACY][0])
        origins[MODERN] = bench.start_origin(MODERN)
        started.append(origins[MODERN][0])
        found, lists, gateways = targets(weir, origins, started)
        runs, asked = rates({**found, **lists}, options.rounds, options.seconds)
        over = curve(found, options.curve_rounds, options.seconds)
        parts = [rates_table({**found, **lists}, runs, asked), curve_table(over), overload_table(found, over, options.seconds)]
        memory = ", ".join(f"{bench.rss_mb(process):.0f} MB before servers of {revision}"
                           for revision, (process, _) in gateways.items())
        parts.append(f"Memory of the gateway (VmRSS) after it, with the lists of {calls.AGENTS:,} agents: {memory}.")
        if not options.no_rivals:
            weir_target = found[f"weir, {WAYS[0]}"]
            parts.append(rivals_table(origins[LEGACY][1], weir_target, options.rounds, options.seconds, started))
        parts.append(first_list_table(weir, origins[LEGACY][1], STARTS if not options.smoke else 1))
        parts.append(park_table(weir, origins[LEGACY][1], options.parked))
    finally:
        bench.end(started)
    text = (f"{figures.measured()}, on {bench.machine()}; {options.rounds} rounds of {options.seconds} s, "
            f"{bench.CONNECTIONS} connections where nothing else is said; median (least to most).\n\n" + "\n\n".join(parts))
    print(text)
    print(f"mcp_lane: {time.monotonic() - begun:.0f} s")
    if not options.dry:
        figures.write("bench-mcp", text)


if __name__ == "__main__":
    main()
