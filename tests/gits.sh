#!/usr/bin/env bash
# The tests of git once with each other git that Debian has, from this machine's package mirror: tests/gits.sh
# COMMAND..., for example tests/gits.sh python -m pytest -m outside tests/engine/builds/test_source_tree.py
# Needs root, apt and patchelf; the machine's own git is hidden for the command alone.
set -euo pipefail
. "$(dirname "$0")/../nix/tarballs.sh"

folder=$(mktemp -d)
chmod 755 "$folder"
trap 'rm -rf "$folder"' EXIT
for release in bullseye sid; do
  place=$folder/$release
  mkdir -p "$place/lists/partial" "$place/cache/archives/partial" "$place/root"
  printf 'deb [signed-by=%s] %s %s main\n' "$debian_keyring" "$(package_mirror)" "$release" > "$place/sources.list"
  : > "$place/status"
  private=(-qq -o "Dir::Etc::SourceList=$place/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$place/lists"
    -o "Dir::State::status=$place/status" -o "Dir::Cache=$place/cache" -o APT::Sandbox::User=root
    -o Acquire::Languages=none)
  if ! apt-get "${private[@]}" update \
    || ! (cd "$place" && apt-get "${private[@]}" download git libc6 libpcre2-8-0 zlib1g); then
    echo "the package mirror of this machine has no git of Debian's $release" >&2
    continue
  fi
  for package in "$place"/*.deb; do dpkg-deb -x "$package" "$place/root"; done
  libraries=$(dirname "$(find "$place/root" -name libc.so.6)")
  all=$(find "$place/root" -type d -name x86_64-linux-gnu | paste -sd:)
  git=$place/root/usr/bin/git
  patchelf --set-interpreter "$libraries/ld-linux-x86-64.so.2" --set-rpath "$all" "$git"
  "$git" --version
  # git's own children are the program in git-core, which the whole machine has at one place.
  unshare --mount bash -c 'mount --bind "$1" /usr/bin/git && mount --bind "$1" /usr/lib/git-core/git && shift && "$@"' \
    bash "$git" "$@"
done
