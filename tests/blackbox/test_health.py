"""Health, metrics and the gateway's own files, as an orchestrator and an operator see them."""

import re
import socket

import pytest

from gateway import Gateway, until


def test_health(gateway):
    assert gateway.request("GET", "/health/live").status == 200
    until(lambda: gateway.request("GET", "/health/ready").status == 200, "the gateway is ready")
    assert gateway.request("GET", "/health").status == 200


DETAILS = {"log", "policies", "servers", "version"}


def test_details_are_for_this_machine(gateway):
    def ask(path, **fields):
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        return gateway.request("GET", path, headers=headers)
    until(lambda: ask("/health").status == 200, "the gateway is ready")
    for path in ("/health", "/health/ready"):
        assert DETAILS <= set(ask(path).json())
        assert DETAILS <= set(ask(path, host=f"localhost:{gateway.port}").json())
        # What a proxy on this machine passes on is asked by a stranger.
        for name in ("x_forwarded_for", "forwarded", "via", "x_real_ip"):
            passed_on = ask(path, **{name: "192.0.2.1"})
            assert passed_on.status == 200 and set(passed_on.json()) == {"status"}
    assert set(ask("/health/live").json()) == {"status"}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8700", "127.1", ""])
def test_a_host_that_was_made_to_resolve_here_is_refused(gateway, host):
    for path in ("/health", "/health/live", "/health/ready", "/metrics"):
        answer = gateway.request("GET", path, headers={"host": host})
        assert (answer.status, answer.refusal()[0]) == (403, "http.host"), path
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = gateway.post("web", message, host=host)
    assert (answer.status, answer.refusal()[0]) == (403, "http.host")


@pytest.mark.parametrize("host", ["127.0.0.1:8700@evil.example", "127.0.0.1:port", "localhost, evil.example"])
def test_a_host_that_is_none_is_refused(gateway, host):
    for path in ("/health", "/metrics", "/mcp/web"):
        answer = gateway.request("GET", path, headers={"host": host})
        assert (answer.status, answer.refusal()[0]) == (400, "http.head_invalid"), path


def test_a_name_that_is_configured_is_a_host(origin, tmp_path):
    with Gateway(tmp_path, {"web": {"url": origin.url}}, origins=["https://weir.example"]) as gateway:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert gateway.post("web", message, host="weir.example").status == 200
        assert gateway.post("web", message, host="weir.example", origin="https://weir.example").status == 200
        assert gateway.post("web", message, host="other.example").refusal()[0] == "http.host"


def test_the_operators_pages_are_at_the_admin_listener_alone(gateway):
    there = gateway.request("GET", "/metrics", headers=gateway.headers("dev"))
    assert (there.status, there.refusal()[0]) == (404, "http.not_found")
    assert "admin" in there.refusal()[1]
    # Agents are not answered there; probes are.
    assert gateway.operator("/mcp/web", "POST", gateway.headers("dev")).status == 404
    assert gateway.operator("/health/live").json() == {"status": "live"}
    assert DETAILS <= set(gateway.operator("/health").json())
    # The socket is its user's alone, and what a proxy passes on is asked by a stranger.
    assert (gateway.state / "admin.sock").stat().st_mode & 0o777 == 0o600
    assert gateway.operator("/metrics", headers={"via": "1.1 proxy"}).status == 403


def test_metrics(gateway):
    gateway.session("web").call("echo", "counted")
    text = gateway.operator("/metrics").body.decode()
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert samples and text.rstrip().endswith("# EOF")
    assert all(re.fullmatch(r"[a-zA-Z_:][\w:]*(\{.*\})? \S+( \S+)?", line) for line in samples), samples
    # Labels are templates and configured names: nothing that a caller chose.
    gateway.request("GET", "/made-up-path-of-a-caller")
    gateway.post("made-up-server", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert "made-up" not in gateway.operator("/metrics").body.decode()


def test_a_request_id_comes_back(gateway):
    answer = gateway.request("GET", "/health/live", headers={"x-request-id": "mine-123"})
    assert answer.headers["x-request-id"] == "mine-123"


def test_sigterm_lets_a_call_end(origin, tmp_path):
    """A call in flight when the gateway is told to stop is answered; new connections are not served."""
    with Gateway(tmp_path, {"web": {"url": origin.url}}, limits={"answer_ms": 2000, "drain_ms": 8000}) as gateway:
        session = gateway.session("web")
        connection = gateway.connect()
        message = ('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"never","arguments":{}}}')
        connection.request("POST", "/mcp/web", message, gateway.headers("dev", **session.extra))
        until(lambda: origin.seen().get("tools/call never"), "the call reaches the server")
        gateway.process.terminate()
        until(lambda: refuses(gateway.port), "the gateway takes no new connections")
        assert b"mcp.server_slow" in connection.getresponse().read()


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return True
    return False
