"""Runs that are killed at points by chance, and cancelled at every one, and what has to hold of them afterwards.

The black-box tests play it for seconds, `make certify-runs` with hundreds of kills. A house is a gateway with a scripted model and a server
of tools each of whose calls leaves a line in a file, so that what was done can be counted.
"""

import json
import random
import time

from gateway import until

# Runs that are begun before each kill.
RUNS = 3
# What the scripted model counts for each answer.
TOKENS = 15
# How long a provider's connection may stay once a run was cancelled, in milliseconds; what is looked every 10 ms adds to it.
CLOSES_MS = 100
FINAL = ("run.completed", "run.failed", "run.cancelled")
# Every kind of event of a run: words, reasoning, calls of tools that take a while, and a silence.
SCRIPT = [
    {"reason": "first I look", "say": "a few words before", "calls": [["wait", {"seconds": 0.3, "text": "NAME"}], ["look", {"text": "NAME"}]], "pace": 0.03},
    {"say": "one more", "calls": [["add", {"text": "NAME"}]], "pace": 0.03},
    {"say": "the end of it", "hang": 0.4, "pace": 0.03},
]


def turns(name, chance):
    """A script whose calls are told apart: some that have effects, some that take a while, one that may be repeated."""
    calls = lambda n: [["add", {"text": f"{name}-{n}"}], ["wait", {"seconds": round(chance.random() * 0.05, 3), "text": f"{name}-{n}"}],  # noqa: E731
                       ["again", {"seconds": 0.01, "text": f"{name}-{n}"}]]
    return [{"say": "words before", "calls": calls(n)[:chance.randrange(1, 4)]} for n in range(4)] + [{"say": "end"}]


def play(house, kills, seed):
    """Begins runs, kills the gateway in the middle of them, and starts it again; gives what holds in the end."""
    chance, runs, seen = random.Random(seed), [], {}
    for kill in range(kills):
        for number in range(RUNS):
            name = f"{seed}-{kill}-{number}"
            runs.append((name, house.start(turns(name, chance))))
        time.sleep(chance.random() * 0.3)
        # What a client was told is there afterwards, as it was told.
        for _, run in runs[-RUNS:]:
            seen[run] = house.events(run)
        time.sleep(chance.random() * 0.1)
        house.gateway.kill()
        house.gateway.start()
    holds = dict.fromkeys(["every run ends", "no call with effects is made twice", "no acknowledged call is lost", "no event is lost",
                           "events are numbered", "usage adds up", "records add up"], True)
    done, used = house.done, {}
    for name, run in runs:
        state = house.ended(run)
        holds["every run ends"] &= state["state"] == "completed"
        events = house.events(run)
        holds["no event is lost"] &= events[:len(seen[run])] == seen[run]
        holds["events are numbered"] &= [event["id"] for event in events] == list(range(1, len(events) + 1))
        messages = [event for event in events if event["type"] == "message.done"]
        calls = [event for event in events if event["type"] == "tool.result"]
        usage = state["usage"]
        holds["usage adds up"] &= usage["steps"] == len(messages) and usage["tool_calls"] == len(calls) and \
            usage["input_tokens"] == sum(event["usage"]["input"] for event in messages)
        used[run] = usage["input_tokens"] + usage["output_tokens"]
        made = [line for line in done() if line.startswith((f"add {name}-", f"begun wait {name}-"))]
        holds["no call with effects is made twice"] &= len(made) == len(set(made))
        good = {event["content"] for event in calls if not event["is_error"]}
        told = {f"{tool} did {text}" for tool, text in (line.split(" ", 1) for line in done() if not line.startswith(("begun", "cancelled")))}
        holds["no acknowledged call is lost"] &= good <= told
    # The log counts what runs count, and what was asked of a model whose answer nobody heard.
    records = house.gateway.records()
    asked = {record["call"]: record["run"] for record in records
             if record.get("run") in used and record.get("action") == "llm:chat" and record["decision"] == "pass"}
    ended = {record["call"]: record.get("usage") for record in records if record.get("kind") == "outcome" and record["call"] in asked}
    for run, tokens in used.items():
        calls = [call for call, of in asked.items() if of == run]
        counted = sum(sum(ended[call].values()) for call in calls if ended.get(call))
        uncounted = sum(not ended.get(call) for call in calls)
        holds["records add up"] &= counted <= len(calls) * TOKENS and tokens <= counted + uncounted * TOKENS and tokens == TOKENS * 5
    house.gateway.verify()
    return holds


def cancel_everywhere(house, step=1):
    """Cancels a run behind its first event, another one behind its second or so many later, and so on; gives what holds."""
    holds = dict.fromkeys(["it is cancelled", "nothing follows", "the provider's connection closes in time", "the tool is told",
                           "nothing begins afterwards"], True)
    gone = lambda: sum("gone" in one for one in house.model.seen())  # noqa: E731
    point, points, longest = 1 - step, 0, 0.0
    while True:
        point += step
        name = f"cancel-{point}-{random.getrandbits(32):x}"
        run = house.start(json.loads(json.dumps(SCRIPT).replace("NAME", name)))
        listener, last = house.listen(run), None
        for number, kind, event in listener:
            last = kind
            if number == point or kind in FINAL:
                break
        if last in FINAL:
            listener.close()
            break
        points += 1
        before = gone()
        began = time.monotonic()
        answer = house.ask("DELETE", f"/v1/runs/{run}").json()
        holds["it is cancelled"] &= answer["state"] in ("cancelled", "completed")
        lines = house.done()
        events = house.events(run)
        listener.close()
        asked = events[-2]["type"] if len(events) > 1 else ""
        if answer["state"] == "cancelled" and asked in ("text.delta", "reasoning.delta"):
            # It was answering when it was cut off.
            until(lambda: gone() > before, "the model's connection closes", 5)
            took = (time.monotonic() - began) * 1000
            longest = max(longest, took)
            holds["the provider's connection closes in time"] &= took < CLOSES_MS + SLACK_MS
        if asked == "tool.call" and events[-2]["call"]["tool"] == "wait":
            until(lambda: f"cancelled wait {name}" in house.done() or f"wait {name}" in house.done(), "the tool is told", 5)
            holds["the tool is told"] &= f"cancelled wait {name}" in house.done()
        time.sleep(0.05)
        later = [line for line in house.done() if name in line and line not in lines and not line.startswith("cancelled")]
        holds["nothing begins afterwards"] &= not later
        holds["nothing follows"] &= house.events(run) == events and events[-1]["type"] in FINAL
    house.cancelled = {"points": points, "longest_ms": longest}
    return holds


# What the tests' own polling and a busy machine add to the time in which a connection is seen to close.
SLACK_MS = 150
