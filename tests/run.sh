#!/usr/bin/env bash
# pytest with the arguments given; what failed is run again, by itself. Servers are measured here on a machine that others
# may use, too: a test that meets their work fails once, or twice where they stay, and is named; one that fails three
# times is wrong. Where more than a handful failed there is nothing to ask again.
set -uo pipefail
cache=$(mktemp -d)
trap 'rm -r "$cache"' EXIT
pytest() { python -m pytest -o cache_dir="$cache" "$@"; }

pytest "$@"
status=$?
failed=$cache/v/cache/lastfailed
for times in once twice; do
  [ "$status" -eq 1 ] && [ "$(grep -c '": true' "$failed")" -le 5 ] || break
  echo "FAILED $times, and asked again by themselves:"
  cat "$failed"
  pytest --last-failed "$@"
  status=$?
done
exit "$status"
