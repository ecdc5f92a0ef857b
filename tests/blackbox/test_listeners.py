"""Where agents connect: by TLS, by a Unix socket, behind proxies; with clients and proxies that others wrote."""

import base64
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from gateway import WAIT_S, Gateway, UnixConnection, new_key, until
from test_relay_mutual import Authority, client, server, shown
from test_scan_config import rewrite

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
LIVE = b'{"status":"live"}'
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def certified(folder, authority, name="weir", *names):
    server(authority, folder, name, *(names or ("localhost", "127.0.0.1")))
    return {"certificate": f"file:{name}.crt", "key": f"file:{name}.pem"}


def addresses(gateway, count):
    """Where it listens, in the order of the configuration."""
    def said():
        lines = [json.loads(line) for line in gateway.logs.all if line.startswith("{")]
        found = [line["address"] for line in lines if line["message"] == "listening"]
        return found if len(found) == count else None
    return until(said, "all listeners are there")


def port_of(address):
    return int(address.rsplit(":", 1)[1])


class Secured:
    """A gateway that listens by TLS, by a Unix socket and in plain."""

    def __init__(self, folder, origin, limits=None, **tls):
        self.folder, self.authority = folder, Authority()
        (folder / "ca.pem").write_bytes(self.authority.pem)
        self.listeners = [
            {"address": "127.0.0.1:0",
             "tls": {"certificates": [certified(folder, self.authority),
                                      certified(folder, self.authority, "other", "other.example")], **tls}},
            {"address": "unix:weir.sock", "mode": "0660"},
            "127.0.0.1:0"]
        self.gateway = Gateway(folder, {"web": {"url": origin.url}}, listen=self.listeners,
                               public_url="https://weir.example", limits=limits or {}).start()
        self.tls, _, self.plain = addresses(self.gateway, 3)
        self.port, self.gateway.port = port_of(self.tls), port_of(self.plain)

    def context(self, *certificate):
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if certificate:
            context.load_cert_chain(*certificate)
        return context

    def connect(self, *certificate):
        return http.client.HTTPSConnection("localhost", self.port, timeout=60, context=self.context(*certificate))

    def run(self, *command, data=None, **environment):
        done = subprocess.run([str(part) for part in command], input=data, capture_output=True, timeout=120,
                              env={**os.environ, **environment})
        return done.stdout + done.stderr


@pytest.fixture
def secured(origin, tmp_path):
    running = Secured(tmp_path, origin)
    yield running
    running.gateway.stop()
    running.gateway.verify()


def test_clients_of_others_speak_tls(secured):
    at, ca = f"localhost:{secured.port}", secured.folder / "ca.pem"
    request = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    for version in ("-tls1_2", "-tls1_3"):
        said = secured.run("openssl", "s_client", "-connect", at, "-CAfile", ca, "-servername", "localhost", version,
                           "-ign_eof", "-alpn", "http/1.1", data=request)
        assert LIVE in said and b"Verify return code: 0" in said and b"ALPN protocol: http/1.1" in said, said
    assert LIVE not in secured.run("openssl", "s_client", "-connect", at, "-tls1_1", "-ign_eof", data=request)
    curl = ["curl", "-sS", "--noproxy", "*", "--cacert", ca]
    assert secured.run(*curl, f"https://{at}/health/live") == LIVE
    other = f"other.example:{secured.port}"
    resolve = ["--resolve", f"{other}:127.0.0.1"]
    assert secured.run(*curl, *resolve, f"https://{other}/health/live") == LIVE
    assert b"http.tls" in secured.run(*curl, f"http://{at}/health/live")
    node = f"fetch('https://{at}/health/live').then(a => a.text()).then(console.log)"
    assert LIVE in secured.run("node", "-e", node, NODE_EXTRA_CA_CERTS=str(ca))
    answer = secured.gateway.post("web", LIST, connection=secured.connect())
    assert answer.status == 200 and answer.json()["result"]["tools"]


def test_a_browser_speaks_tls(secured):
    key = x509.load_pem_x509_certificate((secured.folder / "weir.crt").read_bytes()).public_key()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    pin = base64.b64encode(digest.finalize()).decode()
    page = secured.run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                       "--disable-background-networking", f"--user-data-dir={secured.folder / 'profile'}",
                       f"--ignore-certificate-errors-spki-list={pin}", "--dump-dom",
                       f"https://localhost:{secured.port}/health/live")
    assert b'{"status":"live"}' in page, page


def test_a_unix_socket_and_plain_http_are_served_beside(secured):
    path = secured.folder / "weir.sock"
    assert path.stat().st_mode & 0o777 == 0o660
    assert secured.gateway.post("web", LIST, connection=UnixConnection(path)).status == 200
    assert secured.gateway.post("web", LIST).status == 200
    assert secured.run("curl", "-sS", "--unix-socket", path, "http://localhost/health/live") == LIVE


def test_a_page_of_the_public_url_may_call(secured):
    def status(connection, **fields):
        return secured.gateway.post("web", LIST, connection=connection, **fields).status
    assert status(None, host="weir.example", origin="https://weir.example") == 200
    assert status(None, host="other.example") == 403
    own = f"https://localhost:{secured.port}"
    assert status(secured.connect(), host=f"localhost:{secured.port}", origin=own) == 200
    # The same origin without TLS is another site.
    assert status(secured.connect(), host=f"localhost:{secured.port}", origin=own.replace("https", "http")) == 403
    assert status(None, host=f"localhost:{secured.gateway.port}", origin=f"https://localhost:{secured.gateway.port}") == 403


def test_clients_show_certificates_where_they_are_asked_for(origin, tmp_path):
    authority = Authority()
    (tmp_path / "clients.pem").write_bytes(authority.pem)
    for name in ("app", "gone"):
        client(authority, tmp_path, name, f"{name}.example")
    authority.revoke(tmp_path, tmp_path / "gone.crt")
    running = Secured(tmp_path, origin, clients={"ca": "file:clients.pem", "crl": "file:crl.pem"})
    try:
        def ask(*more):
            return running.run("curl", "-sS", "--noproxy", "*", "--cacert", tmp_path / "ca.pem", *more,
                               f"https://localhost:{running.port}/health/live")
        assert ask(*shown(tmp_path, "app")) == LIVE
        assert LIVE not in ask() and LIVE not in ask(*shown(tmp_path, "gone"))
        # A list that is renewed counts from the next connection on.
        authority.revoke(tmp_path, tmp_path / "app.crt", tmp_path / "gone.crt")
        until(lambda: LIVE not in ask(*shown(tmp_path, "app")), "the new list is in force")
    finally:
        running.gateway.stop()


def test_certificates_are_renewed_under_load(secured):
    """Good and broken files, while agents call on kept connections and on new ones: no call fails."""
    failed, calls, stop = [], [0], threading.Event()

    def load(is_kept):
        connection = secured.connect()
        while not stop.is_set():
            try:
                if not is_kept:
                    connection = secured.connect()
                answer = secured.gateway.post("web", LIST, connection=connection)
                assert answer.status == 200
                calls[0] += 1
            except Exception as error:
                failed.append(repr(error))
                return

    def serial():
        with socket.create_connection(("localhost", secured.port)) as plain:
            with secured.context().wrap_socket(plain, server_hostname="localhost") as secure:
                return int(secure.getpeercert()["serialNumber"], 16)

    def written():
        return x509.load_pem_x509_certificate((secured.folder / "weir.crt").read_bytes()).serial_number

    threads = [threading.Thread(target=load, args=(is_kept,)) for is_kept in (True, False)]
    for thread in threads:
        thread.start()
    try:
        # A key of another certificate, a half of a file; and nothing.
        other, half = (secured.folder / "other.pem").read_bytes(), (secured.folder / "weir.pem").read_bytes()[:100]
        for broken_ones in ((other, half), (b"",)):
            before = serial()
            for broken in broken_ones:
                refused = len(re.findall("not renewed", secured.gateway.logs.text()))
                (secured.folder / "draft").write_bytes(broken)
                os.replace(secured.folder / "draft", secured.folder / "weir.pem")
                until(lambda: len(re.findall("not renewed", secured.gateway.logs.text())) > refused, "it was refused")
                assert serial() == before
            assert "certificates[0].key" in secured.gateway.logs.text()
            server(secured.authority, secured.folder, "weir", "localhost", "127.0.0.1")
            until(lambda: serial() == written(), "the new certificate is shown")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed and calls[0] > 20, (failed, calls)


class Fronted:
    """A gateway behind a proxy, which listens at `port`."""

    def __init__(self, folder, origin, proxy, configure):
        # Two callers that send a wrong key may do so once each.
        self.port = free_port()
        listen = {"address": "127.0.0.1:0", "proxy": proxy, "trusted": ["127.0.0.1"]}
        self.gateway = Gateway(folder, {"web": {"url": origin.url}}, listen=[listen],
                               limits={"address_per_minute": 1}).start()
        self.process = subprocess.Popen(configure(folder, self.port, self.gateway.port), cwd=folder,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until(self.is_there, "the proxy listens")

    def is_there(self):
        assert self.process.poll() is None, self.process.stderr.read().decode()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def ask(self, caller, agent="dev", **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S, source_address=(caller, 0))
        return self.gateway.post("web", LIST, agent, connection=connection, **fields)

    def stop(self):
        self.process.terminate()
        self.process.wait(WAIT_S)
        self.process.stderr.close()
        self.gateway.stop()


def haproxy(line, fields=""):
    """HAProxy in TCP mode, or in HTTP mode where it sets fields."""
    def configure(folder, port, to):
        mode = "http" if fields else "tcp"
        (folder / "haproxy.cfg").write_text(
            f"defaults\n  mode {mode}\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n"
            f"frontend front\n  bind 127.0.0.1:{port}\n  default_backend weir\n"
            f"backend weir\n{fields}  server weir 127.0.0.1:{to} {line}\n")
        return [HAPROXY, "-f", "haproxy.cfg", "-db"]
    return configure


def nginx(block):
    def configure(folder, port, to):
        module = "" if "http {" in block else "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n"
        (folder / "nginx.conf").write_text(
            f"{module}daemon off; pid {folder}/nginx.pid; error_log stderr warn; worker_processes 1;\n"
            "events { worker_connections 64; }\n"
            + block.replace("@PORT@", str(port)).replace("@TO@", str(to)).replace("@WORK@", str(folder)))
        return [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    return configure


STREAM = "stream { server { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1:@TO@; proxy_protocol on; } }\n"
HTTP = """http {
  access_log off; client_body_temp_path @WORK@/a; proxy_temp_path @WORK@/b; fastcgi_temp_path @WORK@/c;
  uwsgi_temp_path @WORK@/d; scgi_temp_path @WORK@/e;
  server {
    listen 127.0.0.1:@PORT@;
    location / {
      proxy_pass http://127.0.0.1:@TO@; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header @FIELD@;
    }
  }
}
"""

FRONTS = {
    "haproxy, version 1": ("protocol", haproxy("send-proxy")),
    "haproxy, version 2": ("protocol", haproxy("send-proxy-v2")),
    "haproxy, Forwarded": ("forwarded", haproxy("", "  http-request set-header Forwarded for=%[src]\n")),
    "nginx, version 1": ("protocol", nginx(STREAM)),
    "nginx, X-Forwarded-For": ("x-forwarded-for",
                               nginx(HTTP.replace("@FIELD@", "X-Forwarded-For $proxy_add_x_forwarded_for"))),
    "nginx, Forwarded": ("forwarded", nginx(HTTP.replace("@FIELD@", 'Forwarded "for=$remote_addr"'))),
}


@pytest.mark.parametrize("front", FRONTS)
def test_callers_behind_a_proxy_are_told_apart(origin, tmp_path, front):
    fronted = Fronted(tmp_path, origin, *FRONTS[front])
    try:
        # What a caller makes up does not count.
        made_up = {"x_forwarded_for": "203.0.113.9", "forwarded": "for=203.0.113.9"}
        for caller in ("127.0.0.2", "127.0.0.3"):
            assert fronted.ask(caller, **made_up).status == 200
            limited = fronted.ask(caller, **made_up)
            assert (limited.status, limited.refusal()[0]) == (429, "limit.address"), front
        peers = {record.get("peer") for record in fronted.gateway.records() if record.get("kind") == "judgement"}
        assert {"127.0.0.2", "127.0.0.3"} <= peers and "203.0.113.9" not in peers, peers
    finally:
        fronted.stop()


def test_a_header_of_whoever_is_not_trusted_is_refused(origin, tmp_path):
    listen = [{"address": "127.0.0.1:0", "proxy": "protocol", "trusted": ["127.0.0.1"]}, "127.0.0.1:0"]
    with Gateway(tmp_path, {"web": {"url": origin.url}}, listen=listen) as gateway:
        behind, plain = map(port_of, addresses(gateway, 2))

        def ask(port, data, source="127.0.0.1"):
            with socket.create_connection(("127.0.0.1", port), WAIT_S, (source, 0)) as stream:
                stream.sendall(data)
                return b"".join(iter(lambda: stream.recv(65536), b""))
        request = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        header = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n"
        assert ask(behind, header + request).endswith(LIVE)
        # Only the proxy's own connection is of this machine; one of somebody whom it does not name is not.
        health = request.replace(b"/live", b"")
        assert b'"servers"' in ask(plain, health)
        assert b'"servers"' not in ask(behind, b"PROXY UNKNOWN\r\n" + health)
        for port, data, source in ((behind, request, "127.0.0.1"), (behind, header + request, "127.0.0.2"),
                                   (plain, header + request, "127.0.0.1")):
            answer = ask(port, data, source)
            assert answer.startswith(b"HTTP/1.1 400 ") and b'"http.proxy"' in answer, answer
        assert ask(behind, request, "127.0.0.2").endswith(LIVE)


def test_the_operators_pages_ask_for_their_key(origin, tmp_path):
    key, digest = new_key("operator")
    with Gateway(tmp_path, {"web": {"url": origin.url}}, admin={"listen": "127.0.0.1:0", "key": digest}) as gateway:
        said = [json.loads(line) for line in gateway.logs.all if "pages for the operator" in line]
        port = port_of(said[0]["address"])

        def ask(path, **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            return gateway.request("GET", path, headers=headers, connection=connection)
        good = {"authorization": f"Bearer {key}"}
        assert b"# EOF" in ask("/metrics", **good).body
        for wrong in ({}, {"authorization": "Bearer x"}, {"authorization": f"Bearer {gateway.keys['dev']}"}):
            answer = ask("/metrics", **wrong)
            assert (answer.status, answer.refusal()[0]) == (401, "admin.key")
        assert ask("/health/live").status == 200
        assert not (gateway.state / "admin.sock").exists()
        rewrite(gateway, admin={"listen": "127.0.0.1:0"})
        until(lambda: "every program of this machine" in gateway.logs.text(), "it is said that there is no key")
        # Without a key a program of this machine reads the metrics, and does nothing else.
        assert ask("/metrics").status == 200
        assert ask("/stops").status == 401 and ask("/metrics", via="1.1 proxy").status == 403
