#!/usr/bin/env bash
# Packages of a Debian-like machine. Sourced by machine.sh; called with PROGRAM=PACKAGE… it installs those whose programs
# are not there, as the engine asks of it where a plan needs them.

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

as_root() {
  # A password is asked for only where somebody can type it.
  if [ "$(id -u)" -eq 0 ]; then "$@"; elif [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
}

# The name that a distribution (ID and ID_LIKE of its os-release) has for a package of Debian's.
package_of() {
  case " $1 $2" in
    *" ubuntu "*linux-perf) echo "linux-tools-$(uname -r)" ;; # one for each kernel
    *) echo "$2" ;;
  esac
}

# install PACKAGE…: through the system's package manager, which is the only one that is touched.
install_packages() {
  command -v apt-get > /dev/null || { say "please install: $*"; exit 1; }
  say "installing $*"
  as_root apt-get update -qq >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >&2
}

# need PROGRAM=PACKAGE… or /PATTERN=PACKAGE…: installs the packages of the programs and files that are not there.
need() {
  local missing=() pair distribution
  distribution=$(sed -nE 's/^ID(_LIKE)?="?([^"]*)"?$/\2/p' /etc/os-release 2> /dev/null | tr '\n' ' ' || true)
  for pair in "$@"; do
    case $pair in
      /*) compgen -G "${pair%%=*}" > /dev/null ;;
      *) command -v "${pair%%=*}" > /dev/null ;;
    esac || missing+=("$(package_of "$distribution" "${pair#*=}")")
  done
  [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  need "$@"
fi
