"""`make certify-mcp`: what the gateway judges is what real servers carry out. A few minutes; it needs Go.

The messages are those of tests/blackbox/test_caseless.py, which say one thing to a reader that knows a member's name in
one spelling and another to a reader without regard to case. The servers are made with mcp-go, with the official SDK for
Go of today and of before it minded case, and with the official SDKs for TypeScript and Python.

Each message is first sent to the server itself: what it runs then is written beside the check. Then it is sent through
the gateway, by an agent that may only call `echo`: it has to be refused, and nothing of it may reach the server. The
honest messages have to pass, and do what they do without the gateway. At least one of the servers has to run the
forbidden tool when it is asked by itself, or the messages show nothing.

It prints a line for each message and server, writes target/bench/certify_mcp/certify.json and ends with 1 when anything
failed.
"""

import argparse
import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "bench/certify_mcp"
WORK = ROOT / "target/bench/certify_mcp"
# Some servers answer nothing to a message that they cannot read; some end.
ANSWER_S, START_S = 1, 20
# What passes and ought to have been refused may never be answered: the gateway is not to wait its whole minute.
LIMITS = {"answer_ms": 5000}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True, help="the binary to certify")
    parser.add_argument("--server", action="append", help="only this server; may be given more than once")
    return parser.parse_args()


options = parse_options()
# The black-box tests' tools take the binary from the environment.
os.environ["WEIR_BIN"] = str(options.weir.resolve())
sys.path.insert(0, str(ROOT / "tests/blackbox"))

import test_caseless as caseless  # noqa: E402
from checks import Table  # noqa: E402
from gateway import Gateway, Lines  # noqa: E402
from servers.caseless import SCHEMA  # noqa: E402


def go(package, modules="go.mod"):
    """Builds a server in Go; gives its program."""
    program = WORK / f"{package}-{Path(modules).stem}"
    command = ["go", "build", f"-modfile={modules}", "-o", str(program), f"./{package}"]
    subprocess.run(command, cwd=HERE / "go", check=True)
    return [str(program)]


def servers():
    """Each server's name, and what gives its program and the arguments that follow the file and the schema."""
    node = shutil.which("node")
    return {
        "mcp-go": lambda: (go("mcpgo"), []),
        "go-sdk": lambda: (go("gosdk"), []),
        "go-sdk 1.2": lambda: (go("gosdk", "old.mod"), []),
        "ts-sdk": lambda: ([node, str(HERE / "sdk.mjs")], [str(ROOT / ".setup/node/package.json")]),
        "python-sdk": lambda: ([sys.executable, str(HERE / "sdk.py")], []),
    }


class Alone:
    """A server without the gateway, started again where a message ended it."""

    def __init__(self, command, file):
        self.command, self.file = command, file
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.lines, self.ids = Lines(self.process.stdout), 1000
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "alone", "version": "1"}}
        assert self.ask("initialize", params, START_S), f"{self.command} does not answer"
        self.send(caseless.message('"method":"notifications/initialized"'))

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        # A pipe to a process that ended may hold a line that nobody takes.
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def send(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, ids, seconds):
        """The answer with one of these ids, or nothing: in time, or at all."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                line = self.lines.new.get(timeout=left)
            except queue.Empty:
                return None
            if line is None:
                return None
            answer = json.loads(line)
            if answer.get("id") in ids and "method" not in answer:
                return answer
        return None

    def ask(self, method, params, seconds=ANSWER_S):
        self.ids += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}))
        return self.answer({self.ids}, seconds)

    def post(self, text):
        """The answer to a message, and what the server ran."""
        before = len(self.file.read_text().splitlines()) if self.file.exists() else 0
        answer = None
        try:
            self.send(text)
            asked = json.loads(text)
            if any(name.lower() == "id" for name in asked):
                answer = self.answer({7, 8, None}, ANSWER_S)
            alive = self.ask("ping", {})
        except OSError:
            alive = None
        if not alive:
            self.stop()
            self.start()
        ran = self.file.read_text().splitlines()[before:] if self.file.exists() else []
        return answer, [json.loads(line) for line in ran], bool(alive)


def told(answer, ran, alive):
    """What a server did by itself, in a few words."""
    if ran:
        shown = {field: ran[-1]["arguments"].get(field) for field in ("text", "path")}
        return f"runs {ran[-1]['ran']} {json.dumps({field: value for field, value in shown.items() if value})}"
    if not alive:
        return "ends"
    if answer is None:
        return "says nothing"
    return "says an error" if "error" in answer else "answers"


def certify(name, make, table):
    """Returns how often the server ran the forbidden tool when it was asked by itself."""
    folder = WORK / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program, more = make()
    arguments = [json.dumps(SCHEMA), *more]
    alone = Alone([*program, str(folder / "alone"), *arguments], folder / "alone")
    messages = {**caseless.CASES, **caseless.HONEST}
    by_itself = {what: alone.post(text) for what, text in messages.items()}
    alone.stop()

    file = folder / "ran"
    wired = [sys.executable, "-I", str(HERE / "wire.py"), str(file), *program, str(file), *arguments]
    with Gateway(folder / "weir", {"caseless": {"command": wired}}, policy=caseless.POLICY, limits=LIMITS) as gateway:
        server = caseless.Server(gateway, file)
        for what, text in messages.items():
            did = told(*by_itself[what])
            try:
                answer, logged = server.post(text)
            except AssertionError:
                table.add(f"{name}: {what}", False, f"the session ends, alone {did}")
                server = caseless.Server(gateway, file)
                continue
            code = caseless.refusal_of(answer)
            if what in caseless.CASES:
                ok = code and not code.startswith("scan.") and not logged
                table.add(f"{name}: {what}", ok, f"{code or answer.status}, alone {did}", reached=logged)
            else:
                ran = [line for line in logged if "ran" in line]
                same = answer.status == 202 or answer.messages()[-1] == by_itself[what][0]
                table.add(f"{name}: {what}", same and ran == by_itself[what][1] and not code,
                          f"{code or 'passes'}, alone {did}", reached=logged)
    return sum(any(line["ran"] == "forbidden" for line in ran) for _, ran, _ in by_itself.values())


def main():
    if not shutil.which("go"):
        sys.exit("certify-mcp needs Go 1.25 or newer")
    WORK.mkdir(parents=True, exist_ok=True)
    started, table = time.monotonic(), Table(WORK / "certify.json")
    forbidden = {name: certify(name, make, table) for name, make in servers().items()
                 if not options.server or name in options.server}
    if not options.server:
        table.add("messages that a server alone takes for `forbidden`", max(forbidden.values()) > 0,
                  ", ".join(f"{name} {count}" for name, count in forbidden.items()))
    sys.exit(table.write(time.monotonic() - started))


main()
