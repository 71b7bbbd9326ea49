#!/usr/bin/env bash
# Builds servers twice and compares the two bit by bit, build ids apart where there is no sandbox:
#   tests/rebuild.sh [16.3 17.11 …]
# By default all whose source is here. Takes a compilation of each, two where it is not in the store. What differs is named,
# file by file; exit code 1.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../nix/machine.sh"
status=0

# differing ONE OTHER: the files of two folders that differ, but not those in which only the linker's build ids do. These
# hash the paths in a program, and outside a sandbox Nix builds again for another path, which it replaces afterwards.
differing() {
  local name folder one other
  folder=$(mktemp -d)
  diff -rq --no-dereference "$1" "$2" | sed -nE "s|^Files $1/(.*) and .* differ\$|\1|p; t; s|^|! |p" > "$folder/names" || true
  while read -r name; do
    one=$1/$name other=$2/$name
    if [ -e "$one" ] && objcopy --remove-section .note.gnu.build-id "$one" "$folder/one" 2> /dev/null \
      && objcopy --remove-section .note.gnu.build-id "$other" "$folder/other" && cmp -s "$folder/one" "$folder/other"; then
      continue
    fi
    echo "  $name"
  done < "$folder/names"
  rm -r "$folder"
}

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
    second=$(sed -nE "s/.*differs from '([^']+)'.*/\1/p" "$log")
    found=$([ -z "$second" ] || differing "${second%.check}" "$second")
    if [ -n "$second" ] && [ -z "$found" ]; then
      echo "$attribute: the same, but for build ids"
    else
      status=1
      printf '%s\n' "$attribute: $(grep -m 1 '^error' "$log")" "$found"
    fi
  fi
  rm "$log"
done
exit "$status"
