"""WebSocket through the web lane: in the proxy plain, looked into, and at /ws, with a client and a server that others wrote."""

import asyncio
import threading
from urllib.parse import quote

import pytest
import websockets
from websockets.asyncio.client import connect
from websockets.sync.server import serve

from gateway import until
from test_stops import change, set_state
from test_web import ORDER, POLICY, SECRET, VALUE, House, Site, site  # noqa: F401

WAIT_S = 10


class Echo:
    """A server that says back what it hears, and more where it is asked for that."""

    def __init__(self):
        self.heard, self.heads, self.codes = [], [], []
        chosen = lambda _, offered: next((known for known in ("two", "one") if known in offered), None)
        self.server = serve(self.talk, "127.0.0.1", 0, select_subprotocol=chosen, max_size=None, compression="deflate")
        self.port = self.server.socket.getsockname()[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def talk(self, socket):
        self.heads.append(dict(socket.request.headers.raw_items()))
        try:
            for message in socket:
                self.heard.append(message)
                if message == "bye":
                    return socket.close(4321, "as asked")
                said = {"order": ORDER, "leak": f"the key is {SECRET}", "json": f'{{"key": "{SECRET}"}}', "cut": f"the key is {SECRET[:7]}",
                        "rest": SECRET[7:] + " and more", "bytes": b"\0\1\2", "large": "x" * 300_000}.get(message, message)
                if message == "credential":
                    said = "you sent " + socket.request.headers.get("Authorization", "nothing")
                socket.send(said)
        except websockets.ConnectionClosed:
            pass
        finally:
            self.codes.append(socket.protocol.close_rcvd.code if socket.protocol.close_rcvd else None)

    @property
    def url(self):
        return f"ws://localhost:{self.port}/talk"


@pytest.fixture(scope="module")
def echo():
    return Echo()


@pytest.fixture(scope="module")
def house(site, tmp_path_factory):  # noqa: F811
    credentials = {"api": {"hosts": ["localhost"], "value": "file:value"}}
    with House(tmp_path_factory.mktemp("socket") / "weir", site, intercept=True, credentials=credentials,
               socket={"message_bytes_max": 200_000}) as house:
        yield house


def at(house, url, how, agent="dev"):
    """What `connect` is given to reach a URL: by the proxy, or by /ws."""
    if how == "proxy":
        return {"uri": url, "proxy": house.url(agent)}
    key = {"Authorization": f"Bearer {house.key(agent)}"}
    return {"uri": f"ws://127.0.0.1:{house.gateway.port}/ws?url={quote(url, safe='')}", "additional_headers": key, "proxy": None}


def talk(house, url, *messages, how="proxy", agent="dev", **more):
    """Says messages one by one; gives what was answered, and the code of the close where there was one."""
    async def all_of():
        heard = []
        async with connect(**at(house, url, how, agent), open_timeout=WAIT_S, max_size=None, **more) as socket:
            try:
                for message in messages:
                    await socket.send(message)
                    heard.append(await asyncio.wait_for(socket.recv(), WAIT_S))
            except websockets.ConnectionClosed as closed:
                return heard, closed.rcvd and closed.rcvd.code
            return heard, None
    return asyncio.run(all_of())


BOTH = pytest.mark.parametrize("how", ["proxy", "ws"])


@BOTH
def test_messages_go_both_ways_in_frames_of_any_number(house, echo, how):
    text = "The river is low today. " * 100
    pieces = [text[at:at + 77] for at in range(0, len(text), 77)]
    heard, code = talk(house, echo.url, "one", pieces, "{\"a\": [1, 2]}", "ü" * 500, how=how)
    assert (heard, code) == (["one", text, "{\"a\": [1, 2]}", "ü" * 500], None)
    ended = until(lambda: [r for r in house.gateway.records() if r["kind"] == "outcome" and r.get("status") == 101], "the end of the call")
    assert ended[-1]["bytes"] > 2 * len(text)
    assert house.records(action="web:send", method="websocket", decision="pass")


@BOTH
def test_the_protocol_is_the_sites_choice_and_nothing_is_compressed(house, echo, how):
    async def chosen():
        async with connect(**at(house, echo.url, how), subprotocols=["one", "three"], compression="deflate", origin="https://page.example") as socket:
            return socket.subprotocol, socket.protocol.extensions

    if how == "ws":
        # A page of another site may not call the gateway at all.
        with pytest.raises(websockets.InvalidStatus):
            asyncio.run(chosen())
        return
    assert asyncio.run(chosen()) == ("one", [])
    # The server's handler begins after the client knows that the connection is open.
    heads = lambda: [{name.lower(): value for name, value in head.items()} for head in echo.heads]
    fields = until(lambda: [head for head in heads() if head.get("origin") == "https://page.example"], "the handshake")[-1]
    assert "sec-websocket-extensions" not in fields and "proxy-authorization" not in fields


@BOTH
@pytest.mark.parametrize("message", [f"the key is {SECRET}", f'{{"key": "{SECRET}"}}', [f"the key is {SECRET[:9]}", SECRET[9:]]])
def test_a_secret_does_not_leave(house, echo, how, message):
    before = len(echo.heard)
    heard, code = talk(house, echo.url, "hello", message, how=how)
    assert (heard, code) == (["hello"], 1008)
    assert echo.heard[before:] == ["hello"]


@pytest.mark.parametrize("cut", range(3, len(SECRET), 4))
def test_a_secret_over_two_messages_does_not_leave_whole(house, echo, cut):
    before = len(echo.heard)
    heard, code = talk(house, echo.url, f"the key is {SECRET[:cut]}", SECRET[cut:])
    assert code == 1008 and len(heard) == 1 and len(echo.heard) == before + 1


@BOTH
def test_what_the_site_says_is_judged(house, echo, how):
    heard, code = talk(house, echo.url, "order", how=how)
    assert (heard, code) == ([], 1008)
    heard, code = talk(house, echo.url, "leak", "json", how=how)
    assert code is None and all("[redacted:" in said and SECRET not in said for said in heard)
    heard, code = talk(house, echo.url, "cut", "rest", how=how)
    assert code == 1008 and len(heard) == 1


def test_bytes_and_large_messages_are_refused(house, echo):
    before = len(echo.heard)
    assert talk(house, echo.url, b"\0\1") == ([], 1008)
    assert len(echo.heard) == before
    assert talk(house, echo.url, "bytes") == ([], 1008)
    assert talk(house, echo.url, "x" * 300_000) == ([], 1009)
    assert talk(house, echo.url, "large") == ([], 1009)


def test_bytes_pass_where_they_may(site, echo, tmp_path):  # noqa: F811
    with House(tmp_path / "weir", site, socket={"binary": True, "origin": "replace"}) as house:
        assert talk(house, echo.url, b"\0\1\2", "bytes", how="ws") == ([b"\0\1\2", b"\0\1\2"], None)
        assert echo.heads[-1].get("Origin", echo.heads[-1].get("origin")) == f"http://localhost:{echo.port}"
        assert talk(house, echo.url, b"\0" * 80 + SECRET.encode() + b"\0" * 80, how="ws") == ([], 1008)


def test_closes_pass_with_their_code(house, echo):
    assert talk(house, echo.url, "bye") == ([], 4321)
    talk(house, echo.url, "hello")
    assert until(lambda: 1000 in echo.codes, "the close of the client")


def test_a_credential_is_put_in_and_never_comes_back(house, echo):
    heard, code = talk(house, echo.url, "credential")
    assert code is None and VALUE not in heard[0]
    assert talk(house, echo.url, "weir-credential-api") == ([], 1008)


def test_who_may_not_send_opens_none(house, echo):
    for how, agent, status in [("ws", "guest", 403), ("proxy", "guest", 403)]:
        with pytest.raises((websockets.InvalidStatus, websockets.InvalidProxyStatus)) as refused:
            talk(house, echo.url, "x", how=how, agent=agent)
        assert refused.value.response.status_code == status
    for url in ["http://localhost:1/", "ftp://a.example/", "ws://user:pass@localhost/", "ws://169.254.169.254/latest"]:
        with pytest.raises(websockets.InvalidStatus) as refused:
            talk(house, url, "x", how="ws")
        assert refused.value.response.status_code in (400, 403, 502), url
    # A site that answers something else.
    with pytest.raises(websockets.InvalidStatus) as refused:
        talk(house, house.site.plain.replace("http:", "ws:") + "/seen", "x", how="ws")
    assert refused.value.response.status_code == 502


def test_a_stop_ends_what_is_open(house, echo):
    async def stopped():
        async with connect(**at(house, echo.url, "ws", "eve")) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
            change(house.gateway, set_state("eve", "suspended"))
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), WAIT_S)
            return closed.value.rcvd.code

    assert asyncio.run(stopped()) == 1008
