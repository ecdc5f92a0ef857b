"""Starts the real binary on port 0 with a configuration of a test's own, and speaks plain HTTP to it.

It waits for states by polling with a deadline, never by sleeping for a guess.
"""

import base64
import hashlib
import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WEIR = Path(os.environ.get("WEIR_BIN", ROOT / "target/debug/weir"))
SERVERS = Path(__file__).parent / "servers"
NODE_BIN = ROOT / ".setup/node/node_modules/.bin"
LEGACY_PYTHON = ROOT / ".setup/venv-legacy/bin/python"
WAIT_S = 20
ACCEPT = "application/json, text/event-stream"
LISTENING = re.compile(r"(?:listening on http://|\"address\":\s*\")([0-9.]+):(\d+)")


def until(condition, what, seconds=WAIT_S):
    """The first truthy value of a condition, polled; fails after a deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def new_key(seed):
    """A key and its hash, made from a text so that a test repeats."""
    raw = hashlib.sha256(f"weir tests {seed}".encode()).digest()
    key = "weir_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return key, "sha256:" + hashlib.sha256(key.encode()).hexdigest()


class Lines:
    """The lines of a stream, read by a thread so that the writer never waits."""

    def __init__(self, stream):
        self.all, self.new = [], queue.Queue()
        threading.Thread(target=self.read, args=(stream,), daemon=True).start()

    def read(self, stream):
        for raw in stream:
            line = raw.decode(errors="replace").rstrip()
            self.all.append(line)
            self.new.put(line)
        self.new.put(None)

    def text(self):
        return "\n".join(self.all)


class Origin:
    """A web server of the tests, as a process of its own; by default the misbehaving one."""

    def __init__(self, port=0, program="web.py"):
        command = [sys.executable, str(SERVERS / program), str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[-1])
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def seen(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request("GET", "/seen")
        return json.loads(connection.getresponse().read())

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def child_server():
    return {"command": [sys.executable, str(SERVERS / "child.py")]}


def filesystem(*folders):
    path = os.environ["PATH"]
    command = [str(NODE_BIN / "mcp-server-filesystem"), *map(str, folders)]
    return {"command": command, "env": {"PATH": path}}


def everything():
    command = [str(NODE_BIN / "mcp-server-everything"), "stdio"]
    return {"command": command, "env": {"PATH": os.environ["PATH"]}}


class Answer:
    """An HTTP answer, read whole."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self):
        return json.loads(self.body)

    def messages(self):
        """The JSON-RPC messages of the answer, of one JSON body or of an event stream."""
        if "text/event-stream" not in self.headers.get("content-type", ""):
            return [self.json()]
        data = [line[5:].strip() for line in self.body.decode().splitlines() if line.startswith("data:")]
        return [json.loads(text) for text in data if text]

    def refusal(self):
        """The refusal's (code, text, call id): of a problem (RFC 9457) or of a JSON-RPC error."""
        body = self.messages()[-1] if self.body else {}
        if isinstance(body.get("error"), dict):
            error = body["error"]
            data = error.get("data") or {}
            return data.get("code"), error.get("message", ""), data.get("call")
        return body.get("code"), f"{body.get('title', '')}. {body.get('detail', '')}", body.get("call")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Sockets:
    """What /proc says of a process's TCP sockets that were accepted: their states, by the client's address."""

    LISTENS, OPEN, CLOSE_WAIT = "0A", "01", "08"

    def __init__(self, pid):
        own = set()
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            try:
                own.add(os.readlink(descriptor.path))
            except FileNotFoundError:
                pass
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        # A row: number, own address, the other's, state, bytes to send and to read, …, inode.
        rows = [row for row in rows if f"socket:[{row[9]}]" in own]
        ports = {row[1].split(":")[1] for row in rows if row[3] == self.LISTENS}
        self.accepted = [row for row in rows if row[3] != self.LISTENS and row[1].split(":")[1] in ports]
        self.all = sum(link.startswith("socket:") for link in own)

    def left(self):
        """Those whose client closed them."""
        return [row for row in self.accepted if row[3] == self.CLOSE_WAIT]

    def unwritten(self):
        """Those that hold bytes which their client does not take."""
        return [row for row in self.accepted if row[4].split(":")[0] != "00000000"]


class Gateway:
    """One gateway in a folder of its own. Use it as a context."""

    def __init__(self, folder, mcp, agents=None, policy=None, durability="os", **settings):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keys = {}
        agents = agents or {"dev": {"groups": ["engineers"]}}
        entries = {}
        for name, more in agents.items():
            self.keys[name], digest = new_key(name)
            entries[name] = {"key": digest, **more}
        # A gateway whose log failed or is full says so when it ends, with 2.
        self.exit_code = 0
        self.state = self.folder / "state"
        self.port = 0
        config = {
            "listen": "127.0.0.1:0", "state": "state", "agents": entries, "mcp": mcp,
            "policy": settings.pop("policy_setting", "policy.cedar"),
            "logs": {"format": "json", "level": "info"},
            "log": {"durability": durability, **settings.pop("log", {})},
            "limits": {"agent_per_minute": 1_000_000, "strangers_per_minute": 1_000_000,
                       **settings.pop("limits", {})},
            **settings,
        }
        (self.folder / "policy.cedar").write_text(policy or PERMIT_ALL)
        # JSON is YAML.
        (self.folder / "weir.yaml").write_text(json.dumps(config, indent=1))
        self.process = None
        # What it prints at its first start goes nowhere.
        self.stdout = subprocess.DEVNULL

    def __enter__(self):
        return self.start()

    def start(self):
        self.process = subprocess.Popen([str(WEIR), "serve", "-c", "weir.yaml"], cwd=self.folder,
                                        stderr=subprocess.PIPE, stdout=self.stdout)
        self.logs = Lines(self.process.stderr)
        deadline = time.monotonic() + WAIT_S
        while True:
            line = self.logs.new.get(timeout=max(0.1, deadline - time.monotonic()))
            assert line is not None, f"the gateway ended:\n{self.logs.text()}"
            found = LISTENING.search(line)
            if found and "listening" in line:
                self.port = int(found[2])
                return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Drains; the exit code has to be the expected one. No socket is left of a client that is gone."""
        if self.process.poll() is None:
            until(lambda: not self.sockets_left(), "sockets of clients that are gone are closed", 2)
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"SIGTERM did not end the gateway:\n{self.logs.text()}")
        assert code == self.exit_code, f"exit code {code}:\n{self.logs.text()}"
        assert "panicked" not in self.logs.text(), self.logs.text()

    def sockets_left(self):
        try:
            return Sockets(self.process.pid).left()
        except (FileNotFoundError, PermissionError):
            return []  # It ended.

    def kill(self):
        self.process.kill()
        self.process.wait()

    def url(self, server):
        return f"http://127.0.0.1:{self.port}/mcp/{server}"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(self, method, path, body=None, headers=None, connection=None):
        connection = connection or self.connect()
        connection.request(method, path, body=body, headers=headers or {})
        return Answer(connection.getresponse())

    def operator(self, path, method="GET", headers=None):
        """A page of the operator, from the socket in the state folder."""
        return self.request(method, path, headers=headers, connection=UnixConnection(self.state / "admin.sock"))

    def headers(self, agent="dev", **more):
        headers = {"content-type": "application/json", "accept": ACCEPT}
        if agent:
            headers["authorization"] = f"Bearer {self.keys[agent]}"
        return {**headers, **{name.replace("_", "-"): value for name, value in more.items()}}

    def post(self, server, message, agent="dev", connection=None, **headers):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.request("POST", f"/mcp/{server}".rstrip("/"), body, self.headers(agent, **headers), connection)

    def session(self, server, agent="dev"):
        return Session(self, server, agent)

    def rss_peak_kb(self):
        """The most memory that it had, without the pages of its program's file, which grow with the program and are the system's to take."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        peak, file = (int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("VmHWM", "RssFile"))
        return peak - file

    def weir(self, *arguments, check=True):
        done = subprocess.run([str(WEIR), *map(str, arguments)], cwd=self.folder, capture_output=True,
                              text=True, timeout=120)
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def verify(self):
        return self.weir("audit", "verify", "state")

    def records(self):
        shown = self.weir("audit", "show", "state", "--json").stdout
        return [json.loads(line) for line in shown.splitlines() if line.strip()]


class Session:
    """A raw MCP session: initialized, with its id."""

    def __init__(self, gateway, server, agent):
        self.gateway, self.server, self.agent = gateway, server, agent
        self.ids = 1
        params = {"protocolVersion": "2025-11-25", "capabilities": {},
                  "clientInfo": {"name": "blackbox", "version": "1"}}
        first = gateway.post(server, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, agent)
        assert first.status == 200, (first.status, first.body)
        assert "result" in first.messages()[-1], first.body
        self.extra = {"mcp_protocol_version": "2025-11-25"}
        if "mcp-session-id" in first.headers:
            self.extra["mcp_session_id"] = first.headers["mcp-session-id"]
        told = gateway.post(server, {"jsonrpc": "2.0", "method": "notifications/initialized"}, agent, **self.extra)
        assert told.status == 202, (told.status, told.body)

    def ask(self, method, params, **more):
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        self.ids += 1
        return self.gateway.post(self.server, message, self.agent, **{**self.extra, **more})

    def call(self, tool, text="", **more):
        return self.ask("tools/call", {"name": tool, "arguments": {"text": text}}, **more)


PERMIT_ALL = "permit (principal, action, resource);\n"
