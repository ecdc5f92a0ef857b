"""Several gateways that share a store in PostgreSQL: what is refused at the start, one directory and one authority for all, logs that are
shipped whole and once, kills, a database that is away, and every forgery of what it holds."""

import json
import os
import random
import shutil
import subprocess
import threading
import time

import pytest

from gateway import WEIR, Session, child_server, until
from identity import Key, sha256
from postgres import Cluster
from replicas import OWNER, USER, Replica, Store
from test_log import Load

KILLS = int(os.environ.get("WEIR_REPLICA_KILLS", "8"))


@pytest.fixture(scope="module")
def server():
    running = Cluster()
    yield running
    running.remove()


@pytest.fixture
def store(server):
    return Store(server)


def pair(origin, tmp_path, store, authority=False, **settings):
    """Two replicas of one store, which was filled from the first."""
    mcp = {"web": {"url": origin.url}, "child": child_server()}
    a = Replica(tmp_path / "a", mcp, store, "a", authority=authority, **settings)
    b = Replica(tmp_path / "b", mcp, store, "b", identity={"passphrase": "file:ca.pass"} if authority else None, **settings)
    if authority:
        shutil.copy(a.folder / "ca.pass", b.folder / "ca.pass")
    a.migrate()
    a.bring_in()
    return a, b


def refused(answer, status, code):
    assert (answer.status, answer.refusal()[0]) == (status, code), (answer.status, answer.body)


def test_what_is_refused_at_the_start_says_what_to_do(origin, tmp_path, store):
    mcp = {"web": {"url": origin.url}}
    a = Replica(tmp_path / "a", mcp, store, "a")
    assert "weir store migrate" in a.refused_start()
    a.migrate()
    assert "weir store import" in a.refused_start()
    assert not (a.state / "ca").exists()
    a.bring_in()
    again = a.bring_in(check=False)
    assert again.returncode == 2 and "already" in again.stderr
    other = Replica(tmp_path / "other", mcp, store, "o", identity={"trust_domain": "other.example"})
    assert "trust domain" in other.refused_start()
    assert "trust domain" in other.bring_in("--replace", check=False).stderr
    for role in (OWNER, "postgres"):
        strong = Replica(tmp_path / role, mcp, store, "s")
        (strong.folder / "url").write_text(store.cluster.url(store.name, role))
        assert "may change or remove records" in strong.refused_start()
    (a.folder / "url").write_text("postgresql://weir_user@127.0.0.1:1/x?sslmode=prefer")
    assert "sslmode=verify-full" in a.refused_start()
    (a.folder / "url").write_text("postgresql://weir_user@127.0.0.1:1/x?sslmode=disable")
    assert "Start PostgreSQL" in a.refused_start()
    (a.folder / "url").write_text(store.url)
    (a.folder / "store.pass").write_text("another passphrase than that")
    assert "store.passphrase" in a.refused_start()
    (a.folder / "store.pass").write_text("correct horse battery staple")
    with a:
        twin = Replica(tmp_path / "twin", mcp, store, "a")
        assert "is running already" in twin.refused_start()
    late = subprocess.run(["faketime", "-f", "+10m", str(WEIR), "serve", "-c", "weir.yaml"], cwd=a.folder, capture_output=True, text=True, timeout=60)
    assert late.returncode != 0 and "600 s behind" in late.stderr.replace("599", "600"), late.stderr
    store.sql(f"ALTER ROLE {USER} IN DATABASE {store.name} SET default_transaction_read_only = on", "postgres")
    assert "can only be read" in a.refused_start()
    store.sql(f"ALTER ROLE {USER} IN DATABASE {store.name} RESET default_transaction_read_only", "postgres")
    store.sql("UPDATE weir.meta SET value = '99'")
    assert "newer than this program" in a.refused_start()
    assert "newer than this program" in a.weir("store", "migrate", "--owner", "file:owner", check=False).stderr


def test_one_directory_one_authority_and_one_token_key(origin, tmp_path, store):
    a, b = pair(origin, tmp_path, store, authority=True, public_url="https://weir.example")
    with a, b:
        made = json.loads(a.weir("keys", "new", "ops", "--json").stdout)
        bearer = f"Bearer {made['key']}"
        until(lambda: b.whoami(bearer).status == 200, "the key is good at the other", 1)
        # A certificate that one signs, and a token that one gives, is good at the other.
        root = [(of.state / "ca/root.pem").read_text() for of in (a, b)]
        assert root[0] == root[1]
        key = b.enrol("worker")
        until(lambda: a.operator("/admin/agents/worker").status == 200, "it is known at the other", 1)
        for giver, taker in ((a, b), (b, a)):
            assert taker.whoami(f"Bearer {giver.token('worker', key)}").json()["agent"] == "worker"
        # A session with a server behind a URL goes on at the other.
        session = Session(a, "web", "dev")
        session.gateway = b
        assert "result" in session.call("echo", "x").messages()[-1]
        # One invite at two gateways at once is used once.
        invite = a.invite("once", "--approved")
        answers = []
        def enrol(at):
            one = Key()
            proof = one.sign({"aud": at.base, "invite": sha256(invite)}, typ="weir-enrol+jwt")
            answers.append(at.send("/enrol", {"invite": invite, "jwk": one.jwk, "proof": proof}))
        until(lambda: b.operator("/admin/agents/once").status == 200, "the invite is known", 1)
        both = [threading.Thread(target=enrol, args=(at,)) for at in (a, b)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert sorted(answer.status for answer in answers) == [201, 403], [answer.body for answer in answers]
        # Revoked at one: its call and its stream at the other end within a second.
        b.keys["ops"] = made["key"]
        session = Session(b, "child", "ops")
        stream = b.connect()
        stream.request("GET", "/mcp/child", headers={**b.headers("ops"), "accept": "text/event-stream",
                                                     "mcp-session-id": session.extra["mcp_session_id"], "mcp-protocol-version": "2025-11-25"})
        opened = stream.getresponse()
        assert opened.status == 200
        began = time.monotonic()
        a.weir("agents", "revoke", "ops")
        until(lambda: b.whoami(bearer).status == 403, "it is revoked at the other", 1)
        took = time.monotonic() - began
        try:
            opened.read()
        except Exception:
            pass  # It was cut.
        assert took < 1.5 and time.monotonic() - began < 3, took
        refused(b.whoami(bearer), 403, "agent.revoked")
        # Both say of themselves that they are there.
        rows = until(lambda: [r for r in json.loads(a.weir("replicas", "--json").stdout) if r["state"] == "serving"][1:], "both are seen")
        assert rows[0]["name"] == "b"
    assert {r["state"] for r in json.loads(a.weir("replicas", "--json").stdout)} == {"stopped"}
    assert "epoch" in a.weir("store", "status").stdout


def test_records_of_all_are_searched_and_verified_and_nobody_writes_sql(origin, tmp_path, store):
    a, b = pair(origin, tmp_path, store)
    evil = "x'); DROP TABLE weir.records; --\\ \u0000\n\t\"$1\u202e"
    with a, b:
        for _ in range(5):
            assert a.call().status == b.call().status == 200
        a.call(tool=evil)
        b.request("POST", f"/mcp/{'nobody%27--'}", b"{}", b.headers())
        a.request("POST", "/mcp/web", b"{}", {"authorization": "Bearer weir_" + "A" * 43, "content-type": "application/json"})
        until(lambda: a.caught_up() and b.caught_up(), "all is in the store")
        status, ready = a.ready()
        assert status == 200 and ready["store"]["status"] == "works" and ready["store"]["replica"] == "a"
        page = a.operator("/metrics").body.decode()
        assert "weir_store_behind_entries 0" in page and "weir_store_silent_seconds" in page
        found = a.stored("--agent", "dev", "--last", "100")
        assert {one["replica"] for one in found} == {"a", "b"}
        judged = [one for one in found if one["record"]["kind"] == "judgement"]
        assert len(judged) >= 11
        call = judged[0]["record"]["call"]
        assert {one["record"]["kind"] for one in a.stored("--call", call)} == {"judgement", "outcome"}
        assert all(one["record"]["refusal"] == "agent.key_unknown" for one in b.stored("--refusal", "agent.key_unknown"))
        assert b.stored("--refused") and a.stored("--replica", "b", "--lane", "mcp")
        assert not a.stored("--agent", "x' OR true --")
        assert a.weir("audit", "show", "--store", "--call", "f" * 32, check=False).returncode == 1
    told = a.weir("audit", "verify", "--store").stdout
    assert told.count("is whole") == 2, told
    # What each disk has is what the store has.
    for one in (a, b):
        here = [json.dumps(record, sort_keys=True) for record in one.records()]
        there = [json.dumps(found["record"], sort_keys=True) for found in one.stored("--replica", one.name, "--last", "10000")]
        assert sorted(here) == sorted(there)
    # Neither role of a gateway may change what was recorded.
    for text in ("UPDATE weir.records SET agent = 'x'", "DELETE FROM weir.records", "TRUNCATE weir.records", "DELETE FROM weir.checkpoints",
                 "UPDATE weir.checkpoints SET root = root", "DROP TABLE weir.records", "UPDATE weir.kept SET text = ''", "DELETE FROM weir.dropped"):
        assert "denied" in store.sql(text, USER, fails=True) or "must be owner" in store.sql(text, USER, fails=True)


def test_every_forgery_is_found_and_named(origin, tmp_path, store):
    a, _ = pair(origin, tmp_path, store)
    with a:
        for _ in range(30):
            assert a.call().status == 200
        # More than one checkpoint.
        until(lambda: a.caught_up(), "all is in the store")
    size = store.number("SELECT count(*) FROM weir.records")
    key = (a.state / "log/key.pub").read_text().strip()
    assert a.weir("store", "verify", "--key", key).returncode == 0
    assert a.weir("store", "verify", "--key", "other+00000000+AA", check=False).returncode == 1
    n = store.number("SELECT idx FROM weir.records WHERE kind = 'judgement' ORDER BY idx OFFSET 5 LIMIT 1")
    columns = "idx, at, kind, call, agent, server, lane, decision, refusal, leaf, record"
    forgeries = {
        "changed": [f"UPDATE weir.records SET record = convert_to(replace(convert_from(record, 'UTF8'), 'dev', 'eve'), 'UTF8') WHERE idx = {n}",
                    f"UPDATE weir.records SET agent = 'eve' WHERE idx = {n}",
                    f"UPDATE weir.records SET decision = NULL, call = NULL WHERE idx = {n}",
                    f"UPDATE weir.records SET leaf = sha256('x') WHERE idx = {n}",
                    # Two change places.
                    f"UPDATE weir.records r SET record = s.record, leaf = s.leaf FROM weir.records s WHERE r.idx IN ({n}, {n + 1}) AND s.idx = {2 * n + 1} - r.idx"],
        "removed": [f"DELETE FROM weir.records WHERE idx = {n}", "DELETE FROM weir.records WHERE idx < 5"],
        "inserted": [f"SELECT weir.make_day(current_date + 1); INSERT INTO weir.records SELECT current_date + 1, origin, {columns} FROM weir.records WHERE idx = {n}",
                     f"INSERT INTO weir.records SELECT day, 77, {columns} FROM weir.records WHERE idx = {n}"],
        "cut off": [f"DELETE FROM weir.records WHERE idx >= {size - 3}"],
        "bad checkpoint": ["UPDATE weir.checkpoints SET root = sha256('x') WHERE size = (SELECT max(size) FROM weir.checkpoints)",
                           "UPDATE weir.checkpoints SET note = replace(note, 'weir', 'wier')",
                           "UPDATE weir.origins SET vkey = 'other+00000000+AA'"],
    }
    for kind, statements in forgeries.items():
        for text in statements:
            store.sql("CREATE SCHEMA kept; CREATE TABLE kept.r AS TABLE weir.records; CREATE TABLE kept.c AS TABLE weir.checkpoints; "
                      f"CREATE TABLE kept.o AS TABLE weir.origins; {text}")
            done = a.weir("audit", "verify", "--store", check=False)
            assert done.returncode == 1 and f": {kind}:" in done.stderr, (text, done)
            if f"= {n}" in text and kind in ("changed", "removed"):
                assert f"entry {n}:" in done.stderr, (text, done.stderr)
            store.sql("TRUNCATE weir.records; INSERT INTO weir.records TABLE kept.r; TRUNCATE weir.checkpoints; INSERT INTO weir.checkpoints TABLE kept.c; "
                      "UPDATE weir.origins o SET vkey = k.vkey, next = k.next FROM kept.o k WHERE k.id = o.id; DROP SCHEMA kept CASCADE")
            assert a.weir("audit", "verify", "--store", check=False).returncode == 0, text
    # Whoever writes every hash anew is found by the signatures.
    store.sql("CREATE FUNCTION pg_temp.anew() RETURNS void LANGUAGE plpgsql AS $$ DECLARE r record; p text := repeat('0', 64); l bytea; e text; BEGIN "
              "UPDATE weir.records SET record = convert_to(replace(convert_from(record, 'UTF8'), '\"status\":200', '\"status\":201'), 'UTF8') WHERE kind = 'outcome'; "
              "FOR r IN SELECT * FROM weir.records ORDER BY idx LOOP e := '{\"prev\":\"' || p || '\",\"record\":' || convert_from(r.record, 'UTF8') || ',\"seq\":' || r.idx || '}'; "
              "l := sha256('\\x00'::bytea || convert_to(e, 'UTF8')); p := encode(l, 'hex'); UPDATE weir.records SET leaf = l WHERE idx = r.idx; END LOOP; END $$; SELECT pg_temp.anew()")
    done = a.weir("audit", "verify", "--store", check=False)
    assert done.returncode == 1 and ": forked:" in done.stderr, done
    # And the replica does not go on with it.
    store.sql("UPDATE weir.origins SET last = (SELECT leaf FROM weir.records ORDER BY idx DESC LIMIT 1)")
    assert "a fork" in a.refused_start()


def test_kills_lose_nothing_and_double_nothing(origin, tmp_path, store):
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    replicas = pair(origin, tmp_path, store, durability="fsync")
    answered = []
    for one in replicas:
        one.start()
    for life in range(KILLS):
        one = chance.choice(replicas)
        loads = [Load(each, threads=2) for each in replicas]
        enough = chance.randrange(1, 40)
        until(lambda: len(loads[replicas.index(one)].answered) >= enough or loads[0].wrong, "calls are answered")
        one.kill()
        rest = next(each for each in replicas if each is not one)
        until(lambda: rest.call().status == 200, "the other goes on")
        rest.kill()
        for load in loads:
            load.join()
            assert not load.wrong, (seed, life, load.wrong[:1])
            answered += load.answered
        for each in replicas:
            each.start()
    until(lambda: all(one.caught_up() for one in replicas), "all is in the store")
    for one in replicas:
        one.stop()
    calls = store.sql("SELECT call FROM weir.records WHERE kind = 'judgement' AND call IS NOT NULL").split()
    assert not set(answered) - set(calls), (seed, len(answered))
    assert len(calls) == len(set(calls)), seed
    # Every call that passed is closed, once.
    unclosed = store.sql("SELECT call FROM weir.records WHERE kind = 'judgement' AND decision = 'pass' EXCEPT SELECT call FROM weir.records WHERE kind IN ('outcome', 'lost')").split()
    assert not unclosed, (seed, unclosed)
    told = replicas[0].weir("audit", "verify", "--store", check=False)
    assert told.returncode == 0 and told.stdout.count("is whole") == 2, (seed, told)


@pytest.mark.parametrize("way", ["frozen", "stopped"])
def test_calls_go_on_while_the_store_is_away_until_the_bound(origin, tmp_path, way):
    server = Cluster()
    try:
        store = Store(server)
        a, b = pair(origin, tmp_path, store, outage_max=3)
        with a, b:
            assert a.call().status == 200
            until(lambda: a.caught_up() and b.caught_up(), "all is in the store")
            frozen = server.freeze() if way == "frozen" else server.stop()
            assert a.call().status == b.call().status == 200
            until(lambda: a.call().refusal()[0] == "store.away", "calls are refused after the bound", 12)
            answer = a.call()
            assert answer.status == 200 or answer.status == 503
            status, ready = a.ready()
            assert status == 503 and ready["store"]["status"] == "away" and ready["store"]["behind"] > 0
            assert any("the store is away" in line for line in a.logs.all)
            refused_key = a.weir("keys", "new", "late", check=False)
            assert refused_key.returncode == 2 and ("store.away" in refused_key.stderr or "directory_failed" in refused_key.stderr), refused_key.stderr
            server.thaw(frozen) if way == "frozen" else server.start()
            until(lambda: b"result" in a.call().body and b"result" in b.call().body, "calls go on")
            until(lambda: a.caught_up() and b.caught_up(), "all is in the store")
            assert a.ready()[0] == 200
        told = a.weir("audit", "verify", "--store").stdout
        assert told.count("is whole") == 2, told
        assert store.number("SELECT count(*) - count(DISTINCT (origin, idx)) FROM weir.records") == 0
        for one in (a, b):
            assert len(one.stored("--replica", one.name, "--last", "10000")) == len(one.records())
    finally:
        server.remove()


def test_a_copied_disk_is_found_and_a_new_disk_names_the_one_before(origin, tmp_path, store):
    a, _ = pair(origin, tmp_path, store)
    with a:
        assert a.call().status == 200
        until(a.caught_up, "all is in the store")
    shutil.copytree(a.state, tmp_path / "copy")
    with a:
        assert a.call().status == 200
        until(a.caught_up, "all is in the store")
    shutil.move(a.state, tmp_path / "real")
    shutil.copytree(tmp_path / "copy", a.state)
    said = a.refused_start()
    assert "a fork" in said and "move the folder of the log away" in said
    # The same disk under another name is another's.
    c = Replica(tmp_path / "c", {"web": {"url": origin.url}}, store, "c")
    shutil.copytree(tmp_path / "real", c.state)
    assert "is that of the replica" in c.refused_start()
    # A new disk.
    shutil.rmtree(a.state)
    with a:
        assert a.call().status == 200
        until(a.caught_up, "all is in the store")
        start = [one["record"] for one in a.stored("--last", "100") if one["record"]["kind"] == "start"][-1]
        before = store.sql("SELECT origin FROM weir.origins ORDER BY id LIMIT 1").strip()
        assert (start["replica"], start["before"]) == ("a", before)
    assert f"after {before}" in a.weir("store", "verify").stdout


def test_what_is_exported_and_imported_is_the_same_to_the_byte(origin, tmp_path, server):
    first, second = Store(server), Store(server)
    a, _ = pair(origin, tmp_path, first, authority=True)
    with a:
        a.enrol("worker")
        a.weir("keys", "new", "ops")
        a.invite("waiting")
    exported = a.weir("store", "export").stdout
    for name in ("session.key", "token.key", "fingerprint.key"):
        assert (a.state / name).read_text().strip() not in exported
    b = Replica(tmp_path / "other", {"web": {"url": origin.url}}, second, "b", identity={"passphrase": "file:ca.pass"})
    shutil.copy(a.folder / "ca.pass", b.folder / "ca.pass")
    (b.folder / "exported.json").write_text(exported)
    b.migrate()
    b.bring_in("--from", "exported.json")
    assert b.weir("store", "export").stdout == exported
    with b:
        until(b.caught_up, "all is in the store")
        for name in ("session.key", "token.key", "fingerprint.key", "ca/root.pem", "ca/intermediate.pem"):
            assert (b.state / name).read_bytes().strip() == (a.state / name).read_bytes().strip(), name
        listed = b.weir("agents", "list").stdout
        assert "worker" in listed and "ops" in listed
    assert b.weir("store", "export").stdout == exported


def test_days_go_as_a_whole_and_the_rest_is_proved(origin, tmp_path, store):
    a, _ = pair(origin, tmp_path, store)
    with a:
        for _ in range(5):
            assert a.call().status == 200
        until(a.caught_up, "all is in the store")
    done = a.weir("store", "retain", "--days", "1", "--owner", "file:owner")
    assert "days: 0" in done.stdout
    # The day is moved, since no clock may be ten days off.
    size = store.number("SELECT count(*) FROM weir.records")
    store.sql("SELECT weir.make_day(current_date - 10); "
              "UPDATE weir.records SET day = current_date - 10")
    assert a.weir("store", "verify", check=False).returncode == 1
    done = a.weir("store", "retain", "--days", "5", "--owner", "file:owner")
    assert "days: 1" in done.stdout and f"records: {size}" in done.stdout
    assert store.number("SELECT count(*) FROM weir.records") == 0
    with a:
        assert a.call().status == 200
        until(a.caught_up, "all is in the store")
    told = a.weir("store", "verify").stdout
    assert f"dropped with their days: {size}" in told and "is whole" in told
    store.sql("UPDATE weir.dropped SET edge = sha256('x') || substr(edge, 33)")
    assert ": forked:" in a.weir("store", "verify", check=False).stderr
