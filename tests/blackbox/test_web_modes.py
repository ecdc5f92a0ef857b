"""The web lane as it observes, asks for robots.txt, counts, and takes other settings while it serves."""

import http.server
import json
import re
import signal
import socket
import ssl
import threading
from urllib.parse import quote

import pytest
import websockets
from websockets.sync.client import connect

from gateway import WAIT_S, until
from test_web import CREDENTIALS, ORDER, POLICY, SECRET, SENTENCE, VALUE, House, site, surroundings  # noqa: F401
from test_web_socket import Echo


def change(house, **web):
    """Changes keys of the web section, and waits until that is in force."""
    path = house.gateway.folder / "weir.yaml"
    config = json.loads(path.read_text())
    for key, value in web.items():
        config["web"].pop(key, None)
        if value is not None:
            config["web"][key] = value
    before = house.gateway.logs.text().count('"reloaded"')
    path.write_text(json.dumps(config, indent=1))
    house.gateway.process.send_signal(signal.SIGHUP)
    until(lambda: house.gateway.logs.text().count('"reloaded"') > before, "it is reloaded")
    return [json.loads(line) for line in house.gateway.logs.all if '"reloaded"' in line][-1]


def metrics(house):
    page = house.gateway.operator("/metrics").body.decode()
    found = re.findall(r"^(weir_web_\w+?)(?:_total)?\{([^}]*)\} (\S+)$", page, re.MULTILINE)
    return {(name, *re.findall(r'"([^"]*)"', labels)): float(value) for name, labels, value in found}


# Observing


@pytest.fixture(scope="module")
def observed(site, tmp_path_factory):  # noqa: F811
    with House(tmp_path_factory.mktemp("observed") / "weir", site, intercept=True, mode="observe", credentials=CREDENTIALS) as house:
        yield house


def observing(house, **wanted):
    return until(lambda: house.records(**wanted), f"a record with {wanted}")[-1]


def test_what_would_be_refused_passes_and_is_recorded(observed):
    assert "web.mode is observe" in observed.gateway.logs.text()
    body = json.dumps({"key": SECRET})
    # A secret in a body, by an agent that no policy permits anything.
    for agent, code in (("dev", "scan.secret"), ("guest", "policy.forbidden")):
        said = observed.get(f"{observed.site.https}/echo", agent=agent, method="POST", data=body, headers={"content-type": "application/json"})
        assert said.status_code == 200
        record = observing(observed, method="POST", agent=agent)
        assert record["decision"] == "pass" and record["observed"] == code, record
        assert "refusal" not in record and SECRET not in json.dumps(record)
    seen = [one for one in observed.site.seen() if one.get("method") == "POST"]
    assert seen[-1]["bytes"] == len(body)
    assert observed.gateway.verify()


@pytest.mark.parametrize("page", ["orders", "comment", "split"])
def test_orders_in_answers_pass_and_are_recorded(observed, page):
    said = observed.get(f"{observed.site.plain}/{page}")
    assert said.status_code == 200 and ORDER.split()[-1] in said.text
    fetched = observed.fetch(f"{observed.site.plain}/{page}")
    assert fetched.status == 200
    for call in (said.headers["weir-call"], fetched.json()["call"]):
        outcome = until(lambda: [r for r in observed.gateway.records() if r.get("call") == call and r["kind"] == "outcome"], "it ended")[0]
        assert outcome["observed"] == "scan.injection" and outcome["end"] == "complete", outcome
    flowing = observed.get(f"{observed.site.plain}/text?t=key+is+{{key}}+&times=20000")
    assert flowing.status_code == 200 and flowing.text.count(SECRET) == 20_000


def test_messages_of_sockets_pass_too(observed):
    echo = Echo()
    url = f"ws://127.0.0.1:{observed.gateway.port}/ws?url={quote(echo.url, safe='')}"
    with connect(url, additional_headers={"authorization": f"Bearer {observed.key()}"}) as socket_:
        for message in (f"the key is {SECRET}", "order"):
            socket_.send(message)
        assert socket_.recv(WAIT_S) == f"the key is {SECRET}" and socket_.recv(WAIT_S) == ORDER
    assert echo.heard[0] == f"the key is {SECRET}"


def test_what_stays_refused(observed):
    # Who is not known, addresses inside, placeholders elsewhere.
    assert observed.gateway.request("GET", f"/fetch?url={observed.site.plain}/page").status == 401
    for bad in ("http://169.254.169.254/latest/meta-data/", "http://127.0.0.2:1/", "http://[::1]:1/", "http://10.0.0.1/"):
        answer = observed.fetch(bad)
        assert answer.status in (403, 502) and answer.refusal()[0] == "net.address", (bad, answer.body)
    said = observed.get(f"{observed.site.https}/echo", headers={"x-other": "weir-credential-api"})
    assert said.json()["code"] == "web.credential"


def test_what_would_be_refused_gets_no_credential(observed):
    field = f"{observed.site.https}/field?name=authorization"
    assert observed.get(field).json()["said"] == "Bearer [credential]"
    last = lambda: [one for one in observed.site.seen() if one.get("path", "").startswith("/field")][-1]["headers"]
    assert VALUE in last()["authorization"] if "authorization" in last() else VALUE in last()["Authorization"]
    refused = observed.get(field, data=SECRET)
    assert refused.status_code == 200 and VALUE not in json.dumps(last())


# robots.txt


class Robots(http.server.BaseHTTPRequestHandler):
    """A site with a robots.txt that the test chooses."""

    protocol_version = "HTTP/1.1"
    said, asked = {}, []

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("user-agent")))
        status, body, location = self.said.get(self.path, (200, f"<p>{SENTENCE * 4}</p>".encode(), None))
        self.send_response(status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def robots():
    handler = type("Handler", (Robots,), {"said": {}, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    handler.url = f"http://localhost:{server.server_address[1]}"
    yield handler
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def polite(site, tmp_path_factory):  # noqa: F811
    fetch = {"robots": True, "user_agent": "acme-bot/2.0 (+https://acme.example)"}
    with House(tmp_path_factory.mktemp("polite") / "weir", site, fetch=fetch) as house:
        yield house


def test_a_page_is_left_alone_where_the_site_asks_for_that(polite, robots):
    robots.said["/robots.txt"] = (200, b"User-agent: Acme-Bot\nDisallow: /private/\nAllow: /private/open\n\nUser-agent: *\nDisallow: /\n", None)
    assert polite.fetch(f"{robots.url}/page").status == 200
    assert polite.fetch(f"{robots.url}/private/open").status == 200
    answer = polite.fetch(f"{robots.url}/private/x")
    assert answer.status == 403 and answer.refusal()[0] == "web.robots", answer.body
    assert polite.records(refusal="web.robots", path="/private/x", agent="dev")
    assert [path for path, _ in robots.asked] == ["/robots.txt", "/page", "/private/open"]
    assert {agent for _, agent in robots.asked} == {"acme-bot/2.0 (+https://acme.example)"}
    asked = polite.records(path="/robots.txt", agent="dev")
    assert asked and asked[-1]["first"] and asked[-1]["decision"] == "pass"
    # A redirect leads where it is asked again.
    robots.said["/leads"] = (302, b"", "/private/y")
    assert polite.fetch(f"{robots.url}/leads").refusal()[0] == "web.robots"


@pytest.mark.parametrize(("said", "passes"), [
    ((404, b"", None), True), ((403, b"", None), True), ((503, b"", None), False), ((500, b"User-agent: *\nAllow: /", None), False),
    ((301, b"", "/elsewhere.txt"), False), ((301, b"", "/robots.txt"), True), ((200, b"", None), True),
    ((200, b"User-agent: *\nDisallow: /page\n" + b"#" * 600_000, None), False),
    ((200, b"#" * 520_000 + b"\nUser-agent: *\nDisallow: /page\n", None), True)])
def test_what_a_site_says_of_itself(polite, robots, said, passes):
    robots.said["/robots.txt"] = said
    robots.said["/elsewhere.txt"] = (200, b"User-agent: acme-bot\nDisallow: /page\n", None)
    answer = polite.fetch(f"{robots.url}/page")
    assert answer.status == (200 if passes else 403), answer.body
    # It is asked once, whatever it said.
    count = len([path for path, _ in robots.asked if path == "/robots.txt"])
    assert polite.fetch(f"{robots.url}/page").status == answer.status
    assert len([path for path, _ in robots.asked if path == "/robots.txt"]) == count


def test_without_the_setting_nobody_is_asked(site, polite, robots):  # noqa: F811
    change(polite, fetch={"robots": False})
    robots.said["/robots.txt"] = (200, b"User-agent: *\nDisallow: /\n", None)
    assert polite.fetch(f"{robots.url}/page").status == 200 and [path for path, _ in robots.asked] == ["/page"]


# Counting


def test_what_is_counted(site, tmp_path):  # noqa: F811
    with House(tmp_path / "weir", site, intercept=True) as house:
        echo = Echo()
        assert house.fetch(f"{site.plain}/page").status == 200
        assert house.fetch(f"{site.plain}/page?key={SECRET}").status == 403
        assert house.get(f"{site.https}/bytes?n=100000").status_code == 200
        assert house.get(f"{site.plain}/echo", method="POST", data="x" * 5_000).status_code == 200
        url = f"ws://127.0.0.1:{house.gateway.port}/ws?url={quote(echo.url, safe='')}"
        with connect(url, additional_headers={"authorization": f"Bearer {house.key()}"}) as talk:
            talk.send("hello")
            assert talk.recv(WAIT_S) == "hello"
            assert metrics(house)["weir_web_open", "socket"] == 1
            talk.send(f"the key is {SECRET}")
            with pytest.raises(websockets.ConnectionClosed):
                talk.recv(WAIT_S)
        until(lambda: metrics(house)["weir_web_open", "socket"] == 0, "the socket is closed")
        counted = metrics(house)
        assert counted["weir_web_calls", "fetch", "passed"] == 1 and counted["weir_web_calls", "fetch", "refused"] == 1
        assert counted["weir_web_calls", "intercept", "passed"] == 1 and counted["weir_web_calls", "inside", "passed"] == 1
        assert counted["weir_web_bytes", "inside", "received"] == 100_000
        assert counted["weir_web_bytes", "proxy", "sent"] == 5_000
        assert counted["weir_web_socket_messages", "agent", "passed"] == 1
        assert counted["weir_web_socket_messages", "agent", "refused"] == 1
        assert counted["weir_web_leaves", "made"] == 1 and counted["weir_web_leaves", "kept"] == 1
        assert not any("localhost" in label for key in counted for label in key)


# Other settings while serving


def test_other_settings_are_in_force_without_a_restart(site, tmp_path):  # noqa: F811
    with House(tmp_path / "weir", site, intercept=True, credentials=CREDENTIALS) as house:
        field = f"{site.https}/field?name=authorization"
        assert house.get(field).json()["said"].startswith("Bearer [")
        kept = house.get(f"{site.https}/page").headers
        assert kept["weir-call"]
        # A credential goes, bounds change, the mode changes: each without a restart.
        told = change(house, credentials=None)
        assert "web.credentials.api" in told["changed"] and house.get(field).json()["said"] == ""
        told = change(house, agent={"hosts_per_hour": 1})
        assert "web.agent" in told["changed"]
        assert house.fetch(f"http://127.0.0.1:{site.port}/page").refusal()[0] == "web.bound"
        change(house, agent=None)
        assert house.fetch(f"http://127.0.0.1:{site.port}/page").status == 200
        assert house.fetch(f"{site.plain}/orders").status == 403
        change(house, mode="observe")
        assert "web.mode is observe" in house.gateway.logs.text()
        assert house.fetch(f"{site.plain}/orders").status == 200
        change(house, mode="enforce", fetch={"bytes_max": 1024})
        assert house.fetch(f"{site.plain}/text?times=50").refusal()[0] == "web.answer_too_large"
        # Interception goes and comes again, with the same authority and its certificates.
        change(house, intercept=None, fetch=None)
        assert "of https only the host is seen" in house.gateway.logs.text()
        ca = str(house.gateway.folder / "site-ca.pem")
        assert house.get(f"{site.https}/page", verify=ca).status_code == 200
        change(house, intercept={"ca": "ca"})
        assert house.get(f"{site.https}/page").status_code == 200


def test_a_tunnel_goes_on_by_what_it_began_with(site, tmp_path):  # noqa: F811
    with House(tmp_path / "weir", site) as house:
        made, head = house.connect(f"localhost:{site.secured}")
        assert head.split()[1] == b"200"
        change(house, tunnel={"idle_ms": 60_000}, intercept=None)
        context = ssl.create_default_context(cafile=str(house.gateway.folder / "site-ca.pem"))
        with context.wrap_socket(made, server_hostname="localhost") as talk:
            talk.sendall(f"GET /page HTTP/1.1\r\nHost: localhost:{site.secured}\r\nConnection: close\r\n\r\n".encode())
            assert talk.recv(4096).startswith(b"HTTP/1.1 200")


def test_what_takes_a_restart_says_so(site, tmp_path):  # noqa: F811
    with House(tmp_path / "weir", site) as house:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        change(house, listen=f"127.0.0.1:{port}")
        waits = [json.loads(line) for line in house.gateway.logs.all if "takes a restart" in line]
        assert [one["key"] for one in waits] == ["web.listen"]
        assert house.get(f"{site.plain}/page").status_code == 200
        # What is not good changes nothing.
        before = house.gateway.logs.text().count("not reloaded")
        path = house.gateway.folder / "weir.yaml"
        config = json.loads(path.read_text())
        config["web"]["mode"] = "maybe"
        path.write_text(json.dumps(config))
        until(lambda: house.gateway.logs.text().count("not reloaded") > before, "it is refused")
        assert house.get(f"{site.plain}/page").status_code == 200
