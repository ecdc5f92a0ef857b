"""Servers are added, changed and taken out while the gateway serves: on a reload, without a failed call on their neighbours."""

import json
import re
import threading
from pathlib import Path

import pytest

from gateway import Gateway, Origin, child_server, until
from test_pins import Changing, add, listed, pins, subtract, waits


@pytest.fixture
def origins():
    servers = [Origin(), Origin()]
    yield servers
    for server in servers:
        server.stop()


def reload(gateway, change):
    """Changes `mcp` in the configuration, and waits until that is in force."""
    path = gateway.folder / "weir.yaml"
    config = json.loads(path.read_text())
    change(config["mcp"])
    before = gateway.logs.text().count('"reloaded"')
    path.write_text(json.dumps(config, indent=1))
    until(lambda: gateway.logs.text().count('"reloaded"') > before, "it is reloaded")


def calls_of(origin):
    return origin.seen().get("tools/call echo", 0)


def echo(gateway, server, session=None):
    session = session or gateway.session(server)
    answer = session.call("echo", "hello")
    assert answer.status == 200 and "hello" in answer.body.decode(), (server, answer.status, answer.body)
    return session


def health(gateway):
    return gateway.operator("/health").json()["servers"]


def children(gateway):
    """The processes of servers, without the guards that stand between."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            environ = (stat.parent / "environ").read_bytes()
            if f"WEIR_TEST={gateway.folder}".encode() in environ and b"child.py" in stat.read_bytes().split(b"\0")[1]:
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError, IndexError, PermissionError):
            pass
    return sorted(found)


def marked(folder):
    return {**child_server(), "env": {"WEIR_TEST": str(folder)}}


class Load:
    """Calls of one server, one after the other, from several threads, until it is left."""

    def __init__(self, gateway, server, threads=4):
        self.gateway, self.server = gateway, server
        self.done, self.failed, self.stop = 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(threads)]

    def run(self):
        session = self.gateway.session(self.server)
        while not self.stop.is_set():
            answer = session.call("echo", "again")
            if answer.status != 200 or b"again" not in answer.body:
                self.failed.append((answer.status, answer.body))
            self.done += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        until(lambda: self.done > 20, "calls are under way")
        return self

    def __exit__(self, *_):
        before = self.done
        until(lambda: self.done > before + 20, "calls go on")
        self.stop.set()
        for thread in self.threads:
            thread.join(20)
        assert not self.failed, (self.server, len(self.failed), self.done, self.failed[:3])


def test_servers_come_change_and_go_under_load(origins, tmp_path):
    one, two = origins
    servers = {"web": {"url": one.url}, "child": child_server(), "old": {"url": two.url}, "stays": child_server()}
    with Gateway(tmp_path, servers) as gateway:
        with Load(gateway, "web"), Load(gateway, "child"):
            assert gateway.post("new", {}).refusal()[0] == "mcp.server_unknown"
            reload(gateway, lambda mcp: mcp.update(new={"url": two.url}, maid=child_server()))
            echo(gateway, "new")
            echo(gateway, "maid")
            assert set(health(gateway)) == {"web", "child", "old", "stays", "new", "maid"}
            until(lambda: health(gateway)["new"] == health(gateway)["maid"] == "works", "they are watched")

            reload(gateway, lambda mcp: mcp.pop("old"))
            assert gateway.post("old", {}).refusal()[0] == "mcp.server_unknown"
            assert "old" not in health(gateway)

            kept = echo(gateway, "stays")
            before = calls_of(two)
            reload(gateway, lambda mcp: mcp.update(new={"url": one.url}))
            echo(gateway, "new")
            assert calls_of(two) == before, "the old address is called"
            echo(gateway, "stays", kept)
        page = gateway.operator("/metrics").body.decode()
        up = dict(re.findall(r'weir_server_up\{server="(\w+)"\} (\d)', page))
        assert set(up) == {"web", "child", "stays", "new", "maid"}
        assert re.search(r'weir_judgements_total\{server="new",code="passed"\} [1-9]', page)
        gateway.verify()
    changes = [record for record in gateway.records() if record.get("what") == "reload"]
    assert [record["changed"] for record in changes] == [["mcp.maid", "mcp.new"], ["mcp.old"], ["mcp.new.url"]]
    assert not any("waiting" in record for record in changes)


def test_a_server_changes_from_a_command_to_a_url_and_back(origins, tmp_path):
    with Gateway(tmp_path, {"it": child_server(), "other": child_server()}) as gateway:
        with Load(gateway, "other"):
            echo(gateway, "it")
            reload(gateway, lambda mcp: mcp.update(it={"url": origins[0].url}))
            echo(gateway, "it")
            assert calls_of(origins[0]) == 1
            reload(gateway, lambda mcp: mcp.update(it=child_server()))
            echo(gateway, "it")
            assert calls_of(origins[0]) == 1


def test_calls_under_way_end_by_the_settings_that_passed_them(tmp_path):
    """The child of a server that changed answers what it was asked, and ends then; its session begins no other call."""
    servers = {"it": marked(tmp_path), "other": child_server()}
    with Gateway(tmp_path, servers) as gateway:
        session, bystander = gateway.session("it"), gateway.session("other")
        until(lambda: len(children(gateway)) == 1, "the child of the session runs")
        old = children(gateway)
        message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call",
                   "params": {"name": "stream", "arguments": {}, "_meta": {"progressToken": 1}}}
        slow = gateway.connect()
        slow.request("POST", "/mcp/it", json.dumps(message), gateway.headers(**session.extra))
        answer = slow.getresponse()
        assert answer.status == 200 and answer.readline(), "the answer began"
        reload(gateway, lambda mcp: mcp["it"].update(session_idle_ms=77_777))
        refused = session.call("echo", "hello")
        assert refused.status == 404 and refused.refusal()[0] == "mcp.session_unknown"
        assert set(old) <= set(children(gateway))
        echo(gateway, "it")
        assert b"streamed" in answer.read()
        until(lambda: not set(old) & set(children(gateway)), "the old child ends")
        echo(gateway, "other", bystander)


def test_tools_of_a_server_that_was_added_are_pinned(tmp_path):
    server = Changing(tmp_path / "tools", "calc", add(), subtract())
    with Gateway(tmp_path / "weir", {"other": child_server()}) as gateway:
        reload(gateway, lambda mcp: mcp.update(calc=server.command()))
        assert listed(gateway, "calc") == ["add", "subtract"]
        waits(gateway, "calc", "add", "approved")
        server.set(add("Adds two numbers, and more."), subtract())
        assert listed(gateway, "calc") == ["subtract"]
        waits(gateway, "calc", "add", "changed")
        # What was approved holds when the server was away.
        reload(gateway, lambda mcp: mcp.pop("calc"))
        reload(gateway, lambda mcp: mcp.update(calc=server.command()))
        assert listed(gateway, "calc") == ["subtract"]
        assert pins(gateway)["calc", "add"]["state"] == "changed"


def test_a_configuration_that_is_not_good_changes_nothing(origins, tmp_path):
    with Gateway(tmp_path, {"web": {"url": origins[0].url}}) as gateway:
        path = gateway.folder / "weir.yaml"
        good = path.read_text()
        config = json.loads(good)
        config["mcp"]["bad"] = {"url": "https://x.example", "command": ["true"]}
        config["mcp"].pop("web")
        path.write_text(json.dumps(config))
        until(lambda: "not reloaded" in gateway.logs.text(), "it is refused")
        echo(gateway, "web")
        assert set(health(gateway)) == {"web"}
