#!/usr/bin/env bash
# Builds servers twice and compares the two bit by bit: tests/rebuild.sh [16.3 17.11:O3 …], by default all whose source is
# here. Takes a compilation of each, two where it is not in the store. What differs is named, file by file; exit code 1.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../nix/machine.sh"
status=0
mapfile -t all < <(nix eval "${nix_options[@]}" --quiet --quiet --quiet --json "$flake#packages.$system" \
  --apply 'packages: builtins.filter (name: packages.${name} ? src && packages.${name}.src.atHand or true)
    (builtins.filter (name: builtins.match "postgresql-[0-9]+(_[0-9]+)?(beta|rc)?[0-9]*" name != null)
      (builtins.attrNames packages))' | tr -d '[]"' | tr ',' '\n')
wanted=("${@/#/postgresql-}")
for attribute in "${wanted[@]:-${all[@]}}"; do
  attribute=${attribute//./_}
  built "$attribute" > /dev/null || { status=1; continue; }
  log=$(mktemp)
  if nix build "${nix_options[@]}" --quiet --rebuild --keep-failed --no-link "$flake#$attribute" 2> "$log"; then
    echo "$attribute: the same"
  else
    status=1
    second=$(sed -nE "s/.*differs from '([^']+)'.*/\1/p" "$log")
    echo "$attribute: $(grep -m 1 '^error' "$log")"
    [ -z "$second" ] || diff -rq --no-dereference "${second%.check}" "$second" || true
  fi
  rm "$log"
done
exit "$status"
