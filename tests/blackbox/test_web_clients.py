"""npm, pip and cargo through the proxy, by tunnel and looked into; Chromium with playwright-core; and the readable part of pages beside
Mozilla's Readability."""

import base64
import hashlib
import io
import json
import os
import random
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from websockets.sync.server import serve

from gateway import WEIR, until
from test_web import SECRET, House, Site, site, surroundings  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
BROWSER_MODULES = ROOT / ".setup/node-browser/node_modules"
CLIENTS = Path(__file__).parent / "clients"
SOURCE = random.Random(11).randbytes(200_000)


class Folder(SimpleHTTPRequestHandler):
    """A folder as a registry."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def log_error(self, *_):
        pass


@pytest.fixture(scope="module")
def registry(site, tmp_path_factory):  # noqa: F811
    """Indexes of npm, pip and cargo, each with one package, below one secured name."""
    folder = tmp_path_factory.mktemp("registry")
    # The site's own certificate, which its authority signed.
    certificates = Path(site.folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "site.crt", certificates / "site.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Folder(*args, directory=str(folder)))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://localhost:{server.server_address[1]}"
    wheel(folder)
    npm(folder, url)
    crate(folder, url)
    yield url
    server.shutdown()
    server.server_close()


def wheel(folder):
    name = "acme_pack-1.0.0-py3-none-any.whl"
    (folder / "simple/acme-pack").mkdir(parents=True)
    with zipfile.ZipFile(folder / "simple/acme-pack" / name, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("acme_pack/__init__.py", "said = 'by pip'\n")
        file.writestr("acme_pack/data.bin", SOURCE)
        file.writestr("acme_pack-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme-pack\nVersion: 1.0.0\n")
        file.writestr("acme_pack-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("acme_pack-1.0.0.dist-info/RECORD", "acme_pack/__init__.py,,\nacme_pack/data.bin,,\n")
    (folder / "simple/acme-pack/index.html").write_text(f"<!doctype html><a href='{name}'>{name}</a>")


def packed(files, prefix):
    """A tarball as registries have them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{prefix}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def npm(folder, url):
    (folder / "npm/acme-pack/-").mkdir(parents=True)
    package = {"name": "acme-pack", "version": "1.0.0", "main": "index.js"}
    files = {"package.json": json.dumps(package).encode(), "index.js": b"exports.said = 'by npm';\n", "data.bin": SOURCE}
    tar = packed(files, "package")
    (folder / "npm/acme-pack/-/acme-pack-1.0.0.tgz").write_bytes(tar)
    digest = "sha512-" + base64.b64encode(hashlib.sha512(tar).digest()).decode()
    resolved = f"{url}/npm/acme-pack/-/acme-pack-1.0.0.tgz"
    lock = {"name": "user", "lockfileVersion": 3, "requires": True, "packages": {
        "": {"name": "user", "dependencies": {"acme-pack": "1.0.0"}},
        "node_modules/acme-pack": {"version": "1.0.0", "resolved": resolved, "integrity": digest}}}
    (folder / "npm/package-lock.json").write_text(json.dumps(lock))


def crate(folder, url):
    (folder / "crates/ac/me").mkdir(parents=True)
    (folder / "dl").mkdir()
    manifest = b"[package]\nname = \"acme-pack\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"
    tar = packed({"Cargo.toml": manifest, "src/lib.rs": b"//! By cargo.\n", "data.bin": SOURCE}, "acme-pack-1.0.0")
    (folder / "dl/acme-pack").write_bytes(tar)
    (folder / "crates/config.json").write_text(json.dumps({"dl": f"{url}/dl/{{crate}}"}))
    row = {"name": "acme-pack", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(tar).hexdigest(), "features": {}, "yanked": False}
    (folder / "crates/ac/me/acme-pack").write_text(json.dumps(row) + "\n")


@pytest.fixture(scope="module", params=["tunnel", "inside"])
def house(request, site, tmp_path_factory):  # noqa: F811
    is_inside = request.param == "inside"
    with House(tmp_path_factory.mktemp(request.param) / "weir", site, intercept=is_inside) as house:
        (house.gateway.folder / "key").write_text(house.key())
        (house.gateway.folder / "key").chmod(0o600)
        house.is_inside = is_inside
        yield house


def through(house, folder, *command, **environment):
    """Runs a program with the variables that weir connect env prints, as weir web run sets them."""
    config = house.gateway.folder / "weir.yaml"
    run = [str(WEIR), "web", "run", "-c", str(config), "--proxy", house.proxy, "--key", f"file:{house.gateway.folder / 'key'}", "--", *command]
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], **environment}
    if not house.is_inside:
        # Without interception the site is verified by its own authority.
        ca = str(house.gateway.folder / "site-ca.pem")
        environment |= {name: ca for name in ("NODE_EXTRA_CA_CERTS", "PIP_CERT", "NPM_CONFIG_CAFILE", "CARGO_HTTP_CAINFO", "SSL_CERT_FILE")}
    done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def was_seen(house, path):
    """With interception each file stands in the record; without it the tunnel alone."""
    if house.is_inside:
        until(lambda: [r for r in house.records() if r.get("path", "").endswith(path)], f"a record of {path}")
    else:
        assert house.records(action="web:tunnel") and not [r for r in house.records() if r.get("path", "").endswith(path)]


def test_pip_install(house, registry, tmp_path):
    through(house, tmp_path, sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-cache-dir",
            "--index-url", f"{registry}/simple", "--target", str(tmp_path / "got"), "acme-pack==1.0.0")
    assert (tmp_path / "got/acme_pack/data.bin").read_bytes() == SOURCE
    was_seen(house, "/acme_pack-1.0.0-py3-none-any.whl")


@pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
def test_npm_ci(house, registry, tmp_path):
    (tmp_path / "package.json").write_text(json.dumps({"name": "user", "dependencies": {"acme-pack": "1.0.0"}}))
    context = ssl.create_default_context(cafile=str(house.gateway.folder / "site-ca.pem"))
    import urllib.request
    with urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)).open(
            f"{registry}/npm/package-lock.json") as lock:
        (tmp_path / "package-lock.json").write_bytes(lock.read())
    through(house, tmp_path, "npm", "ci", "--no-audit", "--no-fund", "--registry", f"{registry}/npm/", "--cache", str(tmp_path / "cache"))
    assert (tmp_path / "node_modules/acme-pack/data.bin").read_bytes() == SOURCE
    was_seen(house, "/acme-pack-1.0.0.tgz")


@pytest.mark.skipif(not shutil.which("cargo"), reason="there is no cargo")
def test_cargo_fetch(house, registry, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").write_text("")
    (tmp_path / ".cargo").mkdir()
    (tmp_path / ".cargo/config.toml").write_text(
        f"[registries.acme]\nindex = \"sparse+{registry}/crates/\"\n[source.crates-io]\nreplace-with = \"acme\"\n"
        f"[source.acme]\nregistry = \"sparse+{registry}/crates/\"\n")
    (tmp_path / "Cargo.toml").write_text(
        "[package]\nname = \"user\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\nacme-pack = \"1\"\n")
    rustup = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
    through(house, tmp_path, "cargo", "fetch", CARGO_HOME=str(tmp_path / "cargo"), RUSTUP_HOME=rustup)
    got = list((tmp_path / "cargo/registry/src").glob("*/acme-pack-1.0.0/data.bin"))
    assert got and got[0].read_bytes() == SOURCE
    was_seen(house, "/dl/acme-pack")


# A browser


PAGE = """<!doctype html><html><head><title>A page of an application</title></head><body><h1>Application</h1>
<form id="form" action="/echo" method="post" enctype="multipart/form-data"><input name="word" value="from the form">
<input type="file" name="file"><button id="send">Send</button></form><a id="download" download href="/bytes?n=300000">Download</a>
<script>
(async () => {
  const result = window.so_far = {};
  const post = await fetch('/echo', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ say: 'hello' }) });
  result.fetch = atob((await post.json()).body);
  result.events = await new Promise((resolve, reject) => {
    const source = new EventSource('/events?w=one,two,three'), said = [];
    source.onmessage = (event) => { said.push(event.data); if (said.length === 3) { source.close(); resolve(said); } };
    source.onerror = () => reject(new Error('events'));
  });
  result.socket = await new Promise((resolve, reject) => {
    const socket = new WebSocket('SOCKET'), said = [];
    socket.onopen = () => { socket.send('one'); socket.send('two'); };
    socket.onmessage = (event) => { said.push(event.data); if (said.length === 2) { socket.close(4321); resolve(said); } };
    socket.onerror = () => reject(new Error('socket'));
  });
  const leak = await fetch('/echo', { method: 'POST', body: [...'MOVED'].map((c) => String.fromCharCode(c.charCodeAt(0) + 2)).join('') });
  result.leak = leak.status;
  return result;
})().catch((error) => ({ error: String(error) })).then((result) => { window.result = result; window.done = true; });
</script></body></html>"""


@pytest.mark.skipif(not shutil.which("chromium") or not BROWSER_MODULES.exists(), reason="there is no Chromium or no playwright-core")
def test_chromium_loads_an_application(site, tmp_path):  # noqa: F811
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(site.folder) / "site.crt", Path(site.folder) / "site.pem")
    heard = []

    def talk(socket):
        for message in socket:
            heard.append(message)
            socket.send(f"{message} heard")

    sockets = serve(talk, "127.0.0.1", 0, ssl=context)
    threading.Thread(target=sockets.serve_forever, daemon=True).start()
    port = sockets.socket.getsockname()[1]
    page = tmp_path / "page.html"
    # A key that stands in the page would be taken out of it: each letter of it is moved by two.
    page.write_text(PAGE.replace("SOCKET", f"wss://localhost:{port}/talk").replace("MOVED", "".join(chr(ord(c) - 2) for c in SECRET)))
    upload = tmp_path / "upload.bin"
    upload.write_bytes(random.Random(5).randbytes(40_000))
    other = Site(tmp_path, environment={"SITE_KEPT": str(page)})
    # The socket is of the other authority.
    bundle = tmp_path / "more-ca.pem"
    bundle.write_bytes(site.authority.pem)
    try:
        with House(tmp_path / "weir", other, intercept=True, more_ca=bundle) as house:
            certificate = x509.load_pem_x509_certificate(house.ca.read_bytes())
            key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            asked = {"chromium": shutil.which("chromium"), "spki": base64.b64encode(hashlib.sha256(key).digest()).decode(),
                     "proxy": f"http://{house.proxy}", "key": house.key(), "url": f"{other.https}/kept?kind=text/html",
                     "file": str(upload), "refused": f"{other.https}/orders"}
            environment = {**os.environ, "BROWSER_MODULES": str(BROWSER_MODULES), "HOME": str(tmp_path)}
            done = subprocess.run(["node", str(CLIENTS / "browser.cjs"), json.dumps(asked)], capture_output=True, text=True, env=environment,
                                  timeout=120)
            assert done.returncode == 0, done.stderr + house.gateway.logs.text()[-2000:]
            result = json.loads(done.stdout)
            assert result["status"] == 200 and "weir interception" in result["security"]
            script = result["script"]
            assert script.get("fetch") == '{"say":"hello"}' and script["events"] == ["one", "two", "three"], script
            assert script["socket"] == ["one heard", "two heard"] and heard[:2] == ["one", "two"]
            assert script["leak"] == 403
            form = base64.b64decode(result["form"]["body"])
            assert b"from the form" in form and upload.read_bytes() in form
            assert result["download"] == hashlib.sha256(random.Random(1).randbytes(300_000)).hexdigest()
            assert result["refused"] in (403, 502)
            assert [r for r in house.records() if r.get("method") == "websocket"]
    finally:
        other.stop()
        sockets.shutdown()


# The readable part


def pages(count):
    """Pages of documentation on this machine: of its packages, then of toolchains, in an order that is always the same."""
    groups = [["/usr/share/doc", "/usr/share/gtk-doc/html", "/usr/lib/node_modules/npm/docs"],
              [str(folder) for folder in Path.home().glob(".rustup/toolchains/stable-*/share/doc/rust/html")]]
    found = []
    for folders in groups:
        if len(found) < count:
            group = {path.resolve() for folder in folders for path in Path(folder).rglob("*.html") if is_page(path)}
            found += sorted(group, key=lambda path: hashlib.sha256(str(path).encode()).digest())
    return found[:count]


def is_page(path):
    try:
        return path.is_file() and 3_000 < path.stat().st_size < 150_000
    except OSError:
        return False


def common(ours, theirs, folder):
    """How many words of theirs stand in ours too, in the same order."""
    for name, words in (("ours", ours), ("theirs", theirs)):
        (folder / name).write_text("".join(f"{word}\n" for word in words))
    done = subprocess.run(["diff", "--speed-large-files", str(folder / "theirs"), str(folder / "ours")], capture_output=True, text=True)
    return len(theirs) - sum(line.startswith("< ") for line in done.stdout.splitlines())


def untouched(asked, theirs, folder):
    """Prints what the library gives without what /fetch does about it, where WEIR_LEGIBLE names
    `cargo build -p web --example legible`."""
    program = os.environ.get("WEIR_LEGIBLE")
    if not program:
        return
    lines = "\n".join(json.dumps({"url": one["url"], "html": Path(one["file"]).read_text(errors="replace")}) for one in asked)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=600, check=True)
    good, none, rest = 0, 0, []
    for one, line in zip(asked, done.stdout.splitlines(), strict=True):
        words, text = (theirs[one["file"]] or "").split(), json.loads(line)["text"]
        if words:
            share = common((text or "").split(), words, folder) / len(words)
            good, none = good + (share >= 0.95), none + (not text)
            if share < 0.95:
                rest.append((round(share, 3), len(words), one["file"]))
    print(f"\nlegible untouched: {good} pages have 95 % of Readability's words, {none} have none", *sorted(rest)[:20], sep="\n  ")


@pytest.mark.skipif(not BROWSER_MODULES.exists(), reason="Readability is not installed")
def test_the_readable_part_is_that_of_readability(site, tmp_path):  # noqa: F811
    wanted = int(os.environ.get("WEIR_PAGES", "16"))
    files = pages(wanted)
    if len(files) < 10:
        pytest.skip("this machine has no pages of documentation")
    folder = tmp_path / "pages"
    folder.mkdir()
    for number, file in enumerate(files):
        shutil.copy(file, folder / f"{number}.html")
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Folder(*args, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://localhost:{server.server_address[1]}"
    asked = [{"file": str(folder / f"{number}.html"), "url": f"{base}/{number}.html"} for number in range(len(files))]
    done = subprocess.run(["node", str(CLIENTS / "readable.cjs")], input="\n".join(map(json.dumps, asked)), capture_output=True, text=True,
                          env={**os.environ, "BROWSER_MODULES": str(BROWSER_MODULES)}, timeout=600)
    assert done.returncode == 0, done.stderr
    theirs = {one["file"]: one["text"] for one in map(json.loads, done.stdout.splitlines())}
    good, rest, none = 0, [], 0
    # Documentation of attacks holds some: nothing is refused here.
    with House(tmp_path / "weir", site, mode="observe") as house:
        for number, one in enumerate(asked):
            text = theirs[one["file"]]
            words = (text or "").split()
            if not words:
                none += 1
                continue
            answer = house.fetch(one["url"])
            assert answer.status == 200, (one, answer.body)
            ours = answer.json()["text"].split()
            share = common(ours, words, tmp_path) / len(words)
            if share >= 0.95:
                good += 1
            else:
                rest.append((round(share, 3), len(words), len(ours), str(files[number])))
    server.shutdown()
    read = good + len(rest)
    untouched(asked, theirs, tmp_path)
    print(f"\nreadable: {good} of {read} pages have 95 % of Readability's words, {none} have none by it")
    for one in sorted(rest):
        print("  ", *one)
    assert good >= 0.9 * read, sorted(rest)
