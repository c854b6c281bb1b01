#!/usr/bin/env bash
# Throws requests generated from the description of the interface at a server: none may be answered with 5xx, none may end
# it. With 300 it makes more than 10,000 of them in all. usage: tests/schemathesis.sh WARPYARD [EXAMPLES PER OPERATION]
set -euo pipefail
warpyard=${1:?usage: tests/schemathesis.sh WARPYARD [EXAMPLES]}
examples=${2:-300}
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${WARPYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warpyard}
[ -x "$cache/schemathesis/bin/st" ] || { python3 -m venv "$cache/schemathesis"; "$cache/schemathesis/bin/pip" install -q schemathesis==4.32.5; }

data=$(mktemp -d)
ask() { curl -sf -H "Authorization: Bearer $token" -H 'Content-Type: application/json' "$@"; }
trap 'ask "$url/v1/shutdown" -d "{\"kill_tasks\":true}"; wait $pid; rm -rf "$data"' EXIT
"$warpyard" up --data "$data/d" --listen 127.0.0.1:0 --gpus fake:2xV100:16GiB --json >"$data/up" 2>"$data/err" &
pid=$!
url= token=
until [ -s "$data/up" ]; do sleep 0.1; done
url=$(python3 -c "import json,sys; print(json.load(open('$data/up'))['url'])")
token=$(cat "$data/d/token")
for name in one two; do
  ask "$url/v1/jobs" -d "{\"doc\":{\"name\":\"$name\",\"command\":\"echo hello; sleep 8\",\"gpus\":1,\"timeout\":\"1h\"}}" >/dev/null
done
until ask "$url/v1/info" | grep -q '"running":2'; do sleep 0.1; done
# Nothing that is made up may run: the worker takes no more tasks, and is not told to again.
worker=$(ask "$url/v1/workers" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["id"])')
ask -X POST "$url/v1/workers/$worker/drain" >/dev/null
# Left out: the stream, which does not end, and the requests that end the server or let a worker take tasks.
(cd "$data" && "$cache/schemathesis/bin/st" run "$here/docs/openapi.json" --url "$url" -H "Authorization: Bearer $token" \
  --checks not_a_server_error --max-examples "$examples" --phases coverage,fuzzing --mode all --request-timeout 20 \
  --exclude-path /v1/shutdown --exclude-path /v1/events --exclude-path "/v1/workers/{id}/resume" --seed 1 --continue-on-failure) || failed=1
kill -0 $pid || { echo 'the server ended'; cat "$data/err"; exit 1; }
ask "$url/v1/info" >/dev/null || { echo 'the server no longer answers'; exit 1; }
exit ${failed:-0}
