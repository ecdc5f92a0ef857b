#!/usr/bin/env bash
# The compiler, for cargo's RUSTC_WRAPPER: counts coverage in our own crates, and in no others.
#
# The flags are what cargo-fuzz gives. Instrumenting all dependencies would double the time that a build
# takes, and steer the fuzzer by code that is not under test.
set -euo pipefail
# A build script is linked without the fuzzer.
case " $* " in
  *" --crate-name build_script_"*) exec "$@" ;;
esac
case ${CARGO_PKG_NAME:-} in
  base | config | identity | policy | scan | seal | net | store | mcp | llm | lab | tools | weir-fuzz)
    exec "$@" --cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
      -Cllvm-args=-sanitizer-coverage-level=4 \
      -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
      -Cllvm-args=-sanitizer-coverage-pc-table \
      -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
  *) exec "$@" ;;
esac
