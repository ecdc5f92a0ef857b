"""A part of `make bench`: what a run costs the gateway, beside the calls that a client outside would make for the same script.

Everything is on as in `bench.py`: 1,000 agents, 100 policies, the scan, the record, the log on `os`. The model is `weir lab target` without a delay, the
tools those of `bench.py`. All that is compared takes turns: a chat of one step at `/api/chat`, one of two steps with a call of a tool between them, the
governed `tools/call`, the governed chat of the model, and the second script played from outside. Then what each further listener of a run's
events costs; the memory of 1,000 runs that wait for a slow model; the waits for the disk of a gateway with `fsync`; and what 10,000
runs that have ended cost a start and a list.

    python bench/runs.py --weir target/dist/weir
"""

import argparse
import http.client
import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bench
import calls
import figures
from llm_lane import MODEL, Target, quantile, start_provider
from mcp_lane import in_turns, whole

TOOL, EVENTS, SLOW = "lab-tool", "lab-events", "lab-slow"
# In each answer of a table: a word of the model or of the tool; the end of a stream; what an answer of either kind has.
GOOD = {"talker": "station", "worker": "station", "call": "station", "chat": "[DONE]", "outside": '{"'}
DELTAS, LISTENERS, LISTENED_RUNS = 500, 10, 8
TIMES_CALL_DUE, TOOL_CALLS_DUE, LISTENER_US_DUE, WAITING_KB_DUE, START_S_DUE, LIST_MS_DUE, WAITS_DUE = 3, 1.3, 12, 64, 2, 5, 1
# One word: a run has an event for each piece of text.
SCRIPT = {
    MODEL: [{"words": "station"}],
    TOOL: [{"words": "station", "tools": [{"name": "t00", "arguments": {"text": (calls.PROSE * 6)[:900], "count": 7}}]}, {"words": "station"}],
    EVENTS: [{"tokens": DELTAS, "tokens_per_second": 100, "ttft": "2s"}],
    SLOW: [{"words": "late", "ttft": "600s"}],
}
AGENTS = {"talker": {"model": f"lab/{MODEL}"}, "worker": {"model": f"lab/{TOOL}", "tools": ["s0/*"]},
          "teller": {"model": f"lab/{EVENTS}"}, "waiter": {"model": f"lab/{SLOW}"}}
CHAT = "/v1/chat/completions"


# What is asked

def table(name, rows):
    """Rows of the load tool: path, fields, body."""
    lines = []
    for path, fields, text in rows:
        lua = ",".join(f"[{json.dumps(field)}]={json.dumps(value)}" for field, value in fields.items())
        lines.append(f"{{{json.dumps(path)},{{{lua}}},{json.dumps(text)}}}")
    text = ",\n".join(lines)
    (bench.WORK / f"{name}.lua").write_text(f"return {{\ngood={json.dumps(GOOD[name])},\n{text}\n}}\n")


def tables(sessions):
    def fields(number):
        return {"content-type": "application/json", "authorization": f"Bearer {calls.agent_key(number)}"}

    def chat(model, messages):
        # As a run asks: it has the answer as a stream.
        return json.dumps({"model": f"lab/{model}", "messages": messages, "stream": True, "stream_options": {"include_usage": True}})

    def call(number):
        text = calls.call_body(number, calls.LEGACY)
        own = {**calls.headers(text, calls.LEGACY, sessions[number]), "authorization": f"Bearer {calls.agent_key(number)}"}
        return calls.Way().path(number), own, text

    agents = range(calls.AGENTS)
    for agent in ("talker", "worker"):
        table(agent, ((("/api/chat", fields(n), json.dumps({"message": f"What of {n}?", "agent_id": agent}))) for n in agents))
    table("call", (call(n) for n in agents))
    user = {"role": "user", "content": "What of it?"}
    table("chat", ((CHAT, fields(n), chat(MODEL, [user])) for n in agents))
    spoken = [user, {"role": "assistant", "content": calls.PROSE, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "t00", "arguments": "{}"}}]},
              {"role": "tool", "tool_call_id": "call_1", "content": (calls.PROSE * 7)[:1000]}]
    table("outside", (row for n in agents for row in ((CHAT, fields(n), chat(TOOL, [user])), call(n), (CHAT, fields(n), chat(TOOL, spoken)))))


class Asker:
    """One connection that is kept."""

    def __init__(self, port, number=0):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.fields = {"authorization": f"Bearer {calls.agent_key(number)}", "content-type": "application/json", "accept": "application/json"}

    def ask(self, method, path, body=None, good=(200, 202)):
        self.connection.request(method, path, body and json.dumps(body), self.fields)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status not in good:
            sys.exit(f"runs: {method} {path} was answered {answer.status}: {data[:500]}")
        return json.loads(data)

    def start(self, agent):
        return self.ask("POST", "/v1/runs", {"agent": agent, "input": "What of it?"})["id"]


# What is measured

def configuration(name, origin_port, provider_port, durability="os"):
    (bench.WORK / "runs.cedar").write_text('@id("runs")\npermit (principal, action in [Action::"run", Action::"llm"], resource);\n')
    own = bench.configuration(durability, origin_port)
    provider = {"kind": "vllm", "url": f"http://127.0.0.1:{provider_port}/v1"}
    runs = {"agents": AGENTS, "at_once": 100_000, "agent_at_once": 100_000}
    path = bench.WORK / f"{name}.yaml"
    path.write_text(json.dumps({**own, "state": f"state-{name}", "llm": {"providers": {"lab": provider}}, "runs": runs,
                                "policy": {**own["policy"], "files": ["policy.cedar", "runs.cedar"]}}, indent=1))
    return path


def start_gateway(weir, path):
    return Target(*bench.start([weir, "serve", "-c", str(path)], stderr=subprocess.PIPE))


ROWS = {"a chat of one step": ("talker", 1), "a chat of two steps with a tool": ("worker", 1), "`tools/call` of 1 KB": ("call", 1),
        "the model's chat": ("chat", 1), "two steps with a tool, from outside": ("outside", 3)}


def rates(gateway, options):
    def run(name):
        of, asked = ROWS[name]
        one = bench.measured(*gateway, options.seconds, table=of)
        return one._replace(cpu_us=one.cpu_us * asked, rate=one.rate / asked)
    for of, _ in ROWS.values():
        bench.load(gateway.port, 1, table=of)
    return in_turns(ROWS, options.pairs, run, "runs")


def rates_table(runs):
    lines = ["| what | CPU µs | a second | p50, ms |", "|---|--:|--:|--:|"]
    for name, those in runs.items():
        p50 = "–" if ROWS[name][1] > 1 else f"{statistics.median(one.p50_us for one in those) / 1e3:.1f}"
        lines.append(f"| {name} | {bench.spread([one.cpu_us for one in those])} | {whole([one.rate for one in those])} | {p50} |")

    def cost(name):
        return [one.cpu_us for one in runs[name]]
    step, tool, call, chat, outside = map(cost, ROWS)
    above = [(two - one - model - made) / made for one, two, made, model in zip(step, tool, call, chat)]
    lines += ["", "| CPU time, by round | times | due, at most |", "|---|--:|--:|",
              f"| a chat of one step / `tools/call` | {ratio(step, call)} | {TIMES_CALL_DUE} |",
              f"| a step with a tool, above its two governed calls, in calls | {two(above)} | {TOOL_CALLS_DUE} |",
              f"| two steps with a tool / the same from outside | {ratio(tool, outside)} | – |"]
    return "\n".join(lines)


def two(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def ratio(ones, others):
    return two([a / b for a, b in zip(ones, others)])


def listen(port, run, number, heard):
    """Reads a run's events to their end, and says how many bytes they were."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", f"/v1/runs/{run}/events", headers={"authorization": f"Bearer {calls.agent_key(number)}", "accept": "text/event-stream"})
    response = connection.getresponse()
    total = 0
    while data := response.read1(65_536):
        total += len(data)
    heard.append(total)
    connection.close()


def told(gateway, listeners):
    """CPU seconds of some runs with so many listeners each, and how many events they had."""
    asker, heard = Asker(gateway.port), []
    before = bench.cpu_s(gateway.process)
    ids = [asker.start("teller") for _ in range(LISTENED_RUNS)]
    threads = [threading.Thread(target=listen, args=(gateway.port, run, 0, heard)) for run in ids for _ in range(listeners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = bench.cpu_s(gateway.process) - before
    if len(set(heard)) > 3 or min(heard) < DELTAS * 20:
        sys.exit(f"runs: listeners did not hear the same: {heard}")
    last = asker.ask("GET", f"/v1/runs/{ids[0]}/events?after=0&limit=1000")["data"]
    return spent, LISTENED_RUNS * len(last)


def listeners_row(gateway, rounds):
    costs = []
    for _ in range(rounds):
        few, events = told(gateway, 1)
        many, _ = told(gateway, 1 + LISTENERS)
        costs.append((many - few) / (LISTENERS * events) * 1e6)
    return f"| an event to each further listener, CPU µs | {bench.spread(costs)} | {LISTENER_US_DUE} |"


def waiting_row(gateway, count):
    asker = Asker(gateway.port)
    before = bench.rss_mb(gateway.process)
    ids = [asker.start("waiter") for _ in range(count)]
    time.sleep(3)
    each = (bench.rss_mb(gateway.process) - before) * 1024 / count
    for run in ids:
        asker.ask("POST", f"/v1/runs/{run}/cancel", {})
    return f"| memory of a run that waits for its model, KB ({count:,} of them) | {each:.1f} | {WAITING_KB_DUE} |"


def ended_rows(weir, path, count):
    gateway = start_gateway(weir, path)
    askers = [Asker(gateway.port, number) for number in range(16)]

    def chats(asker):
        for _ in range(count // len(askers)):
            asker.ask("POST", "/api/chat", {"message": "What of it?", "agent_id": "talker"})
    with ThreadPoolExecutor(len(askers)) as threads:
        list(threads.map(chats, askers))
    bench.end([gateway.process])
    began = time.perf_counter()
    gateway = start_gateway(weir, path)
    asker = Asker(gateway.port)
    asker.ask("GET", "/v1/runs?limit=1")
    took, times = time.perf_counter() - began, []
    for _ in range(40):
        began = time.perf_counter()
        page = asker.ask("GET", "/v1/runs?limit=50")
        times.append((time.perf_counter() - began) * 1e3)
    if not page["data"]:
        sys.exit("runs: no run is in the list")
    bench.end([gateway.process])
    return [f"| start with {count:,} runs that have ended, s | {took:.2f} | {START_S_DUE} |", f"| list of 50 of them, ms, p95 | {quantile(times, 0.95):.2f} | {LIST_MS_DUE} |"]


def waits_row(weir, paths, rounds):
    """How many times a chat waits for the disk: what `fsync` adds to its median at one connection, in waits of this disk."""
    gateways = {name: start_gateway(weir, path) for name, path in paths.items()}
    askers = {name: Asker(gateway.port) for name, gateway in gateways.items()}
    bodies = {"run": ("/api/chat", {"message": "What of it?", "agent_id": "talker"}),
              "chat": (CHAT, {"model": f"lab/{MODEL}", "messages": [{"role": "user", "content": "What of it?"}]})}
    times = {(name, what): [] for name in gateways for what in bodies}
    for _ in range(rounds):
        for name, what in times:
            began = time.perf_counter()
            askers[name].ask("POST", *bodies[what])
            times[name, what].append((time.perf_counter() - began) * 1e3)
    bench.end([gateway.process for gateway in gateways.values()])
    sync = bench.fdatasync_ms()[0]
    added = {what: (statistics.median(times["fsync", what]) - statistics.median(times["os", what])) / sync for what in bodies}
    return (f"| waits for the disk with `fsync` (fdatasync {sync:.2f} ms): of a chat of one step, of its model's call by itself | "
            f"{added['run']:.1f}, {added['chat']:.1f} | {WAITS_DUE} more |")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--pairs", type=int, default=6)
    options.add_argument("--seconds", type=int, default=3)
    options.add_argument("--smoke", action="store_true", help="one short round of each; leaves the page alone")
    options.add_argument("--dry", action="store_true", help="print the result and leave the page alone")
    options = options.parse_args()
    options.waiting, options.ended, options.rounds = 1_000, 10_000, 300
    if options.smoke:
        options.pairs, options.seconds, options.dry, options.waiting, options.ended, options.rounds = 1, 1, True, 100, 320, 20
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("runs: ended by a signal"))
    weir = str(Path(options.weir).resolve())
    bench.WORK = bench.ROOT / "target/bench/runs"
    origin, origin_port = bench.prepare()
    started = [origin]
    try:
        provider = start_provider(weir, ("answers", SCRIPT), "--threads", "2")
        started.append(provider.process)
        gateway = start_gateway(weir, configuration("weir", origin_port, provider.port))
        started.append(gateway.process)
        tables([calls.open_session(gateway.port, agent) for agent in range(calls.AGENTS)])
        rows = [listeners_row(gateway, min(3, options.pairs)), waiting_row(gateway, options.waiting)]
        runs = rates(gateway, options)
        bench.end([started.pop()])
        rows += ended_rows(weir, configuration("ended", origin_port, provider.port), options.ended)
        rows.append(waits_row(weir, {name: configuration(name, origin_port, provider.port, name) for name in ("os", "fsync")}, options.rounds))
    finally:
        bench.end(started)
    text = "\n".join([f"{figures.measured()}, on {bench.machine()}; {options.pairs} rounds; median (least to most).", "", rates_table(runs), "",
                      "| what | value | due, at most |", "|---|--:|--:|", *rows])
    print(text)
    if not options.dry:
        figures.write("runs", text)


if __name__ == "__main__":
    main()
