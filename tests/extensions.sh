#!/usr/bin/env bash
# Compares several servers with one extension of a source tree and one of contrib, built against each of them:
#   tests/extensions.sh 14.12 18.6          labels, or source trees as NAME=PATH
# Takes a compilation of each server that is not in the store. Exit code 0 if all were built and measured.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../nix/machine.sh"
[ $# -ge 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
chmod 755 "$folder"
(cd "$root" && "$(built python.dev)/bin/python" -m tests.support.smallextension "$folder/extension")
echo "SELECT counted(20000), similarity('a', 'b');" > "$folder/counting.sql"
builds=("${@/%/+counting=$folder/extension+pg_trgm}")
"$root/bench" run --pg "$(IFS=, && echo "${builds[*]}")" --workload "pgbench:$folder/counting.sql" --plain \
  --pgbench-scale 1 --clients 1 --seconds 2 --repeats 2 --probes none --set shared_buffers=64MB --out "$folder/runs"
