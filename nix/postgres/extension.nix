# The one recipe for an extension: a server's files once more, with the extension installed among them. Source, server
# and headers are set by engine.builds.extensions, in the derivation that this makes.
{
  lib,
  stdenv,
  bison,
  flex,
  perl,
  pkg-config,
  libsystemtap,
  systemtap-sdt,
  icu,
  lz4,
  readline,
  zlib,
  zstd,
}:
stdenv.mkDerivation {
  name = "postgresql-extension";

  # The two outputs of build.nix; the second is gone from what this makes.
  server = "";
  headers = "";
  src = "";

  nativeBuildInputs = [
    bison
    flex
    perl
    pkg-config
    systemtap-sdt
  ];
  # The server's headers and its linker's flags name these.
  buildInputs = [
    icu
    libsystemtap
    lz4
    readline
    zlib
    zstd
  ];
  hardeningDisable = [ "all" ];
  enableParallelBuilding = true;
  # What is built with make and pg_config has no other configuration.
  configurePhase = ":";

  # pg_config tells where it lies itself. Objects that came with the source may be of another server.
  buildPhase = ''
    runHook preBuild
    mkdir -p "$out"
    cp -r "$server/." "$out"
    chmod -R u+w "$out"
    tar -C "$headers" --exclude=./lib/backend -c . | tar -C "$out" -x
    chmod -R u+w "$out"
    pgxs="PG_CONFIG=$out/bin/pg_config CC=gcc with_llvm=no"
    make -s $pgxs clean > /dev/null
    make -j"$NIX_BUILD_CORES" $pgxs
    runHook postBuild
  '';

  installPhase = ''
    runHook preInstall
    touch built # what is newer has been installed, even over a file of contrib's
    make -s $pgxs install
    (cd "$headers" && find . -type f -print0) | (cd "$out" && xargs -0 rm -f)
    (cd "$headers" && find . -depth -type d -print0) | (cd "$out" && xargs -0 rmdir 2> /dev/null) || true
    built=$PWD/built
    (cd "$out" && find share lib \( -name '*.control' -o -name '*.so' \) -cnewer "$built" | sort) > of-extension
    grep '\.control$' of-extension || { echo "installs no control file"; exit 1; }
    runHook postInstall
  '';

  # A library of another server, or one that lacks a function, would be found out in the middle of a run.
  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    if grep -r "$headers" "$out"; then
      echo "$out: leads to what only its build needs"
      exit 1
    fi
    # PostgreSQL does not start as root, as whom Nix builds where it has no users for that.
    if [ "$(id -u)" -ne 0 ] && grep '\.so$' of-extension > libraries; then
      "$out/bin/initdb" --no-locale --no-sync --auth=trust --pgdata=cluster > /dev/null
      sed "s|.*|LOAD '$out/&';|" libraries | "$out/bin/postgres" --single -D cluster template1 > loaded 2>&1 || true
      if grep -E 'incompatible library|version mismatch|could not load library|undefined symbol' loaded; then exit 1; fi
    fi
    runHook postInstallCheck
  '';

  meta = {
    description = "A PostgreSQL server with an extension";
    license = lib.licenses.postgresql;
  };
}
