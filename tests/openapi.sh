#!/usr/bin/env bash
# Checks what others write programs from. The description of the interface is valid OpenAPI, a client can be generated
# from it without a warning, and that client submits a job to a real server and waits for it. Every form of a file that
# `warpyard schema` prints is a valid schema, and its example is of that form.
# usage: tests/openapi.sh WARPYARD
set -euo pipefail
warpyard=${1:?usage: tests/openapi.sh WARPYARD}
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${WARPYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warpyard}
pins='openapi-spec-validator==0.9.0 openapi-python-client==0.29.1'
venv=$cache/openapi
if [ "$(cat "$venv/pins" 2>/dev/null)" != "$pins" ]; then
  # shellcheck disable=SC2086
  rm -rf "$venv" && python3 -m venv "$venv" && "$venv/bin/pip" install -q $pins && echo "$pins" >"$venv/pins"
fi
export PATH=$venv/bin:$PATH

data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
for of in job config instance workflow machines cluster trace; do
  "$warpyard" schema $of | python3 -c '
import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(sys.stdin)
Validator.check_schema(schema)
[example] = schema["examples"]
Validator(schema).validate(example)'
  echo "schema $of: OK"
done
openapi-spec-validator "$here/docs/openapi.json"
(cd "$data" && openapi-python-client generate --path "$here/docs/openapi.json" --output-path "$data/client/generated" --meta none --fail-on-warning)

"$warpyard" up --data "$data/d" --listen 127.0.0.1:0 --gpus fake:2xV100:16GiB --json >"$data/up" 2>"$data/err" &
pid=$!
trap '"$warpyard" --data "$data/d" down --kill-tasks >/dev/null; wait $pid; rm -rf "$data"' EXIT
until [ -s "$data/up" ]; do kill -0 $pid || { cat "$data/err"; exit 1; }; sleep 0.1; done
url=$(python3 -c "import json; print(json.load(open('$data/up'))['url'])")
PYTHONPATH=$data/client python3 "$here/tests/openapi_client.py" "$url" "$(cat "$data/d/token")"
