#!/usr/bin/env bash
# Accuracy and speed of `warpyard estimate`: published parameters and multiply-adds, peaks from first principles, NVML peaks of real
# trainings (data beside the checkout), and how long an estimate takes. Exports the models first where they are missing.
#
#   bench/estimate.sh            # medians by model
#   WARPYARD_ROWS=1 bench/estimate.sh   # every measured training
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/export-models
cargo test --quiet --locked --package warpyard-estimate --test accuracy -- --show-output --test-threads 1 |
  grep -vE '^(running|successes|test |----|$)' || { echo 'an accuracy target was missed; the test says which' >&2; exit 1; }
cargo bench --quiet --locked --package warpyard-estimate
