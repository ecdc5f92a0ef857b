#!/usr/bin/env bash
# Builds the fuzzer on the stable compiler and runs each target for a few seconds (the first argument); `build` only builds.
#
# There is no address sanitizer, which needs a nightly compiler; our code has no unsafe, so panics and wrong
# answers are what there is to find. A crash leaves its input in fuzz/artifacts and ends the run. The corpus
# grows in fuzz/corpus, which git ignores; fuzz/seeds is kept.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-5}
only=${2:-}

if ! RUSTC_WRAPPER=$PWD/instrument.sh cargo build --locked --quiet --target-dir ../target; then
  echo "fuzz: after a change of dependencies: cp Cargo.lock fuzz/ && (cd fuzz && cargo update --workspace)" >&2
  exit 1
fi
[ "$seconds" != build ] || exit 0
binary=../target/debug/weir-fuzz

targets=$(sed -n 's/^    ("\([a-z0-9_]*\)", targets::.*/\1/p' src/main.rs)
[ "$(wc -w <<<"$targets")" -eq "$(grep -c ', targets::' src/main.rs)" ] ||
  { echo "fuzz: not every target of src/main.rs was found" >&2; exit 1; }
chosen=()
for target in $targets; do
  [ -z "$only" ] || [ "$only" = "$target" ] || continue
  chosen+=("$target")
done
[ "${#chosen[@]}" -gt 0 ] || { echo "fuzz: no target is named $only" >&2; exit 1; }

run_target() {
  local target=$1 log runs
  mkdir -p "corpus/$target" "seeds/$target" artifacts
  log=$(mktemp)
  if ! WEIR_FUZZ=$target "$binary" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
    -verbosity=1 -print_final_stats=1 -artifact_prefix="artifacts/$target-" "corpus/$target" "seeds/$target" \
    >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "fuzz: $target failed; its input is in fuzz/artifacts" >&2
    return 255
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
  printf 'fuzz: %-24s %10s runs\n' "$target" "$runs"
  rm -f "$log"
  [ "${runs:-0}" -gt 0 ] || { echo "fuzz: $target ran nothing" >&2; return 255; }
}
export -f run_target
export seconds binary
# One on each core; 255 has xargs begin no other.
printf '%s\n' "${chosen[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run_target {}'
printf '%s passed, 0 failed\n' "${#chosen[@]}"
