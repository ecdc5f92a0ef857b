"""The reverse proxy: a service of the operator's behind a listener of its own, with clients that know of no proxy."""

import asyncio
import json
import os

import httpx
import pytest
import requests
from websockets.asyncio.client import connect

from gateway import WAIT_S, Gateway, until
from test_web import AGENTS, ORDER, SECRET, SENTENCE, site  # noqa: F401
from test_web_socket import Echo

TOKEN = "the-token-of-the-service-4711"
POLICY = """
@id("read") permit (principal, action == Action::"web:get", resource == Server::"wiki");
@id("write") permit (principal in Group::"engineers", action == Action::"web:send", resource)
  when { resource == Server::"wiki" || resource == Server::"talk" };
@id("talk") permit (principal in Group::"engineers", action == Action::"web:get", resource == Server::"talk");
"""


class Reverse:
    """A gateway before a site, as the services `wiki` and, for its WebSocket, `talk`."""

    def __init__(self, folder, site, echo):  # noqa: F811
        os.environ["WIKI_TOKEN"] = TOKEN
        services = {"wiki": {"listen": "127.0.0.1:0", "url": f"{site.plain}/", "token": "env:WIKI_TOKEN"},
                    "below": {"listen": "127.0.0.1:0", "url": f"{site.plain}/text"},
                    "talk": {"listen": "127.0.0.1:0", "url": f"http://localhost:{echo.port}"}}
        self.site, self.gateway = site, Gateway(folder, {}, AGENTS, POLICY, web={"reverse": services})

    def __enter__(self):
        self.gateway.start()
        lines = until(lambda: [json.loads(line) for line in self.gateway.logs.all if '"reverse proxy"' in line][2:] and
                      [json.loads(line) for line in self.gateway.logs.all if '"reverse proxy"' in line], "the services")
        self.at = {line["service"]: line["address"] for line in lines}
        return self

    def __exit__(self, *_):
        self.gateway.verify()
        self.gateway.stop()

    def ask(self, path, agent="dev", method="GET", service="wiki", headers=None, **more):
        shown = {"authorization": f"Bearer {self.gateway.keys[agent]}"} if agent else {}
        return requests.request(method, f"http://{self.at[service]}{path}", headers={**shown, **(headers or {})},
                                timeout=WAIT_S, allow_redirects=False, **more)

    def seen(self):
        return [request for request in self.site.seen() if request["path"] != "/seen"]


@pytest.fixture(scope="module")
def echo():
    return Echo()


@pytest.fixture(scope="module")
def reverse(site, echo, tmp_path_factory):  # noqa: F811
    with Reverse(tmp_path_factory.mktemp("reverse"), site, echo) as running:
        yield running


def test_a_service_answers_as_it_does_directly(reverse):
    for path in ("/text", "/page", "/text?t=words%20and%20more", "/coded?c=gzip", "/events"):
        direct = requests.get(f"{reverse.site.plain}{path}", timeout=WAIT_S)
        through = reverse.ask(path)
        assert (through.status_code, through.content) == (direct.status_code, direct.content), path
        assert through.headers.get("content-type") == direct.headers.get("content-type")
    sent = reverse.ask("/text", method="POST", data=SENTENCE * 3)
    assert sent.status_code == 200
    request = reverse.seen()[-1]
    # The service is told the operator's token, and the key stays here.
    assert request["headers"]["authorization" if "authorization" in request["headers"] else "Authorization"] == f"Bearer {TOKEN}"
    assert reverse.gateway.keys["dev"] not in json.dumps(reverse.site.seen())
    assert httpx.get(f"http://{reverse.at['wiki']}/text", headers={"proxy-authorization": f"Bearer {reverse.gateway.keys['dev']}"}).status_code == 200


def test_what_is_asked_and_answered_is_judged(reverse):
    before = len(reverse.seen())
    for path, more in ((f"/text?t={SECRET}", {}), (f"/text/{SECRET}", {}), ("/text", {"method": "POST", "json": {"a": [SECRET]}}),
                       ("/text", {"headers": {"x-note": SECRET}}),
                       ("/text?t=" + "".join(f"%{ord(c):02x}" for c in SECRET), {})):
        answer = reverse.ask(path, **more)
        assert answer.status_code == 403 and answer.json()["code"] == "scan.secret", (path, answer.text)
    assert len(reverse.seen()) == before
    order = reverse.ask("/text?t={order}")
    assert order.status_code != 200 or ORDER not in order.text
    leak = reverse.ask("/text?t=the+key+is+{key}+as+it+was")
    assert SECRET not in leak.text and "redacted" in leak.text


def test_a_token_does_not_come_back(reverse):
    answer = reverse.ask("/echo", method="POST", data="x")
    assert TOKEN not in answer.text
    assert TOKEN not in json.dumps(reverse.gateway.records()) and TOKEN not in reverse.gateway.logs.text()


def test_a_redirect_of_the_service_leads_back(reverse):
    for to, there in ((f"{reverse.site.plain}/text?t=a", "/text?t=a"), ("https://other.example/x", "https://other.example/x")):
        answer = reverse.ask("/to", params={"u": to})
        assert answer.status_code == 302 and answer.headers["location"] == there


def test_who_may_not_is_refused(reverse):
    assert reverse.ask("/text", agent=None).status_code == 401
    assert reverse.ask("/text", agent="guest").status_code == 200
    denied = reverse.ask("/text", agent="guest", method="POST", data="x")
    assert denied.status_code == 403 and denied.json()["code"] == "policy.forbidden"
    assert reverse.ask("/", service="below").json()["code"] == "policy.forbidden"
    told = until(lambda: [r for r in reverse.gateway.records() if r.get("call") == denied.json()["call"]], "a record")
    assert told[0]["server"] == "wiki" and told[0]["action"] == "web:send"


def test_what_is_no_path_of_the_service_is_refused(reverse):
    assert reverse.ask("/%2e%2e/page", service="below").json()["code"] in ("web.url_invalid", "policy.forbidden")
    upgrade = reverse.ask("/text", headers={"connection": "upgrade", "upgrade": "h2c"})
    assert upgrade.json()["code"] == "web.unsupported"


def test_a_websocket_of_a_service(reverse, echo):
    async def talk(message):
        key = {"Authorization": f"Bearer {reverse.gateway.keys['dev']}"}
        async with connect(f"ws://{reverse.at['talk']}/talk", additional_headers=key, proxy=None) as socket:
            await socket.send(message)
            return await asyncio.wait_for(socket.recv(), WAIT_S)

    assert asyncio.run(talk("hello")) == "hello"
    assert SECRET not in asyncio.run(talk("leak"))
    assert reverse.gateway.keys["dev"] not in json.dumps(echo.heads)


def test_a_service_that_is_written_wrongly_is_said_at_the_start(tmp_path):
    def problems(**service):
        gateway = Gateway(tmp_path, {}, AGENTS, POLICY, web={"reverse": {"wiki": service}})
        done = gateway.weir("config", "check", check=False)
        assert done.returncode != 0
        return done.stdout + done.stderr

    assert "web.reverse.wiki" in problems(url="http://localhost:1")
    assert "listen_public" in problems(url="http://localhost:1", listen="0.0.0.0:8704")
    assert "in the clear" in problems(url="http://wiki.example", listen="127.0.0.1:0", token="env:WIKI_TOKEN")
    assert "without a query" in problems(url="http://localhost:1/?a=b", listen="127.0.0.1:0")
