"""Work tracking as agents have it: the official clients of two languages, over stdio, over HTTP and through the gate, which says
who writes; many agents at once; processes that are killed."""

import asyncio
import http.client
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from gateway import ROOT, WEIR, Gateway, until
from postgres import Board
from test_code import NODE, TYPESCRIPT, ask, refused, text_of

OURS = ["project", "work_item_create", "work_item_update", "work_item_get", "work_item_query", "work_item_delete",
        "dependency", "claim", "next_work", "entity_type", "entity_write", "entity_query", "deployment", "status", "search",
        "history"]
READS = {"work_item_get", "work_item_query", "next_work", "entity_query", "status", "search"}
LATER = ["create_project", "switch_project", "get_active_project", "list_projects", "create_work_item", "update_work_item",
         "query_work_items", "get_work_item_hierarchy", "delete_work_item", "add_work_item_dependency",
         "list_blocked_work_items", "register_entity_type", "create_entity", "query_entities", "update_entity",
         "delete_entity", "update_entity_type_schema", "record_deployment", "list_deployments", "get_deployment"]
EARLIER = ["get_task", "list_tasks", "create_task", "update_task", "create_work_item", "update_work_item", "query_work_item",
           "list_work_items", "record_deployment", "query_vendor_status", "update_vendor_status", "create_vendor",
           "get_project_configuration", "update_project_configuration"]
KILLS = int(os.environ.get("WEIR_FLOW_KILLS", "12"))
CROWD = int(os.environ.get("WEIR_FLOW_AGENTS", "16"))


def flags(data):
    """Where the database is: of a folder, or of a board of either store."""
    return ["--data", str(data), *(data.flags() if isinstance(data, Board) else [])]


def command(data, *more):
    return [str(WEIR), "tools", "flow", *flags(data), *more]


def over_stdio(data, *more, mode="auto", env=None):
    program, *arguments = command(data, "--stdio", "--durability", "os", *more)
    return Client(stdio_client(StdioServerParameters(command=program, args=arguments, env=env)), mode=mode)


class Http:
    """The server over HTTP, on a port of its own."""

    def __init__(self, data, *more, arguments=None):
        own = command(data, "--http", "127.0.0.1:0", "--durability", "os", *more)
        self.process = subprocess.Popen(arguments or own, stdout=subprocess.PIPE)
        self.url = self.process.stdout.readline().decode().strip()
        self.port = int(self.url.rsplit(":")[-1].split("/")[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def flow(data, *arguments, code=0):
    """What a command prints."""
    done = subprocess.run([str(WEIR), "flow", *map(str, arguments), *flags(data), "--durability", "os"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout if code < 2 else done.stderr


def error_of(result):
    """What a refusal says to programs: JSON, in its second block."""
    assert result.is_error and result.structured_content is None, result
    return json.loads(result.content[1].text)["error"]


async def every_tool(client):
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == OURS
    for tool in listed:
        assert tool.output_schema and tool.annotations.open_world_hint is False, tool.name
        assert tool.annotations.read_only_hint is (tool.name in READS), tool.name
    assert "project create" in await refused(client, "work_item_create", title="x")
    await ask(client, "project", action="create", name="Shop")
    project = {"project": "Shop"}
    one = (await ask(client, "work_item_create", title="one", **project))["item"]
    two = (await ask(client, "work_item_create", title="two", priority=1, depends_on=[{"id": "#1"}], **project))["item"]
    await ask(client, "dependency", id=two["id"], depends_on=one["id"], type="relates_to", **project)
    ready = await ask(client, "next_work", **project)
    assert [item["title"] for item in ready["items"]] == ["one"]
    taken = await ask(client, "claim", **project)
    assert taken["item"]["id"] == one["id"] and taken["token"] == 1
    done = await ask(client, "work_item_update", id="#1", version=taken["item"]["version"], lease_token=1,
                     status="completed", **project)
    assert done["item"]["completed_at"]
    result = await client.call_tool("work_item_update", {"id": "#1", "version": 1, "title": "late", **project})
    assert result.is_error and error_of(result)["data"]["current"]["status"] == "completed"
    got = await ask(client, "work_item_get", id="#2", **project)
    assert got["waits_for"] == []
    assert len((await ask(client, "work_item_query", **project))["items"]) == 2
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    await ask(client, "entity_type", action="register", name="box", schema=schema, **project)
    await ask(client, "entity_write", action="create", type="box", name="b", data={"n": 1}, **project)
    assert "invalid_data" in await refused(client, "entity_write", action="create", type="box", name="c", data={"n": "x"},
                                           **project)
    found = await ask(client, "entity_query", type="box", filter={"contains": {"n": 1}}, **project)
    assert found["entities"][0]["name"] == "b"
    await ask(client, "deployment", action="record", commit_sha="a" * 40, work_item_ids=["#1"], **project)
    whole = await ask(client, "status", format="markdown", **project)
    assert whole["items"]["by_status"] == {"completed": 1, "planned": 1} and "# Project Status" in whole["markdown"]
    assert (await ask(client, "search", query="tw", **project))["hits"][0]["title"] == "two"
    gone = await ask(client, "work_item_delete", id="#2", confirmed=True, **project)
    assert gone["deleted"]
    last = (await ask(client, "history", limit=1, **project))["events"][0]
    await ask(client, "history", action="undo", change=last["change"], **project)
    assert "deleted_at" not in (await ask(client, "work_item_get", id="#2", **project))["item"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_over_stdio(board, mode):
    async def script():
        async with over_stdio(board, mode=mode) as client:
            await every_tool(client)

    asyncio.run(script())
    assert "byte for byte" in flow(board, "log", "--check")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_over_http(board, mode):
    async def script(url):
        async with httpx2.AsyncClient(timeout=60) as web:
            async with Client(streamable_http_client(url, http_client=web), mode=mode) as client:
                await every_tool(client)

    with Http(board) as server:
        asyncio.run(script(server.url))


def test_the_typescript_client(board):
    calls = [
        {"name": "project", "arguments": {"action": "create", "name": "P"}},
        {"name": "work_item_create", "arguments": {"title": "t", "metadata": {"a": [1, {"b": None}]}}},
        {"name": "work_item_get", "arguments": {"id": "#1"}},
        {"name": "claim", "arguments": {}},
        {"name": "work_item_update", "arguments": {"id": "#1", "version": 1, "title": "x"}},
        {"name": "status", "arguments": {"format": "markdown"}},
        {"name": "history", "arguments": {"full": True}},
        {"name": "search", "arguments": {"query": "t"}},
        {"name": "next_work", "arguments": {"want": "mine"}},
    ]
    done = subprocess.run(["node", str(TYPESCRIPT), str(NODE), *command(board, "--stdio")], input=json.dumps(calls),
                          text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["tools"] == OURS
    assert [call["error"] for call in said["calls"]] == [call["name"] == "work_item_update" for call in calls], said
    # The session remembers what `create` chose, and what it is told is what was kept.
    assert said["calls"][2]["structured"]["item"]["metadata"] == {"a": [1, {"b": None}]}


def test_the_names_of_workflow_mcp(board):
    async def script():
        async with over_stdio(board, "--compat", "workflow") as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert set(names) == {*OURS, *LATER, *EARLIER} and len(names) == len(set(names))
            assert "NO_ACTIVE_PROJECT" in await refused(client, "create_work_item", item_type="task", title="t")
        async with over_stdio(board, mode="legacy") as client:
            # Not listed, and answered all the same.
            assert [tool.name for tool in (await client.list_tools()).tools] == OURS
            made = await ask(client, "create_project", name="P")
            assert made["database_name"].startswith("workflow_project_")
            item = await ask(client, "create_work_item", item_type="task", title="t", created_by="mallory")
            assert item["hierarchy_level"] == 1 and item["created_by"].startswith("user:")
            await ask(client, "create_project", name="Q")
            assert (await ask(client, "query_work_items"))["count"] == 0
            await ask(client, "switch_project", project_id=made["id"])
            assert (await ask(client, "query_work_items"))["count"] == 1
            result = await client.call_tool("update_work_item", {"id": item["id"], "version": 7, "updated_by": "x"})
            error = error_of(result)
            assert error["code"] == "VERSION_CONFLICT" and error["data"]["current"]["version"] == 1

    asyncio.run(script())


POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list", Action::"mcp:call", Action::"mcp:read"], resource);
"""


def test_behind_the_gate_each_write_names_its_agent(tmp_path):
    agents = {"dev": {"groups": ["engineers"]}, "ops": {"groups": ["engineers"]}}
    tools = {"flow": {"durability": "os", "compat": "workflow"}}
    with Gateway(tmp_path / "weir", {}, agents=agents, policy=POLICY, tools=tools) as gateway:
        async def script():
            async def session(agent, run, mode="auto"):
                headers = {"authorization": f"Bearer {gateway.keys[agent]}"}
                async with httpx2.AsyncClient(headers=headers, timeout=60) as web:
                    async with Client(streamable_http_client(gateway.url("flow"), http_client=web), mode=mode) as client:
                        return await run(client)

            async def make(client):
                assert {tool.name for tool in (await client.list_tools()).tools} == {*OURS, *LATER, *EARLIER}
                await ask(client, "project", action="create", name="P")
                made = await ask(client, "create_work_item", project_id="P", item_type="task", title="t", created_by="ops")
                # What a client says of itself in a message counts for nothing.
                result = await client.call_tool("work_item_create", {"project": "P", "title": "u"},
                                                meta={"agent": "ops", "WEIR_AGENT": "ops"})
                return made, result.structured_content["item"]

            async def other(client):
                taken = await ask(client, "claim", project="P")
                return taken

            made, item = await session("dev", make)
            assert made["created_by"] == "dev" and item["created_by"] == "dev", (made, item)
            taken = await session("ops", other, mode="legacy")
            assert taken["item"]["assignee"] == "ops"

            # Somebody at a terminal writes what no gate has seen.
            hostile = (ROOT / "demo/files/page.txt").read_text()
            flow(gateway.state / "tools/flow", "add", "note", "--description", hostile, "--project", "P")

            async def look(client):
                said = await ask(client, "work_item_query", project="P")
                assert len(said["items"]) == 3, said
                said = await ask(client, "history", project="P", limit=50, actor="ops")
                try:
                    told = text_of(await client.call_tool("work_item_get", {"project": "P", "id": "#3"}))
                except Exception as error:  # The gate refuses the answer, or takes the text out of it.
                    told = str(error)
                return said, told

            history, told = await session("dev", look)
            assert history["events"] and all(event["tool"] == "claim" for event in history["events"]), history
            assert hostile.strip().splitlines()[-1] not in told, told

        asyncio.run(script())
        assert any("work_item_create" in json.dumps(one) for one in gateway.records())
        gateway.verify()
    board = flow(tmp_path / "weir/state/tools/flow", "board")
    assert "@ops" in board and board.startswith("# P\n"), board


def test_a_board_tells_of_its_changes(board):
    data = board
    flow(data, "add", "one", "--project", "A B")

    async def legacy():
        told = asyncio.Queue()

        async def heard(message):
            await told.put(str(message))

        program, *arguments = command(data, "--stdio", "--durability", "os")
        server = StdioServerParameters(command=program, args=arguments)
        async with Client(stdio_client(server), mode="legacy", message_handler=heard) as client:
            resources = (await client.list_resources()).resources
            assert [one.name for one in resources] == ["A B"]
            uri = str(resources[0].uri)
            read = (await client.read_resource(uri)).contents[0]
            assert read.mime_type == "text/markdown" and "one" in read.text
            assert "one" in (await client.read_resource("flow://A%20B/board")).contents[0].text
            with pytest.raises(Exception):
                await client.read_resource("flow://nobody/board")
            await client.subscribe_resource(uri)
            # Told once the server knows what it was before.
            for number in range(100):
                flow(data, "add", f"more {number}", "--project", "A B")
                try:
                    message = await asyncio.wait_for(told.get(), 1)
                except asyncio.TimeoutError:
                    continue
                assert uri in message, message
                return
        raise AssertionError("no change was told")

    async def modern():
        async with over_stdio(data) as client:
            uri = str((await client.list_resources()).resources[0].uri)
            async with client.listen(resource_subscriptions=[uri]) as changes:
                async def told():
                    async for change in changes:
                        return str(change)

                waiting = asyncio.create_task(told())
                for number in range(100):
                    flow(data, "add", f"yet more {number}", "--project", "A B")
                    done, _ = await asyncio.wait([waiting], timeout=1)
                    if done:
                        assert uri in waiting.result(), waiting.result()
                        return
        raise AssertionError("no change was told")

    asyncio.run(legacy())
    asyncio.run(modern())


def test_sessions_share_one_database_and_outlive_its_owner(board):
    data = board

    async def script():
        async with over_stdio(data, "--as", "first") as first:
            await ask(first, "project", action="create", name="P")
            async with over_stdio(data, "--as", "second") as second:
                # The first has the database; the second asks it.
                made = await ask(second, "work_item_create", project="P", title="t")
                assert made["item"]["created_by"] == "second"
                assert flow(data, "next", "--as", "third").startswith("#1")
                return second

    asyncio.run(script())
    assert flow(data, "done", "1", "--as", "third").startswith("#1")
    assert "third" in flow(data, "log")


def test_killed_writers_lose_nothing_that_was_acknowledged(board):
    """Whoever has the database is killed again and again, in the middle of writing; the others go on."""
    data = board
    flow(data, "add", "first", "--project", "P")
    acknowledged = []

    async def writer(number, stop):
        count = 0
        while not stop.is_set():
            # A client of a server that was killed begins anew.
            try:
                async with over_stdio(data, "--as", f"agent{number}") as client:
                    while not stop.is_set():
                        count += 1
                        result = await client.call_tool("work_item_create", {"title": f"{number}/{count}", "project": "P"})
                        if not result.is_error:
                            acknowledged.append(f"{number}/{count}")
            except Exception:
                continue

    async def script():
        stop = asyncio.Event()
        writers = [asyncio.create_task(writer(number, stop)) for number in range(3)]
        for _ in range(KILLS):
            before = len(acknowledged)
            async with asyncio.timeout(30):
                while len(acknowledged) < before + 8:
                    await asyncio.sleep(0.002)
            for pid in owner_of(data):
                os.kill(pid, signal.SIGKILL)
        stop.set()
        await asyncio.gather(*writers)

    asyncio.run(script())
    titles = titles_of(data)
    assert len(titles) == len(set(titles)), "one was written twice"
    lost = set(acknowledged) - set(titles)
    assert not lost, sorted(lost)[:5]
    assert "byte for byte" in flow(data, "log", "--check")


def titles_of(data):
    """The titles of all items."""
    records = [json.loads(line) for line in flow(data, "export").splitlines()]
    return [record["doc"]["title"] for record in records if record.get("kind") == "item"]


def owner_of(data):
    """The processes that have the lock of a folder, by /proc/locks."""
    inode = (data / "owner.lock").stat().st_ino
    lines = Path("/proc/locks").read_text().splitlines()
    fields = [line.split() for line in lines if "->" not in line]
    return [int(one[4]) for one in fields if one[5].endswith(f":{inode}")]


def test_a_killed_owner_is_followed_within_two_seconds(board):
    data = board

    async def script():
        async with over_stdio(data, "--as", "first") as first:
            await ask(first, "project", action="create", name="P")
            (owner,) = owner_of(data)
            async with over_stdio(data, "--as", "second") as second:
                await ask(second, "work_item_create", title="before", project="P")
                clock = asyncio.get_running_loop().time
                began = clock()
                os.kill(owner, signal.SIGKILL)
                await ask(second, "work_item_create", title="after", project="P")
                assert clock() - began < 2, clock() - began

    try:
        asyncio.run(script())
    except* Exception as group:
        # The client of the process that was killed may say so.
        assert not any(isinstance(one, AssertionError) for one in group.exceptions), group
    titles = flow(data, "export", "--format", "markdown")
    assert "before" in titles and "after" in titles


def test_many_agents_at_once(board):
    """No item is taken twice, none starves, and what the events say is what is kept."""
    data = board
    tasks = 5 * CROWD
    with Http(data) as server:
        def call(connection, session, tool, **arguments):
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            headers = {"content-type": "application/json", "accept": "application/json, text/event-stream",
                       "mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
            connection.request("POST", "/mcp", json.dumps(body), headers)
            answer = connection.getresponse().read().decode()
            data_ = [line[5:] for line in answer.splitlines() if line.startswith("data:") and line[5:].strip()]
            return json.loads(data_[-1] if data_ else answer)["result"]

        def session():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "crowd", "version": "1"}}}
            headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
            connection.request("POST", "/mcp", json.dumps(body), headers)
            answer = connection.getresponse()
            name = answer.getheader("mcp-session-id")
            answer.read()
            body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            headers |= {"mcp-session-id": name, "mcp-protocol-version": "2025-11-25"}
            connection.request("POST", "/mcp", json.dumps(body), headers)
            connection.getresponse().read()
            return connection, name

        first = session()
        call(*first, "project", action="create", name="P")
        for number in range(tasks):
            call(*first, "work_item_create", project="P", title=f"task {number}")

        def agent(_):
            own, mine = session(), []
            while True:
                taken = call(*own, "claim", project="P")["structuredContent"]
                if "item" not in taken:
                    return mine
                item = taken["item"]
                done = call(*own, "work_item_update", project="P", id=item["id"], version=item["version"],
                            lease_token=taken["token"], status="completed")
                assert not done.get("isError"), done
                mine.append(item["id"])

        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(CROWD) as pool:
            taken = [ids for ids in pool.map(agent, range(CROWD))]
    every = [one for ids in taken for one in ids]
    assert len(every) == tasks and len(set(every)) == tasks
    assert "byte for byte" in flow(data, "log", "--check")


def test_a_crowd_whose_servers_are_killed(tmp_path, board):
    """Everybody does everything, on three servers of one board; at the end it is known what was done, and that it was done once."""
    from flow_crowd import Crowd

    boards = [board] * 3 if not board.url else [Board(tmp_path / name, board.cluster, "flow", board.tenant) for name in "abc"]
    crowd = Crowd(boards)
    try:
        crowd.play(8, 60, crowd.kill_server, 4)
    finally:
        crowd.end()
    holds = crowd.check()
    assert all(holds.values()), holds
    assert crowd.made and crowd.taken and crowd.counted


def test_a_log_that_a_reader_holds_is_told(tmp_path):
    """A program that reads an old state keeps SQLite's log from being folded: the log grows, and `status` says so."""
    data = tmp_path / "flow"
    with Http(data) as server:
        async def script():
            async with httpx2.AsyncClient(timeout=60) as web:
                async with Client(streamable_http_client(server.url, http_client=web)) as client:
                    await ask(client, "project", action="create", name="P")
                    assert "trouble" not in await ask(client, "status")
                    reader = sqlite3.connect(data / "flow.db", isolation_level=None)
                    reader.execute("BEGIN")
                    reader.execute("SELECT count(*) FROM objects").fetchall()
                    text = "many words of a long description " * 600
                    for number in range(1000):
                        await ask(client, "work_item_create", title=f"item {number}", description=text)
                        if (data / "flow.db-wal").stat().st_size > 17 << 20:
                            break
                    said = await ask(client, "status", format="markdown")
                    assert "MiB and grows" in said["trouble"] and "MiB and grows" in said["markdown"], said
                    reader.execute("COMMIT")
                    reader.close()
                    for number in range(70):
                        await ask(client, "work_item_create", title=f"later {number}")
                    assert "trouble" not in await ask(client, "status")

        asyncio.run(script())


def test_at_a_terminal(board, tmp_path):
    data = board
    if not board.url:
        assert "no database of flow yet" in flow(data, "board", code=2)
    flow(data, "add", "Repair \x1b[2J the door", "--project", "Shop", "--priority", "2")
    flow(data, "add", "Paint it", "--after", "1")
    assert flow(data, "next").count("\n") == 1
    assert "waits for #1" in flow(data, "next", "--want", "blocked")
    claimed = flow(data, "claim", "--as", "ada")
    assert "token 1" in claimed and "@ada" in claimed and "\x1b" not in claimed
    assert "ada holds this item" in flow(data, "done", "1", "--as", "bob", code=2)
    assert "no lease of yours" in flow(data, "done", "1", "--as", "ada", "--token", "9", code=2)
    flow(data, "done", "1", "--as", "ada", "--token", "1", "--commit", "abcdef1")
    flow(data, "claim", "2", "--as", "bob")
    assert "token 1" in flow(data, "claim", "2", "--renew", "1", "--as", "bob")
    flow(data, "claim", "2", "--force", "--as", "ada")
    flow(data, "claim", "--as", "eve")
    assert flow(data, "claim", "--as", "eve", code=1) == ""
    shown = flow(data, "board")
    assert shown.startswith("# Shop\n") and "\x1b" not in shown and "- [x] \\#1 Repair" in shown
    assert "# Project Status" in flow(data, "status")
    assert json.loads(flow(data, "status", "--json"))["items"]["total"] == 2
    log = flow(data, "log", "1")
    assert "ada" in log and "status" in log
    change = json.loads(flow(data, "log", "--json", "-n", "1"))["events"][0]["change"]
    # The change is a claim that still holds: nobody else takes it back.
    assert "eve holds this item" in flow(data, "log", "--undo", change, code=2)
    flow(data, "log", "--undo", change, "--as", "eve")
    assert flow(data, "migrate").strip().endswith("version 1")
    whole = flow(data, "export")
    (tmp_path / "board.jsonl").write_text(whole)
    other = board.beside("other")
    assert "2 item" in flow(other, "import", tmp_path / "board.jsonl")
    assert flow(other, "export").splitlines()[1:] == whole.splitlines()[1:]
    (tmp_path / "cut.jsonl").write_text(whole[:-20])
    third = board.beside("third")
    flow(third, "import", tmp_path / "cut.jsonl", code=2)
    assert not (third / "flow.db").exists()
    (tmp_path / "TODO.md").write_text("# Plan\n- [ ] a (P1)\n  - [x] b\n")
    assert "3 item" in flow(third, "import", tmp_path / "TODO.md", "--project", "Plan")
    assert "no project \"Nobody\"" in flow(third, "status", "--project", "Nobody", code=2)


def test_it_takes_from_itself_what_it_does_not_need(tmp_path):
    with Http(tmp_path / "flow") as server:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
            connection.request("POST", "/mcp", b"{}", headers)
            assert connection.getresponse().status == 403
        mode = until(lambda: (tmp_path / "flow/flow.db").exists() and os.stat(tmp_path / "flow").st_mode & 0o777, "a database")
        assert mode == 0o700


def test_what_is_no_database_of_ours_is_told(tmp_path):
    data = tmp_path / "flow"
    data.mkdir()
    other = sqlite3.connect(data / "flow.db")
    other.execute("CREATE TABLE tasks(id INTEGER)")
    other.commit()
    other.close()

    async def script():
        async with over_stdio(data) as client:
            assert "another program" in await refused(client, "project", action="list")

    asyncio.run(script())
    assert "another program" in flow(data, "board", code=2)


def in_mounts(script, folder, arguments):
    """A command that sees mounts of its own, which a script makes of a folder, its `$0`."""
    more = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--mount", *more, "sh", "-c", f'{script} && exec "$@"', str(folder), *arguments]


def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path):
    data = tmp_path / "flow"
    data.mkdir()
    arguments = command(data, "--http", "127.0.0.1:0", "--durability", "os")
    with Http(data, arguments=in_mounts('mount -t tmpfs -o size=3m tmpfs "$0"', data, arguments)) as server:
        async def script():
            kept, refusals = [], []
            async with httpx2.AsyncClient(timeout=60) as web:
                async with Client(streamable_http_client(server.url, http_client=web)) as client:
                    await ask(client, "project", action="create", name="P")
                    for number in range(400):
                        item = {"title": f"item {number}", "description": "many words " * 1500}
                        result = await client.call_tool("work_item_create", item)
                        if result.is_error:
                            refusals.append(error_of(result))
                        else:
                            kept.append(item["title"])
                        if len(refusals) == 5:
                            break
                    # What is there can still be read.
                    page = await ask(client, "work_item_query", limit=100)
                    assert [item["title"] for item in page["items"]] == kept[:-101:-1]
                    more = ["-U", "--preserve-credentials"] if os.getuid() else []
                    done = subprocess.run(["nsenter", "-t", str(server.process.pid), "-m", *more, "mount", "-o", "remount,size=30m",
                                           str(data)], capture_output=True, text=True, timeout=20)
                    assert done.returncode == 0, done.stderr
                    await ask(client, "work_item_create", title="after")
                    titles = [item["title"] for item in (await ask(client, "work_item_query", limit=2))["items"]]
                    assert titles == ["after", kept[-1]]
            assert len(kept) > 10 and len(refusals) == 5, (len(kept), len(refusals))
            for error in refusals:
                assert error["code"] == "unavailable" and "the disk is full" in error["message"], error
                assert error["message"].startswith("nothing was written") and error["data"]["retry_after_ms"] > 0, error

        asyncio.run(script())


def test_a_disk_that_may_not_be_written_is_told(tmp_path):
    data = tmp_path / "flow"
    flow(data, "add", "one", "--project", "P")
    read_only = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
    for words, code, said in [(["add", "two"], 2, "Read-only file system"), (["board"], 0, "one")]:
        arguments = [str(WEIR), "flow", *words, "--data", str(data)]
        done = subprocess.run(in_mounts(read_only, data, arguments), capture_output=True, text=True, timeout=30)
        assert done.returncode == code and said in done.stdout + done.stderr, done
    assert "two" not in flow(data, "board")
