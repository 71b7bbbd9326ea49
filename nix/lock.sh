#!/usr/bin/env bash
# After a change of the dependencies in pyproject.toml: writes requirements.lock, requirements-dev.lock and
# nix/wheels.json. Wants uv, pip, python3 and nix. Pins that still fit are kept.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

lock() {
  uv pip compile pyproject.toml --universal --python-version 3.11 --only-binary :all: --generate-hashes --quiet \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links "$@" > /dev/null
}

lock --output-file requirements.lock
mapfile -t run < <(sed -nE 's/^([a-z0-9-]+)==.*/--no-emit-package=\1/p' requirements.lock)
lock --extra dev --constraint requirements.lock "${run[@]}" --output-file requirements-dev.lock

. nix/wheels.sh
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for file in requirements.lock requirements-dev.lock; do
  for arch in x86_64 aarch64; do
    for python in 3.11 3.12 3.13; do
      fetch_wheels pip "$file" "$python" "$arch" "$folder/wheels"
      echo "$file $arch-linux $python $(nix --extra-experimental-features nix-command hash path "$folder/wheels")"
      rm -r "$folder/wheels"
    done
  done
done | python3 -c '
import json, sys

found = {}
for line in sys.stdin:
    lock, system, python, digest = line.split()
    found.setdefault(lock, {}).setdefault(system, {})[python] = digest
print(json.dumps(found, indent=2))
' > "$folder/wheels.json"
cp "$folder/wheels.json" nix/wheels.json
