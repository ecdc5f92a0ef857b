"""Crowds of agents on one board, on either store: what they do, what is killed meanwhile, and what has to hold of the board afterwards.

The black-box tests play it for seconds, `make certify-flow` for minutes. Every write has an idempotency key, and is sent again until it is
answered, so at the end it is known how often each thing was done: once.
"""

import http.client
import json
import os
import random
import signal
import sqlite3
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from gateway import until
from test_flow import Http, flow, owner_of, titles_of

# How long a call is sent again that is not answered.
ANSWER_S = 60


def told(text, more=None):
    """What a refusal says: JSON where it has more than a code and a message."""
    code, message = text.split(": ", 1)
    return json.loads(more)["error"] if more else {"code": code, "message": message}


class Session:
    """A client of a server over HTTP, in as few bytes as there are: crowds of it are cheap."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = self.post({"id": 0, "method": "initialize", "params": hello})
        self.headers |= {"mcp-session-id": answer.getheader("mcp-session-id"), "mcp-protocol-version": "2025-11-25"}
        answer.read()
        self.post({"method": "notifications/initialized"}).read()

    def post(self, body):
        self.connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **body}), self.headers)
        return self.connection.getresponse()

    def call(self, tool, **arguments):
        """The answer, and the error where it is one."""
        answer = self.post({"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}).read().decode()
        data = [line[5:] for line in answer.splitlines() if line.startswith("data:") and line[5:].strip()]
        result = json.loads(data[-1] if data else answer)["result"]
        if result.get("isError"):
            return None, told(*(block["text"] for block in result["content"]))
        return result["structuredContent"], None

    def ask(self, tool, **arguments):
        answer, error = self.call(tool, **arguments)
        assert error is None, (tool, arguments, error)
        return answer


class Agent:
    """An agent whose servers may end at any moment: it asks another one, and sends a write with the same key until it is answered."""

    def __init__(self, crowd, number):
        self.crowd, self.number, self.session = crowd, number, None
        self.chance = random.Random(number)

    def call(self, tool, **arguments):
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            try:
                self.session = self.session or Session(self.crowd.any_server(self.chance))
                answer, error = self.session.call(tool, project="P", **arguments)
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                # It was killed, before it answered or in the middle; half an answer is none.
                self.session = None
                time.sleep(0.02)
                continue
            if error and error["code"] == "unavailable":
                time.sleep(0.05)
                continue
            self.crowd.answered()
            return answer, error
        raise AssertionError(f"{tool}: no answer within {ANSWER_S} s")

    def write(self, tool, **arguments):
        return self.call(tool, idempotency_key=uuid.UUID(int=self.chance.getrandbits(128)).hex, **arguments)

    def work(self):
        """Does things by chance until the crowd is told to stop."""
        while not self.crowd.stops.is_set():
            self.chance.choice([self.make, self.take, self.take, self.count, self.depend, self.look])()

    def make(self):
        title = f"{self.number}/{self.chance.getrandbits(64):x}"
        one = {"title": title, "idempotency_key": f"key of {title}"}
        made, error = self.call("work_item_create", **one)
        assert error is None, error
        self.crowd.made.append(title)
        self.crowd.ids.append(made["item"]["id"])
        if self.chance.random() < 0.3:
            again, error = self.call("work_item_create", **one)
            assert error is None and again["item"]["id"] == made["item"]["id"], "one key made two items"

    def take(self):
        taken, error = self.write("claim")
        assert error is None, error
        if "item" not in taken:
            return
        item = taken["item"]
        self.crowd.taken.append((item["id"], taken["token"]))
        done, error = self.write("work_item_update", id=item["id"], version=item["version"], lease_token=taken["token"], status="completed")
        # What it waits for may have come meanwhile; nobody else may have changed it.
        assert error is None or error["code"] != "conflict" or self.is_depended(error), error
        if done:
            self.crowd.completed.append(item["id"])

    @staticmethod
    def is_depended(error):
        """Whether all that differs is what the item waits for, which `depend` changes."""
        return set(error["data"]["differs"]) <= {"depends_on", "dependencies", "version", "updated_at", "updated_by"}

    def count(self):
        got, error = self.call("work_item_get", id=self.crowd.counter)
        assert error is None, error
        item = got["item"]
        count = item.get("metadata", {}).get("count", 0) + 1
        _, error = self.write("work_item_update", id=self.crowd.counter, version=item["version"], metadata={"count": count})
        assert error is None or error["code"] == "conflict", error
        if error is None:
            self.crowd.counted.append(count)

    def depend(self):
        """Two items of the same few, in any order: somebody closes a circle sooner or later, and is refused."""
        if len(self.crowd.knots) < 2:
            return
        one, other = self.chance.sample(self.crowd.knots, 2)
        _, error = self.write("dependency", id=one, depends_on=other)
        if error:
            assert error["code"] in ("cycle", "exists", "over", "leased"), error
            self.crowd.refused.append(error["code"])

    def look(self):
        for tool, more in [("next_work", {"limit": 5}), ("status", {}), ("work_item_query", {"limit": 5})]:
            _, error = self.call(tool, **more)
            assert error is None, error


class Crowd:
    """Agents on the servers of one board. `boards` are the places from which its servers see it; all have the same rows."""

    def __init__(self, boards):
        self.boards = boards
        self.made, self.ids, self.taken, self.completed, self.counted, self.refused = [], [], [], [], [], []
        self.stops, self.answers, self.last, self.gaps = threading.Event(), 0, time.monotonic(), []
        self.servers = [Http(board) for board in boards]
        first = Session(self.servers[0])
        first.ask("project", action="create", name="P")
        # No work that could be taken: a session is none.
        make = lambda title: first.ask("work_item_create", project="P", title=title, type="session")["item"]["id"]  # noqa: E731
        self.counter = make("counter")
        self.knots = [make(f"knot {number}") for number in range(12)]

    def any_server(self, chance):
        return chance.choice(self.servers)

    def answered(self):
        self.answers += 1
        self.last = time.monotonic()

    def play(self, agents, seconds, kill=None, kills=0):
        """Agents at work for some seconds, or until somebody was killed so often; `gaps` are the times until somebody was answered then."""
        with ThreadPoolExecutor(agents) as pool:
            workers = [pool.submit(Agent(self, number).work) for number in range(agents)]
            try:
                deadline = time.monotonic() + seconds
                if kill:
                    for _ in range(kills):
                        self.kill_one(kill, workers)
                while not kill and time.monotonic() < deadline and not any(worker.done() for worker in workers):
                    time.sleep(0.05)
            finally:
                self.stops.set()
            for worker in workers:
                worker.result()

    def kill_one(self, kill, workers):
        before, chance = self.answers, random.Random(len(self.gaps))
        until(lambda: self.answers >= before + 8 or any(worker.done() for worker in workers), "agents are answered", ANSWER_S)
        time.sleep(chance.random() * 0.05)
        again = kill(chance)
        began, before = time.monotonic(), self.answers
        until(lambda: self.answers > before or any(worker.done() for worker in workers), "somebody is answered", ANSWER_S)
        self.gaps.append(time.monotonic() - began)
        if again:
            again()

    def kill_server(self, chance):
        """Kills whoever has the database, or another of the servers; gives what starts it anew."""
        owners = set() if self.boards[0].url else set(owner_of(self.boards[0]))
        number = chance.randrange(len(self.servers))
        if chance.random() < 0.5:
            number = next((n for n, server in enumerate(self.servers) if server.process.pid in owners), number)
        old = self.servers[number]
        old.process.kill()
        old.process.wait()

        def again():
            self.servers[number] = Http(self.boards[number])
            old.process.stdout.close()

        return again

    def end(self):
        for server in self.servers:
            server.process.kill()
            server.process.wait()
            server.process.stdout.close()

    def check(self):
        """What has to hold: pairs of what it is and whether it does."""
        board = self.boards[0]
        titles = titles_of(board)
        lost = set(self.made) - set(titles)
        counter = json.loads(rows(board, f"SELECT doc FROM objects WHERE id='{self.counter}'")[0])
        steps = rows(board, "SELECT count(*) FROM (SELECT version - lag(version, 1, CAST(0 AS BIGINT)) OVER (PARTITION BY id ORDER BY seq) "
                     "AS step FROM events) s WHERE step <> 1")
        edges = [tuple(row.split("|")) for row in rows(board, "SELECT source || '|' || target FROM edges WHERE relation='blocks'")]
        return {
            "no acknowledged write is lost": not lost,
            "each key was applied once": len(titles) == len(set(titles)),
            "none is taken twice": len(self.taken) == len(set(self.taken)) and len(self.completed) == len(set(self.completed)),
            "no update is lost": counter.get("metadata", {}).get("count", 0) == len(self.counted) == len(set(self.counted)),
            "versions rise by one": steps == ["0"],
            "events have no gap": rows(board, "SELECT max(seq) - count(*) FROM events") == ["0"],
            "no circle": not has_circle(edges),
            "the events say what is kept": "byte for byte" in flow(board, "log", "--check"),
        }


def rows(board, sql):
    """The rows of a statement, of one column, as texts."""
    if board.url:
        return board.sql(sql).splitlines()
    with sqlite3.connect(f"file:{board / 'flow.db'}?mode=ro", uri=True) as db:
        return [str(value) for (value,) in db.execute(sql)]


def has_circle(edges):
    after = {}
    for source, target in edges:
        after.setdefault(source, []).append(target)
    done, above = set(), set()

    def closes(one):
        if one in above:
            return True
        if one in done:
            return False
        above.add(one)
        found = any(closes(other) for other in after.get(one, []))
        above.discard(one)
        done.add(one)
        return found

    return any(closes(one) for one in list(after))


def database_killer(crowd, cluster):
    """Kills a server of flow, the process of PostgreSQL that writes, or all of PostgreSQL, which is started again."""

    def kill(chance):
        shape = chance.random()
        if shape < 0.4:
            return crowd.kill_server(chance)
        if shape < 0.7:
            pids = cluster.sql("postgres", "SELECT pid FROM pg_stat_activity WHERE datname = 'flow' AND state <> 'idle'", "postgres").split()
            if pids:
                os.kill(int(chance.choice(pids)), signal.SIGKILL)
                # All of PostgreSQL recovers then, in its own time.
                until(cluster.answers, "PostgreSQL recovers", ANSWER_S)
            return None
        return cluster.kill()

    return kill
