# shellcheck shell=bash
# What ./bench and ./check share: a Debian-like machine is given Nix and, over hostpkgs, the tools that stand in for
# nixpkgs. Called with ATTRIBUTE… it prints where each is once it is built: bash nix/machine.sh manual. Sourced; sets
#   root          the working tree
#   system        this machine's Nix system
#   flake         the flake's reference
#   nix_options   what makes `nix build` and `nix flake check` use the chosen package set
# and exports PGBED_PACKAGE_SET.

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
# shellcheck disable=SC2034
system=$(uname -m)-linux
flake=$root

. "$root/nix/packages.sh"
. "$root/nix/why.sh"

need_nix() {
  need nix=nix-bin git=git
  export NIX_CONFIG="${NIX_CONFIG:-}
extra-experimental-features = nix-command flakes"
  if [ "$(id -u)" -ne 0 ]; then
    if [ ! -e /nix ]; then
      say "making /nix, owned by $(id -un)"
      sudo install -d -o "$(id -un)" /nix
    fi
  elif ! getent group nixbld > /dev/null; then
    # Without them root's builds run as root, and PostgreSQL refuses to be tested so.
    say "making the users nixbld1 to nixbld12, which builds run as, each by one at a time"
    groupadd --system nixbld
    local number
    for number in 1 2 3 4 5 6 7 8 9 10 11 12; do
      useradd --system --no-create-home --home-dir /var/empty --shell /usr/sbin/nologin \
        --gid nixbld --groups nixbld "nixbld$number"
    done
  fi
}

# The tools and libraries of nix/hostpkgs.
need_host_tools() {
  need gcc=gcc make=make ccache=ccache bison=bison flex=flex perl=perl patch=patch pkg-config=pkg-config dtrace=systemtap-sdt-dev \
    bzip2=bzip2 xz=xz-utils unzip=unzip mvn=maven npm=npm python3=python3 readelf=binutils eu-stack=elfutils patchelf=patchelf \
    '/usr/lib/python3*/ensurepip'=python3-venv /usr/include/stdlib.h=libc6-dev \
    /usr/include/readline/readline.h=libreadline-dev /usr/include/zlib.h=zlib1g-dev \
    /usr/include/unicode/ucol.h=libicu-dev /usr/include/lz4.h=liblz4-dev /usr/include/zstd.h=libzstd-dev \
    /usr/include/liburing.h=liburing-dev /usr/include/numa.h=libnuma-dev
}

# What guests with other kernels are made of, over hostpkgs. For ./check: ./bench has it installed by the first plan with
# such a guest, as it has bpftrace and perf.
need_guest_tools() {
  [ "$PGBED_PACKAGE_SET" = hostpkgs ] || return 0
  need qemu-system-x86_64=qemu-system-x86 busybox=busybox-static mkfs.ext4=e2fsprogs \
    mkfs.erofs=erofs-utils
}

# For ./check: what compiles hostpkgs' nixfmt. Where it is not available the check does without, and $no_formatter says why.
need_formatter() {
  no_formatter=
  [ "$PGBED_PACKAGE_SET" = hostpkgs ] || return 0
  # A Rust of today, which Debian has beside its own for the browsers.
  (need /usr/bin/cargo=cargo-web /usr/bin/rustc=rustc-web) \
    || no_formatter="this machine's package manager has no Rust of today (cargo-web, rustc-web), which compiles nixfmt"
}

# nixpkgs needs a Nix that can evaluate it (2.18), and the cache, without which even gcc would be compiled.
nixpkgs_is_reachable() {
  local version
  version=$(nix --version | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
  [ "$(printf '%s\n' 2.18 "$version" | sort -V | head -n 1)" = 2.18 ] || return 1
  timeout 10 nix store ping --store https://cache.nixos.org > /dev/null 2>&1
}

choose_package_set() {
  if [ -z "${PGBED_PACKAGE_SET:-}" ]; then
    if nixpkgs_is_reachable; then PGBED_PACKAGE_SET=nixpkgs; else PGBED_PACKAGE_SET=hostpkgs; fi
  fi
  export PGBED_PACKAGE_SET
  case $PGBED_PACKAGE_SET in
    nixpkgs) nix_options=() ;;
    hostpkgs)
      # Impure only to see which Python the machine has. Its tools are outside any sandbox.
      nix_options=(--impure --override-input nixpkgs "path:$root/nix/hostpkgs" --option sandbox false
        --option substituters "")
      need_host_tools
      ;;
    *)
      say "PGBED_PACKAGE_SET is '$PGBED_PACKAGE_SET'; it can be nixpkgs or hostpkgs"
      exit 2
      ;;
  esac
}

# Whoever calls this runs the scripts of the clone's owner already; what git would run by the clone's settings, it does not.
in_clone() { git -c safe.directory="$root" -c core.fsmonitor=false -c core.hooksPath=/dev/null -C "$root" "$@"; }

# The state of what `nix run` would build from: the tracked files as they are now, or every file where there is no git.
source_key() {
  {
    if in_clone rev-parse HEAD 2> /dev/null; then
      in_clone diff --no-ext-diff --no-textconv --submodule=short --ignore-submodules=dirty HEAD
    else
      find "$root" \( -name .bench -o -name runs \) -prune -o -type f -exec sha256sum {} +
    fi
  } | sha256sum | cut -c 1-16
}

# built ATTRIBUTE: its store path. Built once per state of the source; a link keeps it from garbage collection and
# spares the next call an evaluation. In a clone of somebody else's it is what was built there, or what this user builds.
built() {
  local state link place=$root/.bench from=$flake
  state=$(source_key)-$PGBED_PACKAGE_SET
  if [ ! -e "$place/$state/$1/" ] && [ ! -w "$root" ]; then
    place=${XDG_CACHE_HOME:-$HOME/.cache}/pgbed/bench
    if [ ! -w /nix/var/nix/db ] && [ ! -S /nix/var/nix/daemon-socket/socket ]; then
      say "this state of $root is not built, and $(id -un) may not write to the Nix store: let" \
        "$(stat -c %U "$root") call $root/bench once, or install Nix with its daemon"
      exit 2
    fi
  fi
  link=$place/$state/$1
  if [ ! -e "$link/" ]; then
    say "building $1 over $PGBED_PACKAGE_SET"
    mkdir -p "$place/$state"
    find "$place" -mindepth 1 -maxdepth 1 ! -name "$state" -exec rm -r {} +
    if [ "$place" != "$root/.bench" ]; then # Nix reads no other user's working tree
      from=path:$place/$state/source
      mkdir -p "${from#path:}"
      (cd "$root" && in_clone ls-files -z | tar -c --null -T -) | tar -x -C "${from#path:}"
    fi
    # `set -e` does not reach into the $(…) that this is called in.
    # Thrice quiet: nothing about the lock file, which is not written with another package set; errors are still printed.
    nix build "${nix_options[@]}" --quiet --quiet --quiet --out-link "$link" "$from#$1" > "$place/$state/$1.log" 2>&1 || {
      cat "$place/$state/$1.log" >&2
      say "$1 is not built: $(why_not_built "$place/$state/$1.log")"
      exit 2
    }
  fi
  readlink -f "$link"
}

need_nix
choose_package_set

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  for attribute; do built "$attribute"; done
fi
