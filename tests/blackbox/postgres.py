"""A PostgreSQL cluster of the tests' own: in a temporary folder, on a Unix socket, run by another user where the tests run as root."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

USER = "postgres"
# The role of the servers: owns its databases, and is nothing special.
ROLE = "weir_flow"


def programs():
    """Where PostgreSQL's programs are; the newest of those that are installed."""
    debian = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if debian:
        return max(debian, key=lambda path: float(path.parts[-3])).parent
    return Path(shutil.which("initdb")).resolve().parent


class Cluster:
    """One server. Without `fsync` it is quick, and loses nothing but in a power cut."""

    def __init__(self, fsync=False, settings="", files=(), port=5432):
        self.bin = programs()
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
        self.data = self.folder / "data"
        # PostgreSQL refuses to be root.
        self.other = {"user": USER} if os.getuid() == 0 else {}
        if self.other:
            shutil.chown(self.folder, USER)
        self.folder.chmod(0o755)
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nfsync = {'on' if fsync else 'off'}\n"
                       f"max_connections = 100\nshared_buffers = 32MB\n{settings}")
        for name, text in files:
            path = self.data / name
            path.write_text(text)
            path.chmod(0o600)
            if self.other:
                shutil.chown(path, USER, USER)
        self.start()
        self.sql("postgres", f"CREATE ROLE {ROLE} LOGIN", "postgres")

    def run(self, program, *arguments):
        # The server's own output goes to its log; a pipe of ours would stay open as long as it runs.
        done = subprocess.run([str(self.bin / program), *map(str, arguments)], stdout=subprocess.DEVNULL,
                              stderr=open(self.folder / "errors", "w+"), cwd=self.folder, timeout=60, **self.other)
        assert done.returncode == 0, (program, arguments, (self.folder / "errors").read_text())

    def start(self):
        self.run("pg_ctl", "-w", "-D", self.data, "-l", self.folder / "log", "start")

    def crash(self):
        """Ends it as a crash does: what was not written is recovered from the log at the next start."""
        self.run("pg_ctl", "-w", "-D", self.data, "-m", "immediate", "stop")

    def kill(self):
        """Kills the server as nothing can be refused, and starts it once its processes are gone."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while True:
            try:
                return self.start()
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def answers(self):
        """Whether it takes questions."""
        done = subprocess.run([str(self.bin / "psql"), "-h", str(self.folder), "-p", str(self.port), "-U", "postgres", "-qAtXc", "SELECT 1"],
                              capture_output=True, timeout=60)
        return done.returncode == 0

    def stop(self):
        """Ends it as an operator does."""
        self.run("pg_ctl", "-w", "-D", self.data, "-m", "fast", "stop")

    def processes(self):
        """The server and those that it started."""
        server = (self.data / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return [int(server), *map(int, children)]

    def freeze(self):
        """Stops all of it in its tracks; connections stay open and nothing answers."""
        frozen = self.processes()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        return frozen

    def thaw(self, frozen):
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

    def remove(self):
        pid = self.data / "postmaster.pid"
        if pid.exists():
            os.kill(int(pid.read_text().split()[0]), signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, database, text, role=ROLE, fails=False):
        """What psql prints, without decoration: rows a line each."""
        done = subprocess.run([str(self.bin / "psql"), "-h", str(self.folder), "-p", str(self.port), "-U", role, "-d", database, "-qAtX",
                               "-v", "ON_ERROR_STOP=1"], input=text, capture_output=True, text=True, timeout=60)
        assert (done.returncode != 0) is fails, (text, done.stdout, done.stderr)
        return done.stderr if fails else done.stdout

    def database(self, name, owner=ROLE):
        self.sql("postgres", f"CREATE DATABASE {name} OWNER {owner}", "postgres")
        return self.url(name)

    def url(self, database, role=ROLE):
        return f"postgresql://{role}@/{database}?host={self.folder}"


class Board:
    """Where one board is, as arguments: a folder, and a tenant of a database where it is not in the folder."""

    def __init__(self, folder, cluster=None, database=None, tenant=None):
        self.folder, self.cluster, self.database = folder, cluster, database
        self.tenant = tenant or f"t-{uuid.uuid4().hex[:12]}"
        self.url = cluster and cluster.url(database)

    def flags(self):
        return ["--postgres", self.url, "--tenant", self.tenant] if self.url else []

    def beside(self, name):
        """Another board on the same store."""
        return Board(self.folder.parent / name, self.cluster, self.database)

    def sql(self, text):
        return self.cluster.sql(self.database, f"SET search_path = weir_flow; SET weir.tenant = '{self.tenant}'; {text}")

    def __str__(self):
        return str(self.folder)

    def __truediv__(self, name):
        return self.folder / name
