"""A part of `make bench`: what the gateway carries of models, beside nginx and a bare proxy with hyper on the same bytes.

Everything is on as in `bench.py`: 1,000 agents, 100 policies and one for the provider, the scan, the record; budgets of money
and of tokens for each agent besides. The provider is `weir lab target`, whose answers to chat have 1 KB. All that is compared
takes turns in one run: chat of 1 KB, the governed `tools/call` of `bench.py` by the same gateway, chat of 100 KB that is new
in every byte that counts and chat of 100 KB whose history is known, by a gateway with the scan and by one without. Then, at
one connection, the latency that is added and the time to the first token; what one delta of a stream costs; the memory of
1,000 slow streams; what a conversion costs beside the same-dialect call (`--conversion` measures that alone); and LiteLLM's proxy
where it is installed. About twenty minutes, ten of which are the slow streams.

    python bench/llm_lane.py --weir target/dist/weir

What the scan takes by itself is the CPU time of the gateway with it less that of the one without, in the same round. What a
delta costs is the CPU time of a long stream less that of a short one, by the deltas that it has more.
"""

import argparse
import json
import operator
import os
import resource
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import bench
import calls
import figures
import mcp_rivals
from call_scan import OFF
from mcp_lane import in_turns, ms, whole

CHAT = "/v1/chat/completions"
MODEL, LONG, SLOW = "lab-chat", "lab-long", "lab-slow"
GOOD = '"choices"'
# The load tool puts a number that no other request has in the place of this.
FRESH = "@@@@@@@@@@@@"
SMALL_BYTES, LARGE_BYTES, TURNS = 1024, 100 * 1024, 50
# Bodies of 100 KB stand in the load tool's memory.
LARGE_AGENTS = 100
ANSWER_WORDS_BYTES = 470
DELTAS, FEW_DELTAS, DELTAS_PER_S = 500, 5, 500
SLOW_STREAMS, SLOW_S = 1_000, 600
RIVAL_CONNECTIONS = 8
TIMES_CALL_DUE, TIMES_SCAN_DUE, KNOWN_DUE = 1.3, 1.15, 0.2
TIMES_CONVERTED_DUE = 1.3
ADDED_MS_DUE, FIRST_TOKEN_MS_DUE, DELTA_US_DUE, SLOW_MB_DUE = 0.25, 0.5, 6, 100
PRICE = {"input": 3, "output": 15}
MORE = "proxy_buffering off; client_body_buffer_size 256k;"


class Target(NamedTuple):
    """What is measured: a process and its port."""
    process: subprocess.Popen
    port: int


# Bodies

def body(model, messages, **more):
    return json.dumps({"model": model, "max_tokens": 2000, **more, "messages": messages}, separators=(",", ":"))


def small(number, **more):
    """A request of 1 KB that no other agent sends."""
    def of(text):
        return body(MODEL, [{"role": "user", "content": text}], **more)
    start = f"Agent {number:04}. "
    return of((start + calls.PROSE * 20)[:SMALL_BYTES - len(of(""))])


def large(number, is_new):
    """A conversation of 100 KB: each of its turns has a number of its own where it is new, else only the last."""
    each = LARGE_BYTES // TURNS

    def turn(at):
        fresh = FRESH if is_new or at + 1 == TURNS else "settled     "
        text = f"{fresh} Agent {number:04}, turn {at:02}. " + calls.PROSE * 20
        return {"role": "user" if at % 2 == 1 else "assistant", "content": text[:each - 40]}
    return body(MODEL, [turn(at) for at in range(TURNS)])


def table(name, rows):
    """Writes a table for the load tool: one row an agent."""
    lines = []
    for number, text in rows:
        fields = {"content-type": "application/json", "authorization": f"Bearer {calls.agent_key(number)}"}
        lua = ",".join(f"[{json.dumps(field)}]={json.dumps(value)}" for field, value in fields.items())
        lines.append(f"{{{json.dumps(CHAT)},{{{lua}}},{json.dumps(text)}}}")
    text = ",\n".join(lines)
    (bench.WORK / f"{name}.lua").write_text(f"return {{\ngood={json.dumps(GOOD)},fresh={json.dumps(FRESH)},\n{text}\n}}\n")


def tables():
    agents, few = range(calls.AGENTS), range(LARGE_AGENTS)
    table("chat", ((n, small(n)) for n in agents))
    table("new", ((n, large(n, True)) for n in few))
    table("known", ((n, large(n, False)) for n in few))
    for name, bodies in {"1": [small(n) for n in few], "100": [large(n, True) for n in few]}.items():
        for stream in ("", "-stream"):
            asked = [text.replace('{"model"', '{"stream":true,"model"', 1) if stream else text for text in bodies]
            table(f"same-{name}{stream}", enumerate(asked))
            table(f"converted-{name}{stream}", enumerate(text.replace(f'"{MODEL}"', f'"claude/{MODEL}"', 1) for text in asked))
    table("deltas", ((n, small(n, stream=True).replace(MODEL, LONG, 1)) for n in agents))
    table("few-deltas", ((n, small(n, stream=True, max_tokens=FEW_DELTAS).replace(MODEL, LONG, 1)) for n in agents))


# What is measured

def start_provider(weir, script, *flags):
    path = bench.WORK / f"{script[0]}.yaml"
    path.write_text(json.dumps({"models": script[1]}))
    command = [weir, "lab", "target", "--listen", "127.0.0.1:0", "--script", str(path), *flags]
    return Target(*bench.start(command, stdout=subprocess.PIPE))


def start_gateway(weir, name, origin_port, provider_port, **more):
    """The gateway of `bench.py` with a provider, its policy and budgets besides."""
    (bench.WORK / "llm.cedar").write_text('@id("llm")\npermit (principal, action == Action::"llm:chat", resource);\n')
    configuration = bench.configuration("os", origin_port)
    prices = {model: PRICE for model in (MODEL, LONG, SLOW)}
    provider = {"kind": "vllm", "url": f"http://127.0.0.1:{provider_port}/v1", "prices": prices}
    path = bench.WORK / f"{name}.yaml"
    path.write_text(json.dumps({
        **configuration, "state": f"state-{name}",
        # The second is asked in Anthropic's dialect: what clients of OpenAI ask it is converted.
        "llm": {"providers": {"lab": provider, "claude": {**provider, "kind": "anthropic"}}},
        "budgets": {"money": {"each": "agent", "money": 1_000_000, "per": "month"},
                    "tokens": {"each": "agent", "tokens": 1_000_000_000, "per": "day"}},
        "policy": {**configuration["policy"], "files": ["policy.cedar", "llm.cedar"]}, **more}, indent=1))
    return Target(*bench.start([weir, "serve", "-c", str(path)], stderr=subprocess.PIPE))


def start_bare(provider_port):
    manifest = bench.ROOT / "bench/bare/Cargo.toml"
    subprocess.run(["cargo", "build", "--locked", "--release", "--quiet", "--manifest-path", str(manifest),
                    "--target-dir", str(bench.BUILT)], check=True)
    return Target(*bench.start([str(bench.BUILT / "release/bare"), f"127.0.0.1:{provider_port}"], stdout=subprocess.PIPE))


def start_all(weir, started):
    """The server of MCP, the provider, and what stands before them. Gives them by name."""
    origin, origin_port = bench.prepare()
    started.append(origin)
    found = {}
    words = (calls.PROSE * 20)[:ANSWER_WORDS_BYTES]
    script = ("answers", {MODEL: [{"words": words}], LONG: [{"tokens": DELTAS, "tokens_per_second": DELTAS_PER_S}],
                          SLOW: [{"tokens": 10_000, "tokens_per_second": 1}]})

    def start(name, target):
        found[name] = target
        started.append(target.process)

    start("provider", start_provider(weir, script, "--threads", "2"))
    port = found["provider"].port
    start("weir", start_gateway(weir, "weir", origin_port, port))
    start("weir, no scan", start_gateway(weir, "no-scan", origin_port, port, scan=OFF))
    start("nginx", Target(*bench.start_nginx(port, "nginx-llm", MORE)))
    start("bare", start_bare(port))
    sessions = [calls.open_session(found["weir"].port, agent) for agent in range(calls.AGENTS)]
    calls.write_requests(bench.WORK / "call.lua", calls.Way(), sessions)
    tables()
    return found


# CPU time of requests

ROWS = {
    "chat of 1 KB, weir": ("weir", "chat"), "`tools/call` of 1 KB, weir": ("weir", "call"), "chat of 1 KB, weir without the scan":
    ("weir, no scan", "chat"), "chat of 1 KB, nginx": ("nginx", "chat"), "chat of 1 KB, bare": ("bare", "chat"),
    "100 KB, new, weir": ("weir", "new"), "100 KB, new, weir without the scan": ("weir, no scan", "new"),
    "100 KB, known, weir": ("weir", "known"), "100 KB, nginx": ("nginx", "new"), "100 KB, bare": ("bare", "new"),
}


def rates(found, options):
    def run(name):
        target, of = ROWS[name]
        return bench.measured(*found[target], options.seconds, table=of)

    for target, of in ROWS.values():
        # The second time, what is known is known.
        bench.load(found[target].port, 2, table=of)
    return in_turns(ROWS, options.pairs, run, "llm_lane")


def rates_table(runs):
    lines = ["| what | CPU µs a request | requests/s | p50, ms | p99, ms |", "|---|--:|--:|--:|--:|"]
    for name, those in runs.items():
        lines.append(f"| {name} | {bench.spread([one.cpu_us for one in those])} | {whole([one.rate for one in those])} | "
                     f"{ms([one.p50_us for one in those])} | {ms([one.p99_us for one in those])} |")

    def by_pair(one, other):
        # A process that was never seen at work, in a short round, is no measure.
        return [a.cpu_us / b.cpu_us if b.cpu_us else float("inf") for a, b in zip(runs[one], runs[other])]

    scan = [a.cpu_us - b.cpu_us for a, b in zip(runs["100 KB, new, weir"], runs["100 KB, new, weir without the scan"])]
    of_scan = [one.cpu_us / max(1, by_itself) for one, by_itself in zip(runs["100 KB, new, weir"], scan)]
    ratios = [
        ("chat of 1 KB / `tools/call` of 1 KB", by_pair("chat of 1 KB, weir", "`tools/call` of 1 KB, weir"), TIMES_CALL_DUE),
        ("chat of 1 KB / nginx", by_pair("chat of 1 KB, weir", "chat of 1 KB, nginx"), "–"),
        ("chat of 1 KB / bare", by_pair("chat of 1 KB, weir", "chat of 1 KB, bare"), "–"),
        ("100 KB, new / what the scan of it takes by itself", of_scan, TIMES_SCAN_DUE),
        ("100 KB, known / new", by_pair("100 KB, known, weir", "100 KB, new, weir"), KNOWN_DUE)]
    lines += ["", "| CPU time, by pair | times | due, at most |", "|---|--:|--:|"]
    lines += [f"| {what} | {bench.spread(values)} | {due} |" for what, values, due in ratios]
    return "\n".join(lines)


# One connection

class Caller:
    """One connection that is kept: how long an answer takes, and its first token."""

    def __init__(self, port, text):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = text.encode()
        self.request = (f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nauthorization: Bearer "
                        f"{calls.agent_key(0)}\r\ncontent-length: {len(data)}\r\n\r\n").encode() + data

    def times_ms(self):
        """Milliseconds to the first token, or to the head where it is no stream, and to the last byte."""
        before, first, seen = time.perf_counter(), None, b""
        self.socket.sendall(self.request)
        while not self.is_whole(seen):
            more = self.socket.recv(65_536)
            if not more:
                sys.exit(f"llm_lane: a connection was closed: {seen[:300]}")
            seen += more
            # The role comes before it, with a content that is empty.
            if first is None and (b'"delta":{"content":"' in seen or b"content-length" in seen.lower()):
                first = time.perf_counter()
        if b" 200 " not in seen[:16]:
            sys.exit(f"llm_lane: a request was answered {seen[:500]}")
        return (first - before) * 1e3, (time.perf_counter() - before) * 1e3

    @staticmethod
    def is_whole(seen):
        head, parted, rest = seen.partition(b"\r\n\r\n")
        if not parted:
            return False
        length = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return len(rest) >= int(length[0]) if length else rest.endswith(b"\r\n0\r\n\r\n") or rest == b"0\r\n\r\n"


def at_one(found, texts, rounds):
    """The times of answers at one connection, of all in turns: by what is asked and by target."""
    names = ["weir", "nginx", "bare", "provider"]
    callers = {(what, name): Caller(found[name].port, text) for what, text in texts.items() for name in names}
    times = {key: [] for key in callers}
    for number in range(rounds + 20):
        for key in list(callers) if number % 2 == 0 else reversed(list(callers)):
            taken = callers[key].times_ms()
            # The first are for connections, caches and the provider's own.
            if number >= 20:
                times[key].append(taken)
    return times


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def latency_table(found, rounds):
    stream = small(0, stream=True, max_tokens=FEW_DELTAS).replace(MODEL, LONG, 1)
    times = at_one(found, {"answer": small(0), "first token": stream}, rounds)
    lines = ["| at one connection | p50, ms | p99, ms | p50 more than the provider's, ms | p99 more, ms | due |", "|---|--:|--:|--:|--:|--:|"]
    dues = {"answer": f"{ADDED_MS_DUE} at p50", "first token": f"{FIRST_TOKEN_MS_DUE} at p99"}
    for what, which in (("answer", 1), ("first token", 0)):
        own = [taken[which] for taken in times[what, "provider"]]
        for name in ("weir", "nginx", "bare", "provider"):
            those = [taken[which] for taken in times[what, name]]
            p50, p99 = quantile(those, 0.5), quantile(those, 0.99)
            more = "– | –" if name == "provider" else f"{p50 - quantile(own, 0.5):.3f} | {p99 - quantile(own, 0.99):.3f}"
            due = dues[what] if name == "weir" else "–"
            lines.append(f"| {what} of 1 KB, {name} | {p50:.3f} | {p99:.3f} | {more} | {due} |")
    return "\n".join(lines)


# Deltas

def deltas_table(found, options):
    names = ["weir", "nginx", "bare"]

    def run(key):
        name, of = key
        return bench.measured(*found[name], max(2, options.seconds), table=of)

    runs = in_turns([(name, of) for name in names for of in ("deltas", "few-deltas")], options.pairs, run, "llm_lane")
    costs = {name: [(long.cpu_us - short.cpu_us) / (DELTAS - FEW_DELTAS) for long, short in
                    zip(runs[name, "deltas"], runs[name, "few-deltas"])] for name in names}
    more = list(map(operator.sub, costs["weir"], costs["bare"]))
    lines = [f"| one delta, at {DELTAS_PER_S} a second and stream, {bench.CONNECTIONS} streams | CPU µs | due, at most |", "|---|--:|--:|"]
    lines += [f"| {name} | {bench.spread(costs[name])} | – |" for name in names]
    return "\n".join([*lines, f"| weir more than bare, by pair | {bench.spread(more)} | {DELTA_US_DUE} |"])


# Slow streams

def slow_table(found, count, seconds):
    """The memory of the gateway with so many streams of one delta a second, second by second."""
    gateway = found["weir"]
    before = bench.rss_mb(gateway.process)
    selector, heard = selectors.DefaultSelector(), {}
    for number in range(count):
        caller = Caller(gateway.port, body(SLOW, [{"role": "user", "content": calls.PROSE}], stream=True))
        key = f"Bearer {calls.agent_key(number % calls.AGENTS)}".encode()
        caller.socket.sendall(caller.request.replace(f"Bearer {calls.agent_key(0)}".encode(), key))
        caller.socket.setblocking(False)
        selector.register(caller.socket, selectors.EVENT_READ, number)
        heard[number] = 0
    memory, end, next_look = [], time.monotonic() + seconds, time.monotonic() + 1
    while time.monotonic() < end:
        for key, _ in selector.select(0.2):
            data = key.fileobj.recv(65_536)
            if not data:
                sys.exit(f"llm_lane: slow stream {key.data} was closed after {heard[key.data]} bytes")
            heard[key.data] += len(data)
        if time.monotonic() >= next_look:
            memory.append(bench.rss_mb(gateway.process))
            next_look += 1
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    if min(heard.values()) == 0:
        sys.exit("llm_lane: a slow stream said nothing")
    half = memory[len(memory) // 2:]
    return "\n".join([
        f"| {count:,} streams of a delta a second, for {seconds} s | MB (VmRSS) | due, at most |", "|---|--:|--:|",
        f"| before them | {before:.1f} | – |", f"| with them, at the end | {memory[-1]:.1f} | {SLOW_MB_DUE} |",
        f"| in the second half, least to most | {min(half):.1f} to {max(half):.1f} | flat |"])


# Conversion

def conversion_table(found, options):
    """CPU time of chat that is asked in Anthropic's dialect, beside the same chat that is passed on as it came."""
    kinds = {"JSON, 1 KB": "1", "stream, 1 KB": "1-stream", "JSON, 100 KB": "100", "stream, 100 KB": "100-stream"}

    def run(of):
        return bench.measured(*found["weir"], options.seconds, table=of)

    names = [f"{which}-{kind}" for kind in kinds.values() for which in ("same", "converted")]
    for name in names:
        bench.load(found["weir"].port, 1, table=name)
    runs = in_turns({name: name for name in names}, options.pairs, run, "llm_lane")
    lines = ["| chat by one gateway | same dialect, CPU µs | converted to messages, CPU µs | times, by pair | due, at most |", "|---|--:|--:|--:|--:|"]
    for title, kind in kinds.items():
        same, other = ([one.cpu_us for one in runs[f"{which}-{kind}"]] for which in ("same", "converted"))
        times = [b / a if a else float("inf") for a, b in zip(same, other)]
        lines.append(f"| {title} | {bench.spread(same)} | {bench.spread(other)} | {bench.spread(times)} | {TIMES_CONVERTED_DUE} |")
    return "\n".join(lines)


# LiteLLM

def start_litellm(provider_port):
    program = mcp_rivals.SETUP / "venv-litellm/bin/litellm"
    if not program.exists():
        raise OSError("LiteLLM is not installed: make bench installs it")
    port, path = bench.free_port(), bench.WORK / "litellm.yaml"
    model = {"model_name": MODEL, "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{provider_port}/v1", "api_key": "none"}}
    path.write_text(json.dumps({"model_list": [model], "general_settings": {"master_key": mcp_rivals.KEY}}))
    off = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DISABLE_ADMIN_UI": "True", "NO_DOCS": "True", "LITELLM_LOG": "ERROR"}
    command = [program, "--config", path, "--host", "127.0.0.1", "--port", port, "--telemetry", "False"]
    process = mcp_rivals.run("LiteLLM", list(map(str, command)), off)
    mcp_rivals.wait("LiteLLM", process, port, "/health/liveliness")
    return Target(process, port)


def rivals_table(found, options, started):
    try:
        litellm = start_litellm(found["provider"].port)
    except OSError as why:
        return f"LiteLLM is left out: {why}."
    started.append(litellm.process)
    text = (bench.WORK / "chat.lua").read_text()
    for number in range(calls.AGENTS):
        text = text.replace(f"Bearer {calls.agent_key(number)}", f"Bearer {mcp_rivals.KEY}")
    (bench.WORK / "litellm.lua").write_text(text)
    targets = {"weir": (found["weir"], "chat"), "LiteLLM": (litellm, "litellm")}

    def run(name):
        target, of = targets[name]
        return bench.measured(*target, options.seconds, table=of, connections=RIVAL_CONNECTIONS, is_strict=False)

    for name in targets:
        run(name)
    runs = in_turns(targets, min(options.pairs, 3), run, "llm_lane")
    lines = [f"LiteLLM's proxy, chat of 1 KB, {RIVAL_CONNECTIONS} connections, one worker. Switched off in it: {mcp_rivals.OFF['LiteLLM']}.", "",
             "| what | CPU µs a request | requests/s | p50, ms | p99, ms | errors | memory, MB |", "|---|--:|--:|--:|--:|--:|--:|"]
    for name, those in runs.items():
        lines.append(f"| {name} | {whole([one.cpu_us for one in those])} | {whole([one.rate for one in those])} | "
                     f"{ms([one.p50_us for one in those])} | {ms([one.p99_us for one in those])} | {sum(one.errors for one in those)} | "
                     f"{bench.rss_mb(targets[name][0].process):.0f} |")
    return "\n".join(lines)


# All of it

def parse_options():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--pairs", type=int, default=6)
    options.add_argument("--seconds", type=int, default=4)
    options.add_argument("--slow-seconds", type=int, default=SLOW_S)
    options.add_argument("--conversion", action="store_true", help="measure conversion alone")
    options.add_argument("--no-rivals", action="store_true", help="leave out other gateways")
    options.add_argument("--smoke", action="store_true", help="one short round of each; leaves the page alone")
    options.add_argument("--dry", action="store_true", help="print the result and leave the page alone")
    options = options.parse_args()
    options.streams, options.rounds = SLOW_STREAMS, 2_000
    if options.smoke:
        options.pairs, options.seconds, options.slow_seconds, options.dry = 1, 1, 4, True
        options.streams, options.rounds = 50, 50
    return options


def main():
    options = parse_options()
    # What was started ends with it, however it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("llm_lane: ended by a signal"))
    begun = time.monotonic()
    weir = str(Path(options.weir).resolve())
    bench.WORK = bench.ROOT / "target/bench/llm-lane"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    started = []
    try:
        found = start_all(weir, started)
        parts, conversion = [], conversion_table(found, options)
        if not options.conversion:
            parts = [rates_table(rates(found, options)), latency_table(found, options.rounds), deltas_table(found, options),
                     slow_table(found, options.streams, options.slow_seconds)]
        if not (options.no_rivals or options.conversion):
            parts.append(rivals_table(found, options, started))
    finally:
        bench.end(started)
    start = (f"{figures.measured()}, on {bench.machine()}; {options.pairs} pairs of {options.seconds} s, {bench.CONNECTIONS} "
             "connections where nothing else is said; median (least to most).\n\n")
    text, conversion = start + "\n\n".join(parts), start + conversion
    print("\n\n".join(one for one in (parts and text, conversion) if one))
    print(f"llm_lane: {time.monotonic() - begun:.0f} s")
    if not options.dry:
        figures.write("bench-llm-conversion", conversion)
        if parts:
            figures.write("bench-llm", text)


if __name__ == "__main__":
    main()
