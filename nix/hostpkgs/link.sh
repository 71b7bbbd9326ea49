# shellcheck shell=bash disable=SC2154
# Makes $out/bin, with links to the programs of this machine that $programs names.
set -euo pipefail

/usr/bin/mkdir -p "$out/bin"
for program in $programs; do
  [ -x "/usr/bin/$program" ] || {
    echo "this machine has no /usr/bin/$program, which this package set takes from it: install it, or start with ./bench"
    exit 1
  }
  /usr/bin/ln -s "/usr/bin/$program" "$out/bin/$program"
done
