# shellcheck shell=bash disable=SC2154
# The part of nixpkgs' stdenv that the flake uses: phases with hooks, over the machine's own tools, of which only those
# are on PATH that the derivation names.
set -euo pipefail
PATH=
for package in $nativeBuildInputs ${buildInputs:-} $initialPath; do PATH+=${PATH:+:}$package/bin; done
export PATH
# The tools' own messages are read by checks and by people's logs: one language everywhere.
export LC_ALL=C.UTF-8
umask 022

runHook() {
  local hook=${!1:-}
  if [ -n "$hook" ]; then eval "$hook"; fi
}

unpackPhase_default() {
  runHook preUnpack
  if [ -d "$src" ]; then
    cp -pr "$src" source
    chmod -R u+w source
    cd source
  else
    tar -xf "$src"
    cd -- */
  fi
  runHook postUnpack
}

patchPhase_default() {
  local patch
  for patch in ${patches:-}; do
    echo "applying $patch"
    patch --batch -p1 < "$patch"
  done
}

configurePhase_default() {
  runHook preConfigure
  if [ -x ./configure ]; then
    # Flags hold no blanks; they come as one string.
    # shellcheck disable=SC2086
    ./configure --quiet --prefix="$out" ${configureFlags:-}
  fi
}

buildPhase_default() { :; }
installPhase_default() { make install; }

# As nixpkgs' strip: debug information goes, symbols stay. A build without a compiler has no strip.
fixupPhase_default() {
  local output folder file magic
  [ -z "${dontStrip:-}" ] && command -v strip > /dev/null || return 0
  for output in ${outputs:-out}; do
    for folder in "${!output}"/bin "${!output}"/lib "${!output}"/libexec; do
      [ -d "$folder" ] || continue
      while IFS= read -r -d '' file; do
        IFS= read -r -N 4 magic < "$file" 2> /dev/null || true
        [ "$magic" != $'\x7fELF' ] || strip -S "$file"
      done < <(find "$folder" -type f -print0)
    done
  done
}

installCheckPhase_default() { :; }

run() {
  if [ -n "${!1:-}" ]; then eval "${!1}"; else "$1_default"; fi
}

# A flake's local source is unpacked only where something asks for it, as with nixpkgs.
if [ -z "${dontUnpack:-}" ]; then run unpackPhase; fi
run patchPhase
run configurePhase
run buildPhase
run installPhase
if [ -z "${dontFixup:-}" ]; then run fixupPhase; fi
if [ -n "${doInstallCheck:-}" ]; then run installCheckPhase; fi
