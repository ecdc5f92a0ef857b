"""A soak of the web lane, over loopback alone: agents that ask many hosts by the forward proxy, plain and looked into, while
WebSockets stay open and talk. Every answer has to be that of its own request; what the gateway holds is looked at each second.

The hosts are addresses below 127.0.0.0/8, so that no name server and no other machine has a part in it. The origin is aiohttp,
in a process of its own with a listener at each of them; clients are aiohttp's too.
"""

import asyncio
import json
import os
import resource
import ssl
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import aiohttp
from aiohttp import web

AGENTS = ("ada", "ben", "cleo", "dora", "emil")
POLICY = """
@id("sites") permit (principal, action in [Action::"web:get", Action::"web:send"], resource is Site);
"""
SENTENCE = "The water stands high behind the old weir, and the miller opens the gate a little at dawn. "
WAIT_S = 30
# Requests at once beside the sockets, and pauses between the messages of a socket.
WORKERS, SOCKET_PAUSE_S = 12, (0.5, 3.0)
# Growth that is noise: of the resident set, and of open descriptors, some of which are connections to sites that are kept for
# a minute. What stays open for good is seen when the clients are gone.
NOISE_MB, NOISE_DESCRIPTORS, NOISE_SHARE = 6, 12, 0.06


def host(number):
    return f"127.7.{number // 250}.{number % 250 + 1}"


def word(agent, host_, number):
    """What only this request's answer says."""
    return f"the answer to {agent} of {host_} in round {number}"


# The origin, in a process of its own


async def answer(request):
    """Says back whose request it was: the word, the host that was asked, and a text."""
    said = {"word": request.headers.get("x-word", ""), "host": request.host.rsplit(":", 1)[0], "sent": (await request.read()).decode(),
            "text": SENTENCE * int(request.query.get("times", "5"))}
    return web.json_response(said)


async def talk(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type != aiohttp.WSMsgType.TEXT:
            break
        await socket.send_str(f"{request.host.rsplit(':', 1)[0]} heard {message.data}")
    return socket


def serve(hosts, port, secured_port, certificate, key):
    """Listens at every host, plain and by TLS."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    app = web.Application()
    app.router.add_get("/talk", talk)
    app.router.add_route("*", "/{rest:.*}", answer)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def run():
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=20)
        await runner.setup()
        loop = asyncio.get_running_loop()
        for number in range(hosts):
            await loop.create_server(runner.server, host(number), port, backlog=16)
            await loop.create_server(runner.server, host(number), secured_port, backlog=16, ssl=context)
        print("ready", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


class Origin:
    def __init__(self, folder, hosts, ports):
        command = [sys.executable, __file__, str(hosts), *map(str, ports), str(folder / "origin.crt"), str(folder / "origin.pem")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


# What the gateway holds


class Holdings:
    """The resident set and the open descriptors of a process, each second."""

    def __init__(self, pid):
        self.pid, self.rows = pid, []

    def look(self, after_s):
        status = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        self.rows.append((after_s, int(status["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{self.pid}/fd"))))

    def judge(self, from_s):
        """The medians of the first and of the last quarter of what came after `from_s`, by which growth is told."""
        rows = [row for row in self.rows if row[0] >= from_s]
        quarter = max(1, len(rows) // 4)
        first, last = rows[:quarter], rows[-quarter:]
        of = lambda part, place: statistics.median(row[place] for row in part)
        found = {"mb_first": of(first, 1), "mb_last": of(last, 1), "mb_peak": max(row[1] for row in self.rows),
                 "descriptors_first": of(first, 2), "descriptors_last": of(last, 2), "descriptors_peak": max(row[2] for row in self.rows)}
        grown = found["mb_last"] - found["mb_first"]
        found["is_flat"] = (grown <= max(NOISE_MB, NOISE_SHARE * found["mb_first"])
                            and found["descriptors_last"] - found["descriptors_first"]
                            <= max(NOISE_DESCRIPTORS, NOISE_SHARE * found["descriptors_first"]))
        return found


# The load


class Soak:
    """The load on one gateway: `hosts` hosts, `sockets` WebSockets, for `seconds`."""

    def __init__(self, house, hosts, sockets, ports, seconds):
        self.house, self.hosts, self.sockets, self.ports, self.seconds = house, hosts, sockets, ports, seconds
        self.done = {"plain": 0, "looked into": 0, "messages": 0}
        self.wrong, self.failed, self.asked, self.open = [], [], set(), 0
        self.holdings = Holdings(house.gateway.process.pid)
        self.trust = ssl.create_default_context(cafile=str(house.ca))

    def proxy(self, agent, secured, **fields):
        """How the proxy is asked: who opens a tunnel shows the key with CONNECT, and with each request otherwise."""
        shown = {"Proxy-Authorization": f"Bearer {self.house.key(agent)}"}
        more = {"proxy_headers": shown, "headers": fields} if secured else {"headers": {**fields, **shown}}
        return {"proxy": f"http://{self.house.proxy}", **more}

    async def worker(self, place, session):
        """Asks host after host, as one agent after the other; each request says a word that its answer has to say too."""
        number = place
        while time.monotonic() < self.ends:
            agent, at = AGENTS[number % len(AGENTS)], host(number % self.hosts)
            secured = (number // self.hosts + number) % 2 == 1
            said = word(agent, at, number)
            url = f"https://{at}:{self.ports[1]}/" if secured else f"http://{at}:{self.ports[0]}/"
            body = f"{agent} says {said}" if number % 3 == 0 else None
            try:
                method = session.post if body else session.get
                async with method(f"{url}page?times={number % 40}", data=body, ssl=self.trust if secured else None,
                                  **self.proxy(agent, secured, **{"x-word": said})) as answer:
                    heard = await answer.json()
                wanted = {"word": said, "host": at, "sent": body or ""}
                if {key: heard.get(key) for key in wanted} != wanted or len(heard["text"]) != len(SENTENCE) * (number % 40):
                    self.wrong.append((agent, at, str(heard)[:200]))
                self.done["looked into" if secured else "plain"] += 1
                self.asked.add((at, secured))
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError, KeyError) as error:
                self.failed.append((agent, url, repr(error)[:200]))
            number += WORKERS

    async def socket(self, place, session):
        """One WebSocket that stays: by /ws, plain or to a secured site, or in a tunnel that is looked into. In absolute form
        aiohttp asks a proxy for `ws://`, which is no form of HTTP's."""
        agent, at, how = AGENTS[place % len(AGENTS)], host(place % self.hosts), place % 3
        low, high = SOCKET_PAUSE_S
        pause = low + (high - low) * (place % 10) / 10
        if how < 2:
            site = quote(f"{('ws', 'wss')[how]}://{at}:{self.ports[how]}/talk", safe="")
            asked = {"url": f"ws://127.0.0.1:{self.house.gateway.port}/ws?url={site}", "headers": {"authorization": f"Bearer {self.house.key(agent)}"}}
        else:
            asked = {"url": f"wss://{at}:{self.ports[1]}/talk", "ssl": self.trust, **self.proxy(agent, secured=True)}
        # They come one after the other: each is two handshakes of TLS.
        await asyncio.sleep(place * self.seconds * 0.1 / self.sockets)
        try:
            async with session.ws_connect(**asked) as made:
                self.open += 1
                number = 0
                while time.monotonic() < self.ends:
                    said = f"{agent} {word(agent, at, number)} {SENTENCE}"
                    await made.send_str(said)
                    heard = await made.receive(WAIT_S)
                    if heard.data != f"{at} heard {said}":
                        self.wrong.append((agent, at, str(heard)[:200]))
                        break
                    self.done["messages"] += 1
                    number += 1
                    await asyncio.sleep(pause)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            self.failed.append((agent, asked["url"], repr(error)[:200]))

    async def look(self):
        began = time.monotonic()
        while time.monotonic() < self.ends:
            self.holdings.look(time.monotonic() - began)
            await asyncio.sleep(1 if self.seconds > 60 else 0.2)

    async def all(self):
        self.ends = time.monotonic() + self.seconds
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=WAIT_S, sock_read=WAIT_S)
        # A connection for each socket, and few that are kept: who asks a thousand hosts leaves most of them.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=5)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            tasks = [self.worker(place, session) for place in range(WORKERS)]
            tasks += [self.socket(place, session) for place in range(self.sockets)]
            await asyncio.gather(self.look(), *tasks)

    def run(self):
        asyncio.run(self.all())
        return self

    def settled(self, descriptors, seconds):
        """What is open once all clients are gone, when it is no more than before they came, or after so long."""
        until = time.monotonic() + seconds
        while (now := len(os.listdir(f"/proc/{self.holdings.pid}/fd"))) > descriptors and time.monotonic() < until:
            time.sleep(0.2)
        return now


def settings(hosts, sockets):
    """What such a load needs of a gateway's bounds."""
    return {"agent": {"open_max": 2 * sockets + 64, "hosts_per_hour": 2 * hosts + 8}}


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
