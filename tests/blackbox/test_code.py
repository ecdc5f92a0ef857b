"""Code search as agents have it: the official clients of two languages drive every tool, over stdio, over HTTP and
through the gate; sessions share one index; nothing leaves the roots."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from gateway import ROOT, SERVERS, WEIR, Gateway

TYPESCRIPT = Path(__file__).parent / "clients/typescript.mjs"
NODE = ROOT / ".setup/node"
OURS = ["search_code", "find_related", "get_symbol", "find_files", "read_chunk", "index_repository", "index_status",
        "cancel_index", "list_repositories", "remove_repository"]
PEERS = ["start_indexing_background", "get_indexing_status", "set_working_directory"]
FILES = {
    "src/retry.py": '"""Calls that are made again."""\n\nMOST = 5\n\n\ndef retry_at_most(call, times=MOST):\n'
                    '    """Makes a call again until it passes."""\n    for _ in range(times):\n        if call():\n'
                    "            return True\n    return False\n",
    "src/use.py": "from retry import retry_at_most\n\n\ndef fetch_page(url):\n    return retry_at_most(lambda: url)\n",
    "src/price.rs": "/// What a car costs.\npub struct Price {\n    pub cents: u64,\n}\n\nimpl Price {\n"
                    "    /// The price of one automobile.\n    pub fn of_car(wheels: u64) -> Price {\n"
                    "        Price { cents: wheels * 100 }\n    }\n}\n",
    "docs/guide.md": "# Guide\n\n## Retries\n\nEvery call is made five times at most.\n",
    "web/app.ts": "export class Basket {\n  addItem(name: string): void {\n    this.items.push(name);\n  }\n}\n",
    ".gitignore": "out/\n",
    "out/built.py": "def never_found_built():\n    pass\n",
}


def tree(folder, files=FILES):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    return folder


@pytest.fixture
def shop(tmp_path):
    """A small repository, and a folder for its index."""
    return tree(tmp_path / "shop"), tmp_path / "index"


def command(shop, *more):
    root, data = shop
    return [str(WEIR), "tools", "code", "--root", str(root), "--data", str(data), *more]


def over_stdio(shop, *more, env=None, mode="auto"):
    program, *arguments = command(shop, "--stdio", *more)
    server = StdioServerParameters(command=program, args=arguments, env=env)
    return Client(stdio_client(server), mode=mode)


class Http:
    """The server over HTTP, on a port of its own."""

    def __init__(self, shop, *more):
        self.process = subprocess.Popen(command(shop, "--http", "127.0.0.1:0", *more), stdout=subprocess.PIPE)
        self.url = self.process.stdout.readline().decode().strip()
        self.port = int(self.url.rsplit(":")[-1].split("/")[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def text_of(result):
    return "".join(getattr(part, "text", "") for part in result.content)


async def ask(client, name, /, **arguments):
    """What a tool answers, as structure; and that its text says something."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, (name, text_of(result))
    assert text_of(result).strip(), name
    return result.structured_content


async def refused(client, name, /, **arguments):
    result = await client.call_tool(name, arguments)
    assert result.is_error, (name, result.structured_content)
    return text_of(result)


async def indexed(client):
    job = await ask(client, "index_repository", wait_s=50)
    assert job["state"] == "done", job
    return job


def paths(answer):
    return [hit["path"] for hit in answer["hits"]]


async def every_tool(client):
    """Each of the ten, with what it has to find."""
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == OURS
    for tool in listed:
        assert tool.output_schema and tool.annotations.open_world_hint is False, tool.name
        assert tool.annotations.read_only_hint is (tool.name.split("_")[0] not in ("index", "cancel", "remove")
                                                   or tool.name == "index_status"), tool.name
    job = await indexed(client)
    assert job["repository"] == "shop" and job["files_seen"] >= 6, job

    found = await ask(client, "search_code", query="make a call again until it passes")
    assert paths(found)[0] == "src/retry.py" and found["coverage"] == 1, found
    exact = await ask(client, "search_code", query="retry_at_most(", mode="text")
    assert {"src/retry.py", "src/use.py"} == set(paths(exact)), exact
    regex = await ask(client, "search_code", query=r"fn of_\w+", mode="regex")
    assert paths(regex) == ["src/price.rs"], regex
    assert not (await ask(client, "search_code", query="never_found_built", mode="text"))["hits"]
    only = await ask(client, "search_code", query="retry", languages=["markdown"])
    assert set(paths(only)) <= {"docs/guide.md"}, only

    hit = found["hits"][0]
    lines = await ask(client, "read_chunk", ref=hit["ref"], context=2)
    assert "def retry_at_most" in lines["text"] and not lines["changed"]
    await ask(client, "find_related", ref=hit["ref"])
    defined = await ask(client, "get_symbol", name="retry_at_most")
    assert paths(defined)[0] == "src/retry.py"
    used = await ask(client, "get_symbol", name="retry_at_most", want="references")
    assert "src/use.py" in paths(used)
    outline = await ask(client, "get_symbol", want="outline", path="src/price.rs")
    assert any("of_car" in (one.get("symbol") or "") for one in outline["hits"]), outline
    files = await ask(client, "find_files", query="**/*.ts")
    assert [one["path"] for one in files["files"]] == ["web/app.ts"]
    status = await ask(client, "index_status")
    assert status["vectors"]["configured"] is False
    over = await ask(client, "cancel_index", job=job["id"])
    assert over["state"] == "done"
    assert [one["repository"] for one in (await ask(client, "list_repositories"))["repositories"]] == ["shop"]
    assert (await ask(client, "remove_repository", repository="shop"))["repository"] == "shop"
    assert (await ask(client, "list_repositories"))["repositories"] == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_over_stdio(shop, mode):
    async def script():
        async with over_stdio(shop, mode=mode) as client:
            await every_tool(client)

    asyncio.run(script())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_over_http(shop, mode):
    async def script(url):
        async with httpx2.AsyncClient(timeout=60) as web:
            async with Client(streamable_http_client(url, http_client=web), mode=mode) as client:
                await every_tool(client)

    with Http(shop) as server:
        asyncio.run(script(server.url))


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_typescript_client(shop, way):
    calls = [
        {"name": "index_repository", "arguments": {"wait_s": 50}},
        {"name": "search_code", "arguments": {"query": "retry_at_most"}},
        {"name": "get_symbol", "arguments": {"name": "Basket"}},
        {"name": "find_files", "arguments": {"query": "price"}},
        {"name": "read_chunk", "arguments": {"path": "docs/guide.md", "start_line": 1, "end_line": 3}},
        {"name": "index_status", "arguments": {}},
        {"name": "list_repositories", "arguments": {}},
        {"name": "search_code", "arguments": {"query": "x", "limit": 51}},
        {"name": "remove_repository", "arguments": {"repository": "shop"}},
    ]

    def run(server):
        done = subprocess.run(["node", str(TYPESCRIPT), str(NODE), *server], input=json.dumps(calls), text=True,
                              capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["tools"] == OURS
        by = [(call["name"], call["error"]) for call in said["calls"]]
        assert by == [(call["name"], call["arguments"].get("limit") == 51) for call in calls], said
        assert said["calls"][0]["structured"]["state"] == "done"
        assert said["calls"][1]["structured"]["hits"][0]["path"] == "src/retry.py"
        assert said["calls"][2]["structured"]["hits"][0]["path"] == "web/app.ts"

    if way == "stdio":
        return run(command(shop, "--stdio"))
    with Http(shop) as server:
        run([server.url])


def test_the_names_of_codebase_mcp(shop):
    root, _ = shop
    (root / ".codebase-mcp").mkdir()
    config = {"version": "1.0", "project": {"name": "fruit"}}
    (root / ".codebase-mcp/config.json").write_text(json.dumps(config))
    before = (root / ".codebase-mcp/config.json").read_bytes()

    async def listed():
        async with over_stdio(shop, "--compat", "codebase") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {*OURS, *PEERS}
            assert "project_id" in tools["search_code"].input_schema["properties"]
            await peer(client)

    async def hidden():
        """Not listed, and answered all the same."""
        async with over_stdio(shop) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == OURS
            said = await ask(client, "start_indexing_background", repo_path=str(root), project_id="fruit")
            assert said["status"] == "pending"

    async def peer(client):
        set_ = await ask(client, "set_working_directory", directory=str(root / "src"))
        assert set_["config_found"] and set_["project_info"]["name"] == "fruit", set_
        started = await ask(client, "start_indexing_background", repo_path=str(root))
        assert started["status"] == "pending" and started["message"] == "Indexing job started"
        assert started["project_id"] == "fruit" and started["database_name"].startswith("cb_proj_fruit_")

        async def status():
            return await ask(client, "get_indexing_status", job_id=started["job_id"])

        last = await status()
        while last["status"] in ("pending", "running"):
            last = await status()
        assert last["status"] == "completed" and last["completed_at"], last
        assert last["status_message"].startswith(("Full repository index completed", "Repository up to date"))
        found = await ask(client, "search_code", query="make a call again", limit=3)
        assert set(found) >= {"results", "total_count", "project_id", "database_name", "latency_ms"}
        first = found["results"][0]
        assert first["file_path"] == "src/retry.py" and first["similarity_score"] == 1, first
        assert set(first) >= {"chunk_id", "content", "start_line", "end_line", "context_before", "context_after"}
        assert str(root) not in json.dumps([found, last]), "a path of the host"
        for wrong, text in [({"query": " "}, "cannot be empty"), ({"query": "x", "limit": 0}, "between 1 and 50"),
                            ({"query": "x", "repository_id": "7"}, "Invalid repository_id format"),
                            ({"query": "x", "file_type": ".py"}, "leading dot"),
                            ({"query": "x", "directory": ""}, "directory cannot be empty"),
                            ({"query": "x", "project_id": "nobody"}, "Project not found")]:
            assert text in await refused(client, "search_code", **wrong), wrong
        assert "Invalid job_id format" in await refused(client, "get_indexing_status", job_id="x")
        unknown = "00000000-0000-4000-8000-000000000000"
        assert "Job not found" in await refused(client, "get_indexing_status", job_id=unknown)
        for path in ("relative", "/etc"):
            await refused(client, "start_indexing_background", repo_path=path)
            await refused(client, "set_working_directory", directory=path)
        await refused(client, "start_indexing_background", repo_path=f"{root}/../shop")

    asyncio.run(listed())
    asyncio.run(hidden())
    assert (root / ".codebase-mcp/config.json").read_bytes() == before


def test_an_argument_that_is_wrong_is_named(shop):
    async def script():
        async with over_stdio(shop) as client:
            await indexed(client)
            for name, arguments, text in [
                ("search_code", {"query": "x", "limit": 0}, "limit"),
                ("search_code", {"query": "x", "mode": "fuzzy"}, "mode"),
                ("search_code", {"query": "x", "langauges": ["rust"]}, "langauges"),
                ("search_code", {"query": "("}, ""),
                ("search_code", {"query": "(", "mode": "regex"}, "query"),
                ("search_code", {"query": "x", "repositories": ["nobody"]}, "shop"),
                ("find_related", {}, "ref"),
                ("get_symbol", {"name": 7}, "name"),
                ("read_chunk", {"ref": "nonsense"}, ""),
                ("index_repository", {"wait_s": 51}, "wait_s"),
                ("cancel_index", {"job": "nobody"}, "index_status"),
                ("remove_repository", {}, "repository"),
            ]:
                result = await client.call_tool(name, arguments)
                if text:
                    assert result.is_error and text in text_of(result), (name, arguments, text_of(result))
            with pytest.raises(Exception, match="no tool"):
                await client.call_tool("drop_tables", {})

    asyncio.run(script())


def test_nothing_outside_the_roots(shop, tmp_path):
    root, _ = shop
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary.py").write_text("def canary_of_others():\n    pass\n")
    (root / "link").symlink_to(outside)
    (root / "linked.py").symlink_to(outside / "canary.py")

    async def script():
        async with over_stdio(shop) as client:
            await indexed(client)
            for path in ("..", "/etc", str(outside), f"{root}/../outside", "link"):
                said = await refused(client, "index_repository", path=path)
                assert "canary" not in said
            for path in ("../outside/canary.py", "link/canary.py", "linked.py", str(outside / "canary.py"),
                         "/etc/passwd"):
                result = await client.call_tool("read_chunk", {"path": path})
                assert "canary_of_others" not in text_of(result) and "root:" not in text_of(result), path
            found = await ask(client, "search_code", query="canary_of_others", mode="text")
            assert not found["hits"], found

    asyncio.run(script())


def test_a_change_is_found(shop):
    root, _ = shop

    async def script():
        async with over_stdio(shop) as client:
            await indexed(client)
            (root / "src/new.py").write_text("def fresh_as_paint():\n    pass\n")
            (root / "src/use.py").unlink()

            async def seen():
                found = await ask(client, "search_code", query="fresh_as_paint", mode="text")
                gone = await ask(client, "search_code", query="fetch_page", mode="text")
                return paths(found) == ["src/new.py"] and not gone["hits"]

            for _ in range(200):
                if await seen():
                    return
                await asyncio.sleep(0.02)
            raise AssertionError("the change was not found")

    asyncio.run(script())


async def owner(shop):
    """A session that owns the index until the event, in a task of its own."""
    owns, ends = asyncio.Event(), asyncio.Event()

    async def session():
        async with over_stdio(shop) as client:
            await indexed(client)
            owns.set()
            await ends.wait()

    task = asyncio.create_task(session())
    await asyncio.wait({task, asyncio.create_task(owns.wait())}, return_when=asyncio.FIRST_COMPLETED)
    return task, ends


def test_sessions_share_one_index_and_outlive_its_owner(shop):
    async def script():
        first, ends = await owner(shop)
        async with over_stdio(shop) as second, over_stdio(shop) as third:
            both = await asyncio.gather(*(ask(one, "search_code", query="retry_at_most", mode="text")
                                          for one in (second, third)))
            assert all(set(paths(answer)) == {"src/retry.py", "src/use.py"} for answer in both)
            ends.set()
            await first
            for one in (second, third, second):
                answer = await ask(one, "search_code", query="retry_at_most", mode="text")
                assert set(paths(answer)) == {"src/retry.py", "src/use.py"}, answer

    asyncio.run(script())


def test_a_data_folder_is_of_its_roots(shop, tmp_path):
    """A process with other roots is not answered by the owner, and is told nothing of it when it goes on."""
    _, data = shop
    other = tree(tmp_path / "other", {"canary.py": "def canary_of_other():\n    pass\n"})

    async def script():
        first, ends = await owner(shop)
        async with over_stdio((other, data)) as second:
            for name, arguments in [("search_code", {"query": "retry_at_most"}), ("find_files", {"query": ""}),
                                    ("list_repositories", {}), ("read_chunk", {"path": "src/retry.py"})]:
                said = await refused(second, name, **arguments)
                assert "other roots" in said and "src/" not in said, said
            ends.set()
            await first
            await indexed(second)
            found = await ask(second, "find_files", query="")
            assert [one["path"] for one in found["files"]] == ["canary.py"], found
            assert [one["repository"] for one in (await ask(second, "list_repositories"))["repositories"]] == ["other"]

    asyncio.run(script())


def test_progress_is_told(shop, tmp_path):
    root, _ = shop
    for i in range(600):
        (root / f"src/many{i}.py").write_text(f"def number_{i}(x):\n    return x + {i}\n" * 40)
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    async def script():
        async with over_stdio(shop) as client:
            result = await client.call_tool("index_repository", {"wait_s": 50, "force": True}, progress_callback=progress)
            assert result.structured_content["state"] == "done"

    asyncio.run(script())
    done = [one[0] for one in told]
    assert done and done == sorted(set(done)), told
    assert all("files" in message for _, _, message in told)


def test_behind_the_gate(shop, tmp_path):
    root, data = shop
    policy = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);
@id("find") permit (principal, action == Action::"mcp:call", resource in Server::"code")
  unless { resource.name == "remove_repository" };
"""
    tools = {"code": {"roots": [str(root)], "data": str(data)}}
    with Gateway(tmp_path / "weir", {}, policy=policy, tools=tools) as gateway:
        async def script():
            headers = {"authorization": f"Bearer {gateway.keys['dev']}"}
            async with httpx2.AsyncClient(headers=headers, timeout=60) as web:
                async with Client(streamable_http_client(gateway.url("code"), http_client=web)) as client:
                    names = [tool.name for tool in (await client.list_tools()).tools]
                    assert names == [name for name in OURS if name != "remove_repository"]
                    await indexed(client)
                    found = await ask(client, "search_code", query="retry_at_most")
                    assert paths(found)[0] == "src/retry.py"
                    with pytest.raises(Exception, match="(?i)polic|permit|allow"):
                        await client.call_tool("remove_repository", {"repository": "shop"})

        asyncio.run(script())
        called = [one for one in gateway.records() if "search_code" in json.dumps(one)]
        assert called
        gateway.verify()


def test_what_is_the_gateways_own_is_not_there(tmp_path):
    """A root that holds the gateway's own folder: its state, its configuration and the files that it names are hidden."""
    gateway = Gateway(tmp_path / "weir", {}, tools={"code": {"roots": ["."]}},
                      identity={"trust_domain": "example.org", "passphrase": "file:deep/ca.pass"})
    own = {"deep/ca.pass": "correct horse battery staple", "deep/more.md": "beside it", "main.py": "def seen():\n    return 1\n",
           "statement.md": "# a statement beside the state folder\n"}
    for path, text in own.items():
        (gateway.folder / path).parent.mkdir(exist_ok=True)
        (gateway.folder / path).write_text(text)
    gateway.weir("ca", "init")

    async def script():
        headers = {"authorization": f"Bearer {gateway.keys['dev']}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as web:
            async with Client(streamable_http_client(gateway.url("code"), http_client=web)) as client:
                await indexed(client)
                found = await ask(client, "find_files", query="")
                assert {one["path"] for one in found["files"]} == {"deep/more.md", "main.py", "statement.md"}, found
                for path in ["state/token.key", "state/log/key", "weir.yaml", "policy.cedar", "deep/ca.pass"]:
                    await refused(client, "read_chunk", repository="weir", path=path)
                # Nor is the folder a repository of its own.
                await refused(client, "index_repository", path=str(gateway.state), wait_s=5)
    with gateway:
        asyncio.run(script())
    written = json.loads((gateway.folder / "weir.yaml").read_text())
    (gateway.folder / "weir.yaml").write_text(json.dumps({**written, "tools": {"code": {"roots": ["state"]}}}))
    said = gateway.weir("config", "check", check=False)
    assert said.returncode != 0 and "inside of the state folder" in said.stdout + said.stderr, said.stdout + said.stderr


def test_it_takes_from_itself_what_it_does_not_need(shop):
    with Http(shop) as server:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
        assert "NoNewPrivs:\t1" in status
        core = next(line for line in limits.splitlines() if line.startswith("Max core"))
        assert core.split()[4:6] == ["0", "0"], core


def test_other_sites_and_other_machines_are_refused(shop):
    with Http(shop) as server:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
            connection.request("POST", "/mcp", b"{}", headers)
            assert connection.getresponse().status == 403
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().status == 404
    done = subprocess.run(command(shop, "--http", "0.0.0.0:0"), capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "127.0.0.1" in done.stderr


def test_for_people(shop, tmp_path):
    root, _ = shop
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "NO_COLOR": "1"}

    def weir(*arguments):
        return subprocess.run([str(WEIR), "code", *arguments], cwd=root / "src", env=env, capture_output=True,
                              text=True, timeout=60)

    found = weir("search", "retry_at_most")
    assert found.returncode == 0 and found.stdout.startswith("src/retry.py:"), found
    assert "def retry_at_most" in found.stdout
    nothing = weir("search", "--mode", "text", "no such text anywhere")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", "nothing found\n"), nothing
    answer = json.loads(weir("search", "--json", "--detail", "paths", "Basket").stdout)
    assert answer["hits"][0]["path"] == "web/app.ts"
    job = json.loads(weir("index", "--json").stdout)
    assert job["state"] == "done" and job["files_indexed"] == 0, job
    assert weir("search", "--mode", "regex", "(").returncode == 2
    assert not (root / ".codebase-mcp").exists() and (tmp_path / "home/.cache/weir/code").is_dir()


@pytest.fixture
def endpoint():
    process = subprocess.Popen([sys.executable, str(SERVERS / "embedding.py")], stdout=subprocess.PIPE)
    port = int(process.stdout.readline())

    def ask(method, path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request(method, path, b"" if method == "POST" else None)
        return json.loads(connection.getresponse().read())

    yield port, ask
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_vectors(shop, endpoint, kind):
    port, ask_endpoint = endpoint
    ask_endpoint("POST", "/fail?times=2")
    more = ["--embed-url", f"http://127.0.0.1:{port}", "--embed-kind", kind, "--embed-model", "words",
            "--embed-query-prefix", "query: ", "--embed-document-prefix", "text: "]
    env = {"PATH": os.environ["PATH"], "WEIR_EMBED_KEY": "hush"}

    async def script():
        async with over_stdio(shop, *more, env=env) as client:
            await indexed(client)
            for _ in range(500):
                vectors = (await ask(client, "index_status"))["vectors"]
                if vectors["vectors"] and not vectors["waiting"]:
                    break
                await asyncio.sleep(0.02)
            assert vectors["configured"] and vectors["vectors"] and not vectors["waiting"], vectors
            # None of these words stands in the tree: only likeness finds it.
            found = await ask(client, "search_code", query="vehicle fee", mode="semantic", explain=True)
            assert paths(found)[0] == "src/price.rs", found
        async with over_stdio(shop, *more, env=env) as client:
            before = len(ask_endpoint("GET", "/seen"))
            await indexed(client)
            assert (await ask(client, "index_status"))["vectors"]["vectors"] == vectors["vectors"]
            assert len(ask_endpoint("GET", "/seen")) == before, "vectors were made again"

    asyncio.run(script())
    seen = ask_endpoint("GET", "/seen")
    assert {one["path"] for one in seen} == {"/api/embed" if kind == "ollama" else "/v1/embeddings"}
    assert all(one["key"] == "Bearer hush" and one["model"] == "words" for one in seen)
    texts = [text for one in seen for text in one["input"]]
    assert all(text.startswith(("query: ", "text: ")) for text in texts)
    assert any(len(one["input"]) > 1 for one in seen), "one by one"


def test_without_the_endpoint_words_still_find(shop):
    more = ["--embed-url", "http://127.0.0.1:9", "--embed-model", "words"]

    async def script():
        async with over_stdio(shop, *more) as client:
            await indexed(client)
            found = await ask(client, "search_code", query="make a call again until it passes", mode="semantic")
            assert paths(found)[0] == "src/retry.py"

    asyncio.run(script())


def test_a_line_that_is_too_long_is_answered(shop):
    """It is an error to whoever asked, and nothing before or behind it is lost."""
    process = subprocess.Popen(command(shop, "--stdio"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    answers = {}

    def send(method, id=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        process.stdin.write(json.dumps(message if id is None else {"id": id, **message}).encode() + b"\n")
        process.stdin.flush()

    def read(count):
        for _ in range(count):
            line = process.stdout.readline()
            assert line, f"it ended; answers: {list(answers)}"
            message = json.loads(line)
            answers[message.get("id")] = message

    long = "x" * (5 << 20)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    # Also before the session begins, and of what has no id.
    send("initialize", 1, **hello, more=long)
    read(1)
    send("initialize", 2, **hello)
    read(1)
    send("notifications/initialized")
    send("tools/list", 3)
    send("tools/call", "four", name="search_code", arguments={"query": long})
    send("tools/list", 5)
    read(3)
    send("notifications/progress", progressToken=1, progress=1, message=long)
    send("ping", 6)
    read(2)
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()
    assert set(answers) == {1, 2, 3, "four", 5, None, 6}
    for id in (1, "four", None):
        assert answers[id]["error"]["code"] == -32600 and "bytes" in answers[id]["error"]["message"], answers[id]
    assert all("result" in answers[id] for id in (2, 3, 5, 6)), answers


def test_it_ends_when_its_client_goes(shop):
    process = subprocess.Popen(command(shop, "--stdio"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()
    process = subprocess.Popen(command(shop, "--stdio"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "weir-code"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM
    process.stdin.close()
    process.stdout.close()
