"""A store of the tests' own in PostgreSQL, and gateways that share it."""

import json
import subprocess
import uuid

from gateway import WEIR
from identity import Identities

USER = "weir_user"
OWNER = "weir_owner"
PASSPHRASE = "correct horse battery staple"


class Store:
    """A database with two roles: one that owns it, and one as which gateways connect."""

    def __init__(self, cluster, name=None):
        self.cluster, self.name = cluster, name or f"s{uuid.uuid4().hex[:12]}"
        roles = cluster.sql("postgres", "SELECT rolname FROM pg_roles", "postgres").split()
        for role in (USER, OWNER):
            if role not in roles:
                cluster.sql("postgres", f"CREATE ROLE {role} LOGIN", "postgres")
        cluster.sql("postgres", f"CREATE DATABASE {self.name} OWNER {OWNER}", "postgres")

    @property
    def url(self):
        return self.cluster.url(self.name, USER)

    @property
    def owner(self):
        return self.cluster.url(self.name, OWNER)

    def sql(self, text, role=OWNER, fails=False):
        return self.cluster.sql(self.name, text, role, fails)

    def number(self, text):
        return int(self.sql(text).strip() or 0)


class Replica(Identities):
    """A gateway of one thread with a state folder of its own, and a name in a store."""

    def __init__(self, folder, mcp, store, name, outage_max=60, **settings):
        self.store, self.name = store, name
        # Synced with each judgement, so that it is shipped at once.
        settings = {"threads": 1, "durability": "fsync", **settings}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "url").write_text(store.url)
        (folder / "owner").write_text(store.owner)
        (folder / "store.pass").write_text(PASSPHRASE)
        super().__init__(folder, mcp, store={"postgres": "file:url", "passphrase": "file:store.pass", "outage_max": outage_max},
                         replica=name, **settings)

    def migrate(self):
        return self.weir("store", "migrate", "--owner", "file:owner")

    def bring_in(self, *more, check=True):
        return self.weir("store", "import", "--owner", "file:owner", *more, check=check)

    def refused_start(self):
        """What a start says that is refused."""
        done = subprocess.run([str(WEIR), "serve", "-c", "weir.yaml"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "listening" not in done.stderr, (done.stdout, done.stderr)
        return done.stderr

    def ready(self):
        answer = self.operator("/health/ready")
        return answer.status, answer.json()

    def caught_up(self):
        return self.ready()[1]["store"]["behind"] == 0

    def call(self, agent="dev", tool="echo"):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"text": "hello"}}}
        return self.post("web", message, agent)

    def stored(self, *flags):
        shown = self.weir("audit", "show", "--store", "--json", *flags, check=False).stdout
        return [json.loads(line) for line in shown.splitlines()]
