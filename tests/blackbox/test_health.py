"""Health, metrics and the gateway's own files, as an orchestrator and an operator see them."""

import re
import socket

from gateway import Gateway, until


def test_health(gateway):
    assert gateway.request("GET", "/health/live").status == 200
    until(lambda: gateway.request("GET", "/health/ready").status == 200, "the gateway is ready")
    assert gateway.request("GET", "/health").status == 200


def test_metrics(gateway):
    gateway.session("web").call("echo", "counted")
    text = gateway.request("GET", "/metrics").body.decode()
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert samples and text.rstrip().endswith("# EOF")
    assert all(re.fullmatch(r"[a-zA-Z_:][\w:]*(\{.*\})? \S+( \S+)?", line) for line in samples), samples
    # Labels are templates and configured names: nothing that a caller chose.
    gateway.request("GET", "/made-up-path-of-a-caller")
    gateway.post("made-up-server", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert "made-up" not in gateway.request("GET", "/metrics").body.decode()


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
