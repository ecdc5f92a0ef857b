"""Work tracking on PostgreSQL: what is refused at the start, tenants, servers that share a database, one of them or the database
killed, and containment as PostgreSQL has it."""

import asyncio
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from flow_crowd import Crowd, Session, database_killer, told
from gateway import WEIR, Gateway, until
from postgres import ROLE, Board, Cluster
from test_code import ask, refused
from test_flow import POLICY, Http, flow, over_stdio, titles_of

PAIRS = int(os.environ.get("WEIR_FLOW_PAIRS", "5000"))
AGENTS = int(os.environ.get("WEIR_FLOW_AGENTS", "50"))
# Of the agents, those that count together.
COUNTERS = 10
BACK_S = 10
KILLS = int(os.environ.get("WEIR_FLOW_KILLS", "4"))
# Where tables have no statistics, walks through all of them took seconds.
QUICK_S = 1.5
TABLES = ["objects", "edges", "facts", "words", "events", "keys"]


def refusal(folder, *flags):
    """What a server says that does not want to begin, and a command at a terminal."""

    async def script():
        async with over_stdio(folder, *flags) as client:
            return await refused(client, "project", action="list")

    said = asyncio.run(script())
    done = subprocess.run([str(WEIR), "flow", "board", "--data", str(folder), *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done
    assert done.stderr.splitlines()[0].removeprefix("error: ") in said, (done.stderr, said)
    return said


def test_a_role_that_may_bypass_row_security_is_refused(tmp_path, cluster):
    cluster.database("refusals", "postgres")
    cluster.sql("postgres", f"CREATE ROLE seer LOGIN BYPASSRLS; CREATE ROLE heir LOGIN IN ROLE seer; GRANT {ROLE} TO heir",
                "postgres")
    for role in ["postgres", "seer", "heir"]:
        said = refusal(tmp_path / role, "--postgres", cluster.url("refusals", role))
        assert "mighty_role" in said and "may bypass row-level security" in said, said
    assert cluster.sql("refusals", "SELECT count(*) FROM pg_namespace WHERE nspname = 'weir_flow'") == "0\n"


def test_databases_of_others_and_of_other_versions_are_refused(tmp_path, cluster):
    url = cluster.database("versions")
    cluster.sql("versions", "CREATE TABLE public.tasks(id INTEGER)")
    assert "another program" in refusal(tmp_path / "a", "--postgres", url)
    cluster.sql("versions", "DROP TABLE public.tasks")
    board = Board(tmp_path / "b", cluster, "versions", "default")
    flow(board, "add", "kept", "--project", "P")
    board.sql("UPDATE about SET version = 99")
    said = refusal(tmp_path / "c", "--postgres", url)
    assert "newer_database" in said and "version 99" in said, said
    assert "version 99" in flow(board, "migrate", code=2)
    board.sql("UPDATE about SET version = 0")
    assert "weir flow migrate" in refusal(tmp_path / "d", "--postgres", url)
    board.sql("UPDATE about SET version = 1; ALTER TABLE objects NO FORCE ROW LEVEL SECURITY")
    assert "open_tables" in refusal(tmp_path / "e", "--postgres", url)
    assert flow(board, "migrate").strip().endswith("version 1")
    board.sql("CREATE POLICY all_of_them ON events USING (true)")
    assert "open_tables" in refusal(tmp_path / "f", "--postgres", url)
    board.sql("DROP POLICY all_of_them ON events")
    assert "kept" in flow(board, "board")
    board.sql("UPDATE about SET application = 'something else'")
    assert "another program" in refusal(tmp_path / "g", "--postgres", url)


def test_servers_that_begin_at_once_make_the_tables_once(tmp_path, cluster):
    """An empty database to which many come at the same moment: none takes what another one makes for another program's."""
    for number in range(3):
        cluster.database(f"new{number}")
        with ThreadPoolExecutor(6) as pool:
            boards = [Board(tmp_path / f"{number}-{one}", cluster, f"new{number}", f"t{one}") for one in range(6)]
            list(pool.map(lambda board: flow(board, "add", "one", "--project", "P"), boards))


def test_a_server_that_serves_is_told_of_a_newer_version(tmp_path, cluster):
    cluster.database("changing")
    board = Board(tmp_path / "flow", cluster, "changing")
    with Http(board) as server:
        session = Session(server)
        session.ask("project", action="create", name="P")
        board.sql("UPDATE about SET version = 2")
        _, error = session.call("work_item_create", title="t")
        assert error["code"] == "newer_database", error
        board.sql("UPDATE about SET version = 1")
        session.ask("work_item_create", title="t")


def test_a_url_with_a_password_is_not_taken(tmp_path, cluster):
    url = cluster.url("flow").replace(f"{ROLE}@", f"{ROLE}:hunter2@")
    secret = tmp_path / "url"
    secret.write_text(url + "\n")
    done = subprocess.run([str(WEIR), "flow", "board", "--postgres", url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "env:NAME" in done.stderr and "hunter2" not in done.stderr, done
    for mode in ["prefer", "allow"]:
        done = subprocess.run([str(WEIR), "flow", "board", "--postgres", f"{url.split('?')[0]}?sslmode={mode}".replace(":hunter2", "")],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, done
    # A reference is.
    board = Board(tmp_path / "flow", cluster, "flow")
    board.url = f"file:{secret}"
    flow(board, "add", "one", "--project", "P")
    config = {"listen": "127.0.0.1:0", "state": "state", "agents": {}, "mcp": {}, "tools": {"flow": {"store": {"postgres": url}}}}
    (tmp_path / "weir.yaml").write_text(json.dumps(config))
    done = subprocess.run([str(WEIR), "config", "check", "-c", "weir.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "tools.flow.store.postgres" in said and "env:NAME" in said and "hunter2" not in said, said


def test_behind_the_gate(tmp_path, cluster, monkeypatch):
    board = Board(tmp_path / "flow", cluster, "flow")
    monkeypatch.setenv("FLOW_URL", board.url.replace(f"{ROLE}@", f"{ROLE}:hunter2@"))
    tools = {"flow": {"store": {"postgres": "env:FLOW_URL", "tenant": board.tenant}}}
    with Gateway(tmp_path / "weir", {}, agents={"dev": {"groups": ["engineers"]}}, policy=POLICY, tools=tools) as gateway:
        async def script():
            headers = {"authorization": f"Bearer {gateway.keys['dev']}"}
            async with httpx2.AsyncClient(headers=headers, timeout=60) as web:
                async with Client(streamable_http_client(gateway.url("flow"), http_client=web)) as client:
                    await ask(client, "project", action="create", name="P")
                    return await ask(client, "work_item_create", project="P", title="through the gate")

        made = asyncio.run(script())
        assert made["item"]["created_by"] == "dev"
        lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert not any(b"hunter2" in line for line in lines)
        assert "hunter2" not in gateway.logs.text()
        gateway.verify()
    assert "through the gate" in flow(board, "board")
    assert not (tmp_path / "weir/state/tools/flow/flow.db").exists()


def certificates(folder):
    """A root and a certificate of `localhost` by it, by OpenSSL: the paths of the root, and the texts of the certificate and its key."""
    def openssl(*arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "root.key", "-out", "root.pem", "-subj", "/CN=root", "-days", "2")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName = DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", "-out", "server.pem",
            "-days", "2", "-extfile", "names")
    return folder / "root.pem", (folder / "server.pem").read_text(), (folder / "server.key").read_text()


def test_a_network_is_crossed_with_tls_and_the_name_is_checked(tmp_path):
    root, certificate, key = certificates(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = f"listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\npassword_encryption = 'scram-sha-256'\n"
    rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
    own = Cluster(settings=settings, files=[("server.crt", certificate), ("server.key", key), ("pg_hba.conf", rules)],
                  port=port)
    try:
        own.database("flow")
        own.sql("postgres", f"ALTER ROLE {ROLE} PASSWORD 'hunter2'", "postgres")

        def board(host, more="", password="hunter2"):
            url = tmp_path / "url"
            url.write_text(f"postgresql://{ROLE}:{password}@{host}:{port}/flow{more}")
            one = Board(tmp_path / "flow", own, "flow")
            one.url = f"file:{url}"
            return one

        trusting = f"?sslrootcert={root}"
        good = board("localhost", trusting)
        flow(good, "add", "over TLS", "--project", "P")
        with Http(good) as server:
            assert Session(server).ask("work_item_query")["items"][0]["title"] == "over TLS"
        for host, more, password, why in [
            ("localhost", "", "hunter2", "UnknownIssuer"),
            ("127.0.0.1", trusting, "hunter2", "not valid for name"),
            ("localhost", "?sslmode=disable", "hunter2", "no encryption"),
            ("localhost", trusting, "hunter3", "password authentication failed"),
        ]:
            said = flow(board(host, more, password), "board", code=2)
            assert "cannot be reached" in said and why in said and password not in said, (host, more, said)
    finally:
        own.remove()


def test_the_owner_of_the_tables_may_be_another(tmp_path, cluster):
    cluster.sql("postgres", "CREATE ROLE keeper LOGIN", "postgres")
    cluster.database("owned", "keeper")
    url = cluster.url("owned")
    # The role of the servers may make nothing there.
    assert "weir flow migrate --grant" in refusal(tmp_path / "a", "--postgres", url)
    board = Board(tmp_path / "b", cluster, "owned")
    keeper = Board(tmp_path / "c", cluster, "owned")
    keeper.url = cluster.url("owned", "keeper")
    assert flow(keeper, "migrate", "--grant", ROLE).strip().endswith("version 1")
    assert "no_such_role" in flow(keeper, "migrate", "--grant", "no_such_role", code=2)
    flow(board, "add", "one", "--project", "P")
    assert "one" in flow(board, "board")
    board.cluster.sql("owned", "ALTER TABLE weir_flow.objects DISABLE ROW LEVEL SECURITY", fails=True)
    # Nor does the owner see what is a tenant's.
    assert cluster.sql("owned", "SELECT count(*) FROM weir_flow.objects", "keeper") == "0\n"


def test_tenants_are_apart(tmp_path, cluster):
    one, two = (Board(tmp_path / name, cluster, "flow") for name in ("one", "two"))
    canary = "cormorant"
    for board, word in [(one, canary), (two, "heron")]:
        flow(board, "add", f"feed the {word}", "--project", f"Birds of {word}", "--description", word)

    async def script(board):
        said = []
        async with over_stdio(board) as client:
            project = (await ask(client, "project", action="list"))["projects"][0]["id"]
            await ask(client, "entity_type", action="register", name="box", schema={"type": "object"}, project=project)
            for tool, arguments in [
                ("project", {"action": "list"}), ("work_item_query", {}), ("work_item_get", {"id": "#1"}),
                ("search", {"query": "feed"}), ("search", {"query": canary}), ("status", {"format": "markdown"}),
                ("history", {"limit": 100, "full": True}), ("next_work", {}), ("entity_query", {"type": "box"}),
                ("claim", {}),
            ]:
                said.append(await ask(client, tool, **arguments, **({} if tool == "project" else {"project": project})))
            for resource in (await client.list_resources()).resources:
                said.append((await client.read_resource(str(resource.uri))).contents[0].text)
            # Ids of the other's are unknown.
            other = json.loads(flow(one, "log", "--json"))["events"][0]["id"]
            said.append(await refused(client, "work_item_get", id=other, project=project))
        return json.dumps(said)

    async def more(board):
        async with over_stdio(board) as client:
            project = (await ask(client, "project", action="list"))["projects"][0]["id"]
            await ask(client, "work_item_create", title="tagged", tags=[canary], project=project)
            await ask(client, "entity_type", action="register", name="box", schema={"type": "object"}, project=project)
            await ask(client, "entity_write", action="create", type="box", name=canary, data={"bird": canary}, project=project)

    asyncio.run(more(one))
    seen = asyncio.run(script(two))
    assert "heron" in seen and canary not in seen, seen
    assert canary not in flow(two, "export") and canary in flow(one, "export")
    for table in TABLES:
        count = f"SELECT count(*) FROM weir_flow.{table}"
        assert cluster.sql("flow", count) == "0\n", table
        ids = one.sql(f"SELECT string_agg(DISTINCT tenant_id, ',') FROM {table}").strip()
        assert ids in (one.tenant, ""), (table, ids)
        assert int(one.sql(f"SELECT count(*) FROM {table}")) > 0, table
        # By SQL as the servers' role: what is another's cannot be seen, changed, deleted, made or given away.
        theirs = f"WHERE tenant_id = '{one.tenant}'"
        assert two.sql(f"SELECT count(*) FROM {table} {theirs}") == "0\n"
        assert two.sql(f"WITH gone AS (DELETE FROM {table} {theirs} RETURNING 1) SELECT count(*) FROM gone") == "0\n"
        assert two.sql(f"WITH changed AS (UPDATE {table} SET tenant_id = '{two.tenant}' {theirs} RETURNING 1) SELECT count(*) FROM changed") == "0\n"
        if int(two.sql(f"SELECT count(*) FROM {table}")) > 0:
            given = cluster.sql("flow", f"SET search_path = weir_flow; SET weir.tenant = '{two.tenant}'; "
                                f"UPDATE {table} SET tenant_id = '{one.tenant}'", fails=True)
            assert "row-level security" in given, given
    flow(one, "log", "--check")


def test_two_servers_share_a_database_and_one_is_killed(tmp_path, cluster):
    """Each acknowledged write is there, once, whichever server took it; the other goes on at once."""
    first, second = (Board(tmp_path / name, cluster, "flow", "shared-by-two") for name in ("first", "second"))
    acknowledged, longest = [], [0.0]
    stop = threading.Event()
    with Http(first) as one, Http(second) as other:
        Session(one).ask("project", action="create", name="P")

        def write(server, name):
            session, count = Session(server), 0
            while not stop.is_set():
                count += 1
                began = time.monotonic()
                try:
                    _, error = session.call("work_item_create", title=f"{name}/{count}", project="P")
                except (OSError, http.client.HTTPException):
                    return  # It was killed.
                assert error is None, error
                acknowledged.append(f"{name}/{count}")
                if server is other:
                    longest[0] = max(longest[0], time.monotonic() - began)

        with ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(write, server, f"{name}{number}")
                       for server, name in ((one, "one"), (other, "other")) for number in range(4)]
            until(lambda: len(acknowledged) > 150, "writes", 30)
            os.kill(one.process.pid, signal.SIGKILL)
            before = len(acknowledged)
            until(lambda: len(acknowledged) > before + 100, "writes of the one that is left", 10)
            stop.set()
            for writer in writers:
                writer.result()
    assert longest[0] < 2, longest
    titles = titles_of(second)
    assert len(titles) == len(set(titles)), "one was written twice"
    assert not set(acknowledged) - set(titles), sorted(set(acknowledged) - set(titles))[:5]
    assert "byte for byte" in flow(second, "log", "--check")


def test_a_database_that_crashes_is_told_and_loses_nothing(tmp_path):
    """While PostgreSQL is gone every call says so and when to ask again; nothing is invented, and nothing acknowledged is lost."""
    own = Cluster()
    try:
        own.database("flow")
        board = Board(tmp_path / "flow", own, "flow")
        acknowledged, refusals, stop = [], [], threading.Event()
        with Http(board) as server:
            Session(server).ask("project", action="create", name="P")

            def work(number):
                session, count = Session(server), 0
                while not stop.is_set():
                    count += 1
                    title = f"{number}/{count}"
                    for tool, arguments in [("work_item_create", {"title": title}), ("work_item_query", {"limit": 1})]:
                        answer, error = session.call(tool, project="P", **arguments)
                        if error:
                            refusals.append((tool, title, error))
                            time.sleep(0.05)
                        elif tool == "work_item_create":
                            acknowledged.append(title)
                        else:
                            assert answer["items"], "an empty board was invented"

            with ThreadPoolExecutor(6) as pool:
                workers = [pool.submit(work, number) for number in range(6)]
                until(lambda: len(acknowledged) > 50, "writes", 30)
                own.crash()
                until(lambda: len({tool for tool, _, _ in refusals}) == 2, "both reads and writes are refused", 10)
                own.start()
                began, before = time.monotonic(), len(acknowledged)
                until(lambda: len(acknowledged) > before + 20, "it is back", BACK_S)
                assert time.monotonic() - began < BACK_S
                stop.set()
                for worker in workers:
                    worker.result()
        for _, _, error in refusals:
            assert error["code"] == "unavailable" and error["data"]["retry_after_ms"] > 0, error
            assert "ask again in" in error["message"], error
        titles = titles_of(board)
        assert not set(acknowledged) - set(titles), "an acknowledged write is lost"
        said = {title for tool, title, error in refusals
                if tool == "work_item_create" and error["message"].startswith("nothing was written")}
        assert not said & set(titles), "what was not written is there"
        assert "byte for byte" in flow(board, "log", "--check")
    finally:
        own.remove()


def test_a_server_that_begins_before_its_database_goes_on_when_it_is_there(tmp_path):
    own = Cluster()
    try:
        own.database("flow")
        own.crash()
        board = Board(tmp_path / "flow", own, "flow")
        with Http(board) as server:
            session = Session(server)
            _, error = session.call("project", action="list")
            assert error["code"] == "unavailable", error
            own.start()
            until(lambda: session.call("project", action="create", name="P")[1] is None, "it is there", BACK_S)
    finally:
        own.remove()


def test_fifty_agents(tmp_path, cluster):
    """Over two servers: no task is taken twice, no update is lost, and versions rise by one."""
    boards = [Board(tmp_path / name, cluster, "flow", "crowd") for name in ("a", "b")]
    tasks = 2 * AGENTS
    with Http(boards[0]) as one, Http(boards[1]) as two:
        first = Session(one)
        first.ask("project", action="create", name="P")
        for number in range(tasks):
            first.ask("work_item_create", title=f"task {number}", project="P")
        counter = first.ask("work_item_create", title="counter", project="P", type="session")["item"]["id"]

        def agent(number):
            session, mine = Session([one, two][number % 2]), []
            while True:
                taken = session.ask("claim", project="P")
                if "item" not in taken:
                    break
                item = taken["item"]
                session.ask("work_item_update", project="P", id=item["id"], version=item["version"],
                            lease_token=taken["token"], status="completed")
                mine.append(item["id"])
            while number < COUNTERS:
                item = session.ask("work_item_get", project="P", id=counter)["item"]
                count = item.get("metadata", {}).get("count", 0)
                _, error = session.call("work_item_update", project="P", id=counter, version=item["version"],
                                        metadata={"count": count + 1})
                if not error:
                    break
                assert error["code"] == "conflict", error
            return mine

        with ThreadPoolExecutor(AGENTS) as pool:
            every = [one for ids in pool.map(agent, range(AGENTS)) for one in ids]
        assert len(every) == tasks and len(set(every)) == tasks
        item = Session(one).ask("work_item_get", project="P", id=counter)["item"]
        assert (item["metadata"]["count"], item["version"]) == (COUNTERS, COUNTERS + 1)
    skipped = """SELECT count(*) FROM (SELECT version - lag(version, 1, 0::BIGINT) OVER (PARTITION BY id ORDER BY seq) AS step
        FROM events) s WHERE step <> 1"""
    assert boards[0].sql(skipped) == "0\n"
    gaps = "SELECT max(seq) - count(*) FROM events"
    assert boards[0].sql(gaps) == "0\n"
    assert "byte for byte" in flow(boards[0], "log", "--check")


@pytest.mark.parametrize("fsync", [True, False])
def test_what_is_killed_loses_nothing(tmp_path, fsync):
    """Servers, the process of PostgreSQL that writes, and all of PostgreSQL: at points by chance, with and without `fsync`."""
    own = Cluster(fsync=fsync)
    try:
        own.database("flow")
        crowd = Crowd([Board(tmp_path / name, own, "flow", "crowd") for name in ("a", "b")])
        try:
            crowd.play(8, 60, database_killer(crowd, own), KILLS)
        finally:
            crowd.end()
        holds = crowd.check()
        assert all(holds.values()), holds
        assert max(crowd.gaps) < BACK_S, crowd.gaps
        assert crowd.made and crowd.taken and crowd.counted
    finally:
        own.remove()


def test_reads_are_quick_before_there_are_statistics(tmp_path):
    """PostgreSQL counts its rows a minute after they came; what is asked before that must not depend on it."""
    own = Cluster(settings="autovacuum = off\n")
    try:
        own.database("flow")
        board = Board(tmp_path / "flow", own, "flow")
        with Http(board) as server:
            session = Session(server)
            session.ask("project", action="create", name="P")
            session.ask("entity_type", action="register", name="box", schema={"type": "object"})
            made = session.ask("entity_write", action="create", type="box", name="b0", data={"n": 0, "kind": "k0"}, tags=["common"])
            first = made["entity"]["id"]
            item = session.ask("work_item_create", title="item 0", tags=["common"], metadata={"n": 0})["item"]["id"]
            # Copies, in one statement each: rows, what the index says of them, and what is found by their words.
            copies = """INSERT INTO objects(row, id, kind, project, version, seq, deleted, type, status, parent, path, depth, number, name, priority, doc)
                SELECT row + g * 10, id || '-' || g, kind, project, version, seq + g * 10, deleted, type, status, parent, path || '-' || g, depth, number + g,
                name || g, priority, replace(doc, id, id || '-' || g) FROM objects, generate_series(1, {count}) g WHERE id = '{id}';
                INSERT INTO facts(project, type, place, value, object) SELECT f.project, f.type, f.place,
                CASE WHEN f.place = '/kind' THEN 'tk' || g % 50 ELSE f.value END, f.object + g * 10
                FROM facts f JOIN objects o ON o.row = f.object, generate_series(1, {count}) g WHERE o.id = '{id}';
                INSERT INTO words(project, word, object, weight) SELECT w.project, w.word, w.object + g * 10, w.weight
                FROM words w JOIN objects o ON o.row = w.object, generate_series(1, {count}) g WHERE o.id = '{id}';
                INSERT INTO edges(source, relation, target) SELECT source || '-' || g, relation, target
                FROM edges, generate_series(1, {count}) g WHERE source = '{id}'"""
            board.sql(copies.format(count=10_000, id=first))
            board.sql(copies.format(count=1_200, id=item))
            board.sql(f"INSERT INTO edges(source, relation, target) SELECT '{item}-' || g, 'blocks', '{item}-' || g + 1 FROM generate_series(1, 400) g")
            assert own.sql("flow", "SELECT count(*) FROM pg_stats WHERE schemaname = 'weir_flow'", "postgres") == "0\n"
            for tool, arguments in [
                ("entity_query", {"type": "box", "filter": {"eq": {"kind": "k7"}}}),
                ("entity_query", {"type": "box", "filter": {"and": [{"eq": {"n": 0}}, {"contains": {"kind": "k0"}}]}}),
                ("entity_query", {"type": "box", "tags": ["common"]}), ("entity_query", {"type": "box", "tags": ["nobody's"]}),
                ("work_item_query", {"tags": ["common"]}), ("work_item_query", {"filter": {"eq": {"n": 0}}}),
                ("work_item_query", {"filter": {"eq": {"n": 1}}}), ("next_work", {}), ("next_work", {"want": "blocked"}),
                ("search", {"query": "item"}), ("search", {"query": "b0"}), ("status", {}), ("work_item_get", {"id": item}),
            ]:
                began = time.monotonic()
                answer = session.ask(tool, project="P", **arguments)
                assert time.monotonic() - began < QUICK_S, (tool, arguments, time.monotonic() - began)
                found = next((answer[name] for name in ("entities", "items", "hits") if isinstance(answer.get(name), list)), None)
                none = arguments.get("tags") == ["nobody's"] or arguments.get("filter") in ({"eq": {"n": 1}}, {"eq": {"kind": "k7"}})
                assert found is None or bool(found) is not none, (tool, arguments, len(found))
    finally:
        own.remove()


def test_facts_and_words_are_found_by_an_index_below_row_security(tmp_path, cluster):
    board = Board(tmp_path / "flow", cluster, "flow")
    plan = board.sql("""SET enable_seqscan = off; EXPLAIN SELECT object FROM facts WHERE project = 'p' AND type = 't' AND place = '/a'
        AND value >= 'n8000000000000000'""")
    assert "Index Cond" in plan and "value >= " in plan.replace("(value)::text", "value"), plan
    plan = board.sql("SET enable_seqscan = off; EXPLAIN SELECT object FROM words WHERE project = 'p' AND word >= 'a' AND word < 'b'")
    assert "Index Cond" in plan and "word >= " in plan.replace("(word)::text", "word"), plan


NUMBERS = [0, 1, 2, -1, 1.0, 1.5, -0.5, 2**53, 2**53 + 1, float(2**53), 2**64 - 1, 10**19, 1e19, 1e300, 1e-7, -0.0]
TEXTS = ["", "a", "b", "A", "1", "é", "e\u0301", "\u2028", "x" * 300, "x" * 299 + "y", "\"", "\\", "*", "~", "/"]
KEYS = ["a", "b", "c", "*", "~0", "a/b", "", "0", "é"]


def scalar(chance):
    return chance.choice([*NUMBERS, *TEXTS, None, True, False])


def document(chance, depth):
    shape = chance.random()
    if depth == 0 or shape < 0.3:
        return scalar(chance)
    if shape < 0.6:
        return [document(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {chance.choice(KEYS): document(chance, depth - 1) for _ in range(chance.randrange(4))}


def part(chance, value):
    """Something like what the value contains, and often just that."""
    if chance.random() < 0.1:
        return document(chance, 2)
    if isinstance(value, dict):
        return {key: part(chance, inner) for key, inner in value.items() if chance.random() < 0.6}
    if isinstance(value, list):
        some = [part(chance, inner) for inner in value if chance.random() < 0.6]
        chance.shuffle(some)
        return some + some[:1]
    return value


def test_containment_is_postgresqls(board, cluster, tmp_path):
    """Documents and parts of them, generated: what `contains` finds on each store is what PostgreSQL's own `@>` finds."""
    chance = random.Random(34)
    side = max(10, int((2 * PAIRS) ** 0.5))
    documents = [{key: document(chance, 3) for key in chance.sample(KEYS, chance.randrange(1, 5))} for _ in range(side)]
    parts = [part(chance, chance.choice(documents)) for _ in range(PAIRS // side)]

    async def script():
        async with over_stdio(board) as client:
            await ask(client, "project", action="create", name="P")
            await ask(client, "entity_type", action="register", name="doc", schema={"type": "object"})
            for number, data in enumerate(documents):
                await ask(client, "entity_write", action="create", type="doc", name=f"d{number}", data=data)
            found = []
            for one in parts:
                names, cursor = set(), None
                while True:
                    more = {"cursor": cursor} if cursor else {}
                    page = await ask(client, "entity_query", type="doc", filter={"contains": one}, limit=100, **more)
                    names |= {entity["name"] for entity in page["entities"]}
                    cursor = page.get("cursor")
                    if not cursor:
                        break
                found.append(names)
            return found

    found = asyncio.run(script())
    quoted = lambda value: "'" + json.dumps(value).replace("'", "''") + "'"  # noqa: E731
    values = lambda rows: ",".join(f"({number},{quoted(row)}::jsonb)" for number, row in enumerate(rows))  # noqa: E731
    lines = cluster.sql("postgres", f"""WITH d(n, doc) AS (VALUES {values(documents)}), p(n, part) AS (VALUES {values(parts)})
        SELECT p.n, d.n FROM p, d WHERE d.doc @> p.part""", "postgres").split()
    due = [set() for _ in parts]
    for line in lines:
        at, number = line.split("|")
        due[int(at)].add(f"d{number}")
    wrong = [(parts[at], sorted(found[at] ^ due[at])) for at in range(len(parts)) if found[at] != due[at]]
    assert not wrong, wrong[:3]
    # Neither nearly all nor nearly none.
    share = len(lines) / (len(documents) * len(parts))
    assert 0.005 < share < 0.6, share


def test_errors_are_the_same_on_both_stores(tmp_path, cluster):
    """The same script of wrong calls on each store: the same codes, and the same words but for ids and times."""
    def plain(error):
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", json.dumps(error, sort_keys=True))
        return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", text)

    async def script(board):
        said = []
        async with over_stdio(board, "--as", "ada") as client:
            async def wrong(tool, **arguments):
                result = await client.call_tool(tool, arguments)
                assert result.is_error, (tool, arguments)
                said.append((tool, plain(told(*(block.text for block in result.content)))))

            await wrong("work_item_create", title="t")
            await ask(client, "project", action="create", name="P")
            await wrong("project", action="create", name="P")
            await wrong("project", action="get", project="no\0body")
            await ask(client, "work_item_create", title="one")
            child = (await ask(client, "work_item_create", title="two", parent="#1", depends_on=[{"id": "#1"}]))["item"]
            await wrong("work_item_get", id="#9")
            await wrong("work_item_get", id="0" * 36)
            await wrong("work_item_update", id="#1", title="x")
            await wrong("work_item_update", id="#1", version=7, title="x")
            await wrong("work_item_update", id="#1", version=1, status="nonsense")
            await wrong("work_item_update", id="#1", version=1, parent=child["id"])
            await wrong("dependency", id="#1", depends_on="#2")
            await wrong("claim", id="#2")
            taken = await ask(client, "claim", id="#1")
            await wrong("work_item_update", id="#1", version=taken["item"]["version"], lease_token=9, title="x")
            await wrong("work_item_delete", id="#2")
            deep = "#2"
            for level in range(3):
                deep = (await ask(client, "work_item_create", title=f"deep {level}", parent=deep))["item"]["id"]
            await wrong("work_item_create", title="deeper", parent=deep)
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
            await wrong("entity_type", action="register", name="box", schema={"$ref": "https://example.com/schema.json"})
            await wrong("entity_type", action="register", name="box", schema={"$ref": "file:///etc/passwd"})
            await ask(client, "entity_type", action="register", name="box", schema=schema)
            await wrong("entity_type", action="register", name="box", schema=schema)
            await ask(client, "entity_write", action="create", type="box", name="b", data={"n": 1})
            await wrong("entity_write", action="create", type="box", name="c", data={"n": "x"})
            await wrong("entity_write", action="create", type="crate", name="c", data={})
            await wrong("entity_type", action="evolve", name="box", schema={"type": "object", "properties": {"n": {"type": "string"}}})
            await wrong("entity_query", type="box", filter={"like": {"n": 1}})
            await wrong("entity_query", type="box", cursor="made up")
            await wrong("search", query="...")
            await wrong("history", action="undo", change=99999)
            one = {"title": "k", "idempotency_key": "k"}
            await ask(client, "work_item_create", **one)
            await wrong("work_item_create", **{**one, "title": "other"})
        return said

    on_sqlite = asyncio.run(script(Board(tmp_path / "sqlite")))
    on_postgres = asyncio.run(script(Board(tmp_path / "postgres", cluster, "flow")))
    assert on_sqlite == on_postgres
    assert len({text for _, text in on_sqlite}) >= 25
