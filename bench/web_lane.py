"""A part of `make bench`: what the gateway carries of the web, beside nginx, squid and the governed call of the same run.

Everything is on as in `bench.py`: 1,000 agents, 100 policies and one for the web, the scan, the record, the log on `os`; an authority to look
into TLS besides. The site is nginx. All that is compared takes turns: a forwarded GET of 1 KB, the governed `tools/call` of `bench.py` by the same
gateway, a reverse proxy by nginx; documents of 10 KB with the scan and without; GETs of 1 KB inside of TLS that is looked into, on kept
connections and with a handshake for each; GETs of 64 MB in a tunnel; WebSocket messages of 100 bytes. Then the memory of 1,000 slow streams, and
a stop with 5,000 of them.

    python bench/web_lane.py --weir target/dist/weir

What the scan takes by itself is the CPU time of the gateway with it less that of the one without, in the same round.
"""

import argparse
import base64
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bench
import calls
import figures
import web_streams
from call_scan import OFF
from mcp_lane import in_turns, whole

CLIENTS, DOCUMENTS, NAMES = 8, 200, 100
SMALL, LARGE, BIG = 1024, 10 * 1024, 64 << 20
# What is due of each, as the table says it.
DUE = {"call": 1.3, "scan": 1.4, "nginx": 2.5, "squid": 1.0, "host_us": 300, "tunnel": 1.2, "socket_us": 15}
NGINX = """
daemon off; pid @WORK@/@NAME@.pid; error_log @WORK@/@NAME@.log warn; worker_processes auto;
events { worker_connections 16384; }
http {
  access_log off; keepalive_requests 100000000; tcp_nodelay on; default_type text/html; charset utf-8;
  client_body_temp_path @WORK@/@NAME@-1; proxy_temp_path @WORK@/@NAME@-2; fastcgi_temp_path @WORK@/@NAME@-3;
  uwsgi_temp_path @WORK@/@NAME@-4; scgi_temp_path @WORK@/@NAME@-5;
  ssl_certificate @WORK@/site.crt; ssl_certificate_key @WORK@/site.pem; ssl_session_cache off; ssl_session_tickets off;
  @HTTP@
}
@STREAM@
"""
KEPT = "proxy_http_version 1.1; proxy_set_header Connection '';"
SQUID = """
http_port 127.0.0.1:@PORT@ ssl-bump generate-host-certificates=on dynamic_cert_mem_cache_size=16MB tls-cert=@WORK@/squid-ca.pem
sslcrtd_program /usr/lib/squid/security_file_certgen -s @WORK@/squid-certs -M 16MB
acl step1 at_step SslBump1
ssl_bump peek step1
ssl_bump bump all
tls_outgoing_options cafile=@WORK@/site-ca.pem
http_access allow all
cache deny all
cache_mem 8 MB
access_log none
cache_log @WORK@/squid.log
pid_filename @WORK@/squid.pid
coredump_dir @WORK@
shutdown_lifetime 1 seconds
hosts_file @WORK@/hosts
workers 1
"""


# The site, and what stands before it

def site_files():
    site = bench.WORK / "site"
    site.mkdir()
    (site / "small").write_text((calls.PROSE * 20)[:SMALL])
    for number in range(DOCUMENTS):
        words = f"<!doctype html><title>Page {number}</title><body><h1>Station {number}</h1><p>"
        (site / f"page-{number}").write_text((words + f"{number} {calls.PROSE}</p><p>" * 200)[:LARGE])
    with (site / "big").open("wb") as file:
        file.truncate(BIG)


def start_nginx(name, http, stream="", ports=(), module=""):
    text = (module + NGINX).replace("@HTTP@", http).replace("@STREAM@", stream).replace("@WORK@", str(bench.WORK)).replace("@NAME@", name)
    path = bench.WORK / f"{name}.conf"
    path.write_text(text)
    process = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(path), "-p", str(bench.WORK)], start_new_session=True)
    wait(ports, name)
    return process


def wait(ports, name):
    deadline = time.monotonic() + 20
    for port in ports:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit(f"web_lane: {name} did not start")
                time.sleep(0.05)


def start_site(name, plain, secured):
    return start_nginx(name, f"server {{ listen 127.0.0.1:{plain} reuseport; root {bench.WORK}/site; }}"
                       f"server {{ listen 127.0.0.1:{secured} ssl reuseport; root {bench.WORK}/site; }}", ports=(plain, secured))


def start_proxies(plain, secured, socket_port, ports):
    """nginx as a reverse proxy: plain, with TLS on both sides, of WebSocket, and of bytes."""
    module = "" if not Path("/usr/lib/nginx/modules/ngx_stream_module.so").exists() else "load_module /usr/lib/nginx/modules/ngx_stream_module.so;"
    upstream = "upstream plain {{ server 127.0.0.1:{}; keepalive 64; keepalive_requests 100000000; }} upstream secured {{ server 127.0.0.1:{}; keepalive 64; keepalive_requests 100000000; }}"
    http = upstream.format(plain, secured) + (
        f"server {{ listen 127.0.0.1:{ports['plain']} reuseport; location / {{ proxy_pass http://plain; {KEPT} }} }}"
        f"server {{ listen 127.0.0.1:{ports['secured']} ssl reuseport; location / {{ proxy_pass https://secured; proxy_ssl_name localhost; proxy_ssl_server_name on; "
        f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {bench.WORK}/site-ca.pem; {KEPT} }} }}"
        f"server {{ listen 127.0.0.1:{ports['cold']} ssl reuseport; location / {{ proxy_pass https://127.0.0.1:{secured}; proxy_ssl_name localhost; proxy_ssl_server_name on; "
        f"proxy_ssl_session_reuse off; proxy_ssl_verify on; proxy_ssl_trusted_certificate {bench.WORK}/site-ca.pem; }} }}"
        f"server {{ listen 127.0.0.1:{ports['socket']} reuseport; location / {{ proxy_pass http://127.0.0.1:{socket_port}; proxy_http_version 1.1; "
        "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } }")
    stream = f"stream {{ server {{ listen 127.0.0.1:{ports['stream']} reuseport; proxy_pass 127.0.0.1:{secured}; }} }}"
    return start_nginx("nginx", http, stream, ports.values(), module)


def start_gateway(weir, name, origin_port, **more):
    """The gateway of `bench.py` with the web besides. Gives the process, its port, the proxy's, and the operator's socket."""
    (bench.WORK / "web.cedar").write_text('@id("web")\npermit (principal, action in Action::"web", resource);\n')
    configuration = bench.configuration("os", origin_port)
    ca = bench.WORK / f"ca-{name}"
    subprocess.run([weir, "web", "ca", "init", str(ca)], check=True, capture_output=True)
    scan = {"urls": {"internal": ["127.0.0.1", "localhost", "*.bench.test"], "per_minute": 0, "bytes_per_minute": 0}}
    path = bench.WORK / f"{name}.yaml"
    web = {"listen": "127.0.0.1:0", "ca": "file:site-ca.pem", "intercept": {"ca": str(ca), "pass": ["tunnel.bench.test"]},
           "agent": {"open_max": 100_000, "hosts_per_hour": 100_000, "bytes_per_hour": 1 << 40}, "tunnel": {"bytes_max": 1 << 40, "whole_ms": 3_600_000}}
    scan = {**more.pop("scan", {}), "urls": {**more.pop("urls", {}), **scan["urls"]}}
    path.write_text(json.dumps({
        **configuration, "state": f"state-{name}", "web": web, "scan": scan,
        "policy": {**configuration["policy"], "files": ["policy.cedar", "web.cedar"]}, **more}, indent=1))
    command = [weir, "serve", "-c", str(path)]
    if os.geteuid() == 0:
        # Names that only this process knows.
        command = ["unshare", "-m", "sh", "-c", f"mount --bind {bench.WORK}/hosts /etc/hosts && exec \"$@\"", "sh", *map(str, command)]
    process, ports = started_gateway(command)
    return {"process": process, "port": ports["mcp"], "proxy": ports["web"], "socket": bench.WORK / f"state-{name}/admin.sock", "ca": ca / "ca.pem"}


def started_gateway(command):
    process = subprocess.Popen(list(map(str, command)), cwd=bench.WORK, stderr=subprocess.PIPE, start_new_session=True)
    ports, seen = {}, []
    for raw in process.stderr:
        seen.append(raw.decode(errors="replace"))
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        text = line.get("message") or line.get("fields", {}).get("message", "")
        address = str(line.get("address") or line.get("fields", {}).get("address", ""))
        if text == "web proxy":
            ports["web"] = int(address.rsplit(":", 1)[1])
        elif text == "listening" and "mcp" not in ports:
            ports["mcp"] = int(address.rsplit(":", 1)[1].strip("/"))
        if len(ports) == 2:
            threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()
            return process, ports
    sys.exit(f"web_lane: the gateway did not start:\n{''.join(seen)}")


def start_squid(port):
    """squid with ssl_bump, as one process that ends with its child."""
    if not Path("/usr/lib/squid/security_file_certgen").exists():
        return None
    work = bench.WORK
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=squid",
                    "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", "squid-ca.key", "-out", "squid-ca.crt"], cwd=work, check=True, capture_output=True)
    (work / "squid-ca.pem").write_text((work / "squid-ca.crt").read_text() + (work / "squid-ca.key").read_text())
    subprocess.run(["/usr/lib/squid/security_file_certgen", "-c", "-s", str(work / "squid-certs"), "-M", "16MB"], check=True, capture_output=True)
    (work / "squid.conf").write_text(SQUID.replace("@PORT@", str(port)).replace("@WORK@", str(work)))
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "proxy", str(work / "squid-certs"), str(work / "squid-ca.pem")], check=True)
        for path in (work, *work.parents):
            if path.stat().st_mode & 0o001 == 0:
                return None  # squid gives up root, and cannot reach this folder then.
        (work / "squid.log").touch()
        subprocess.run(["chown", "proxy", str(work / "squid.log")], check=True)
    process = subprocess.Popen(["/usr/sbin/squid", "-N", "-f", str(work / "squid.conf")], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait([port], "squid")
    return process


# Clients that a load tool is not: TLS inside of a tunnel, and WebSocket

def get(host, path, more=""):
    return f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{more}\r\n".encode()


def read_answer(reader):
    status, length = reader.readline(), None
    while (line := reader.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if b" 200 " not in status or length is None:
        sys.exit(f"web_lane: an answer is not good: {status!r} {reader.read1(300)!r}")
    while length:
        length -= len(reader.read(min(length, 1 << 20)))


def proof(number=0):
    return base64.b64encode(f"x:{calls.agent_key(number)}".encode()).decode()


def opened(port, context, name, through, number=0):
    """A connection with TLS inside: through a proxy's tunnel to that host, or to the port itself."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if through:
        sock.sendall(f"CONNECT {through} HTTP/1.1\r\nhost: {through}\r\nproxy-authorization: Basic {proof(number)}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = sock.recv(4096)
            if not piece or (head == b"" and b" 200 " not in piece[:20]):
                sys.exit(f"web_lane: no tunnel: {head + piece!r}")
            head += piece
    return context.wrap_socket(sock, server_hostname=name)


def counted(process, count, work):
    """CPU microseconds of a process for each of so many requests, which several clients make: `work` makes a share of them."""
    before, began = bench.cpu_s(process), time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(work, range(CLIENTS)))
    took = time.perf_counter() - began
    return bench.Run((bench.cpu_s(process) - before) / count * 1e6, count / took, 0, None, None)


def kept_gets(target, count):
    """GETs of 1 KB on kept connections with TLS."""
    def work(number):
        sock = opened(target["port"], target["context"], "localhost", target["through"], number)
        reader, request = sock.makefile("rb"), get(target["through"] or "localhost", "/small")
        for _ in range(count // CLIENTS):
            sock.sendall(request)
            read_answer(reader)
        sock.close()
    return counted(target["process"], count, work)


def cold_gets(target, names):
    """A connection and a GET for each name."""
    def work(number):
        for name in names[number::CLIENTS]:
            through = target["through"] and target["through"].replace("localhost", name)
            sock = opened(target["port"], target["context"], name, through, number)
            sock.sendall(get(through or name, "/small", "connection: close\r\n"))
            read_answer(sock.makefile("rb"))
            sock.close()
    return counted(target["process"], len(names), work)


def tunnel_gets(target, count):
    """GETs of 64 MB on one kept connection for each of two clients; the process' CPU time for a GB."""
    def work(number):
        if number > 1:
            return
        sock = opened(target["port"], target["context"], target["name"], target["through"], number)
        reader = sock.makefile("rb", 1 << 20)
        for _ in range(count // 2):
            sock.sendall(get(target["through"] or target["name"], "/big"))
            read_answer(reader)
        sock.close()
    return counted(target["process"], count * BIG / 1e9, work)


def socket_messages(target, count):
    """Messages of 100 bytes of a WebSocket, each sent back before the next."""
    words = calls.PROSE[:100].encode()
    mask = b"\1\2\3\4"
    frame = b"\x81" + struct.pack("!B", 0x80 | len(words)) + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(words))

    def work(number):
        sock = socket.create_connection(("127.0.0.1", target["port"]))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        path, more = target["path"], f"proxy-authorization: Basic {proof(number)}\r\n" if target["through"] else ""
        sock.sendall(get(target["host"], path, f"{more}upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"))
        reader = sock.makefile("rb")
        status = reader.readline()
        while reader.readline() not in (b"\r\n", b""):
            pass
        if b" 101 " not in status:
            sys.exit(f"web_lane: no WebSocket: {status!r}")
        for _ in range(count // CLIENTS):
            sock.sendall(frame)
            if reader.read(2 + len(words))[2:] != words:
                sys.exit("web_lane: a message came back otherwise")
        sock.close()
    return counted(target["process"], count, work)


# Tables of the load tool

def table(name, rows):
    lines = []
    for number, (path, host) in enumerate(rows):
        fields = {"Host": host, "proxy-authorization": f"Basic {proof(number % calls.AGENTS)}"}
        lua = ",".join(f"[{json.dumps(field)}]={json.dumps(value)}" for field, value in fields.items())
        lines.append(f'{{{json.dumps(path)},{{{lua}}},nil,"GET"}}')
    rows = ",\n".join(lines)
    (bench.WORK / f"{name}.lua").write_text(f'return {{\ngood="station",\n{rows}\n}}\n')


def tables(plain):
    host = f"localhost:{plain}"
    table("small", [(f"http://{host}/small", host)] * calls.AGENTS)
    table("small-nginx", [("/small", host)] * calls.AGENTS)
    table("pages", [(f"http://{host}/page-{n % DOCUMENTS}", host) for n in range(calls.AGENTS)])


# All of it

def run_all(found, options):
    """The runs of each row, by name, all in turns."""
    gateway, bare = found["weir"], found["weir, no scan"]
    plain = {"small, weir": (gateway, "proxy", "small"), "call, weir": (gateway, "port", "call"), "small, nginx": (found["nginx"], "plain", "small-nginx"),
             "pages, weir": (gateway, "proxy", "pages"), "pages, weir without the scan": (bare, "proxy", "pages")}
    rows = {name: lambda at=at: bench.measured(at[0]["process"], at[0][at[1]], options.seconds, table=at[2]) for name, at in plain.items()}
    rows |= {f"inside, {name}": lambda target=target: kept_gets(target, options.gets) for name, target in found["inside"].items()}
    number = iter(range(10 ** 6))
    names = lambda: [f"h{next(number):05}.bench.test" for _ in range(NAMES * CLIENTS)] if os.geteuid() == 0 else []
    if os.geteuid() == 0:
        rows |= {f"new host, {name}": lambda target=target: cold_gets(target, names()) for name, target in found["cold"].items()}
    rows |= {f"tunnel, {name}": lambda target=target: tunnel_gets(target, options.big) for name, target in found["tunnel"].items()}
    rows |= {f"socket, {name}": lambda target=target: socket_messages(target, options.messages) for name, target in found["socket"].items()}
    for row in rows.values():
        row()
    return in_turns(rows, options.pairs, lambda name: rows[name](), "web_lane")


def rate(values):
    """How often a second: whole numbers where it is often."""
    return whole(values) if min(values) > 20 else bench.spread(values)


LABELS = {"small": "GET of 1 KB", "call": "`tools/call` of 1 KB", "pages": "GET of a document of 10 KB", "inside": "GET of 1 KB inside of TLS that is kept",
          "new host": "a new host, with the handshakes of both sides", "tunnel": "a GB in a tunnel", "socket": "a WebSocket message of 100 bytes and back"}


def page(runs, memory, stop, options):
    lines = [f"{figures.measured()}, on {bench.machine()}; {options.pairs} rounds; median (least to most).", "",
             "| what | CPU µs | a second |", "|---|--:|--:|"]
    for name, those in runs.items():
        what, by = name.split(", ", 1)
        lines.append(f"| {LABELS[what]}, {by} | {bench.spread([one.cpu_us for one in those])} | {rate([one.rate for one in those])} |")

    def pairs(one, other, by=lambda a, b: a / b if b else float("inf")):
        return [by(a.cpu_us, b.cpu_us) for a, b in zip(runs[one], runs[other])] if one in runs and other in runs else None

    def less(a, b):
        return a - b
    scan = pairs("pages, weir", "pages, weir without the scan", less)
    rows = [
        ("GET of 1 KB / `tools/call` of 1 KB", pairs("small, weir", "call, weir"), DUE["call"]),
        ("GET of 1 KB / nginx as reverse proxy", pairs("small, weir", "small, nginx"), "–"),
        ("document of 10 KB / what its scan takes by itself", [a.cpu_us / max(1, b) for a, b in zip(runs["pages, weir"], scan)], DUE["scan"]),
        ("inside of TLS, kept / nginx with TLS on both sides", pairs("inside, weir", "inside, nginx"), DUE["nginx"]),
        ("inside of TLS, kept / squid", pairs("inside, weir", "inside, squid"), DUE["squid"]),
        ("a new host, µs above nginx's handshakes", pairs("new host, weir", "new host, nginx", less), DUE["host_us"]),
        ("a GB in a tunnel / nginx `stream`", pairs("tunnel, weir", "tunnel, nginx"), DUE["tunnel"]),
        ("a WebSocket message and back, µs above nginx", pairs("socket, weir", "socket, nginx", less), DUE["socket_us"])]
    lines += ["", "| CPU time, by round | | due, at most |", "|---|--:|--:|"]
    lines += [f"| {what} | {f'{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})' if values else 'not measured: what it takes is not here'} | {due} |" for what, values, due in rows]
    return "\n".join([*lines, "", *memory, "", *stop])


def clients(gateway, ports, squid):
    """What is asked how, by what is measured."""
    secured, process = ports["site-secured"], gateway["process"]

    def trusting(path):
        return ssl.create_default_context(cafile=path)
    site = trusting(bench.WORK / "site-ca.pem")
    weir = {"process": process, "port": gateway["proxy"], "context": trusting(gateway["ca"]), "through": f"localhost:{secured}"}
    nginx = {"process": gateway["nginx"], "port": ports["secured"], "context": site, "through": None}
    inside = {"weir": weir, "nginx": nginx}
    if squid:
        inside["squid"] = {"process": squid, "port": ports["squid"], "context": trusting(bench.WORK / "squid-ca.crt"), "through": f"localhost:{secured}"}
    tunnels = {"weir": {**weir, "context": site, "name": "tunnel.bench.test", "through": f"tunnel.bench.test:{secured}"},
               "nginx": {**nginx, "port": ports["stream"], "name": "tunnel.bench.test"}}
    at = f"localhost:{ports['site-socket']}"
    sockets = {"weir": {"process": process, "port": gateway["proxy"], "through": True, "host": at, "path": f"http://{at}/"},
               "nginx": {"process": gateway["nginx"], "port": ports["socket"], "through": False, "host": at, "path": "/"}}
    return {"inside": inside, "cold": {"weir": weir, "nginx": {**nginx, "port": ports["cold"]}}, "tunnel": tunnels, "socket": sockets}


def parse_options():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--pairs", type=int, default=6)
    options.add_argument("--seconds", type=int, default=3)
    options.add_argument("--smoke", action="store_true", help="one short round of each; leaves the page alone")
    options.add_argument("--dry", action="store_true", help="print the result and leave the page alone")
    options = options.parse_args()
    options.gets, options.big, options.messages, options.streams, options.stopped = 8_000, 16, 16_000, 1_000, 5_000
    if options.smoke:
        options.pairs, options.seconds, options.dry = 1, 1, True
        options.gets, options.big, options.messages, options.streams, options.stopped = 800, 2, 800, 100, 200
    return options


def main():
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("web_lane: ended by a signal"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    weir = str(Path(options.weir).resolve())
    # The black-box tests' tools take the binary from the environment.
    os.environ["WEIR_BIN"] = weir
    sys.path.insert(0, str(bench.ROOT / "tests/blackbox"))
    from test_relay_mutual import Authority, server
    bench.WORK = bench.ROOT / "target/bench/web-lane"
    origin, origin_port = bench.prepare()
    started = [origin]
    try:
        authority = Authority()
        (bench.WORK / "site-ca.pem").write_bytes(authority.pem)
        server(authority, bench.WORK, "site", "localhost", "*.bench.test")
        names = [f"h{n:05}.bench.test" for n in range(NAMES * CLIENTS * 2 * (options.pairs + 2))] + ["tunnel.bench.test"]
        (bench.WORK / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {name}\n" for name in names))
        site_files()
        ports = {name: bench.free_port() for name in ("plain", "secured", "cold", "socket", "stream", "squid", "site-plain", "site-secured")}
        slow = web_streams.Slow(bench.WORK / "site.crt", bench.WORK / "site.pem")
        ports["site-socket"] = slow.socket_port
        started.append(start_site("site", ports["site-plain"], ports["site-secured"]))
        nginx = start_proxies(ports["site-plain"], ports["site-secured"], slow.socket_port, {name: ports[name] for name in ("plain", "secured", "cold", "socket", "stream")})
        started.append(nginx)
        gateways = {}
        for name, scan in (("weir", {}), ("no-scan", OFF)):
            more = {key: value for key, value in scan.items() if key != "urls"}
            gateways[name] = start_gateway(weir, name, origin_port, scan=more, urls=scan.get("urls", {}))
            started.append(gateways[name]["process"])
        squid = start_squid(ports["squid"])
        started += [squid] if squid else []
        gateway = {**gateways["weir"], "nginx": nginx}
        sessions = [calls.open_session(gateway["port"], agent) for agent in range(calls.AGENTS)]
        calls.write_requests(bench.WORK / "call.lua", calls.Way(), sessions)
        tables(ports["site-plain"])
        found = {"weir": gateway, "weir, no scan": gateways["no-scan"], "nginx": {"process": nginx, "plain": ports["plain"]}, **clients(gateway, ports, squid)}
        runs = run_all(found, options)
        memory = web_streams.memory(gateway, slow, options.streams, calls.agent_key(0))
        stop = web_streams.stop(gateway, slow, options.stopped, calls.agent_key(0))
    finally:
        bench.end(started)
    text = page(runs, memory, stop, options)
    print(text)
    if not options.dry:
        figures.write("web-lane", text)


if __name__ == "__main__":
    main()
