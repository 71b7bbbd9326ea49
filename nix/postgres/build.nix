# The one recipe for a server from source. Every version goes through it with the same compiler and flags: that is
# what makes versions comparable (nixpkgs' own postgresql differs per version in compiler, LTO and patches).
{
  lib,
  stdenv,
  fetchurl,
  bison,
  flex,
  perl,
  pkg-config,
  systemtap-sdt,
  libsystemtap,
  icu,
  lz4,
  readline,
  zlib,
  zstd,
}:
{
  label,
  version,
  hash,
  patches ? [ ],
  cflags ? [ ],
  configureFlags ? [ ],
}:
let
  # No endbr64 at function entries: a uprobe there must be single-stepped, some 10 us a hit instead of 0.5.
  # Frame pointers for stacks. C17 because gcc 15's default (C23) refuses `typedef unsigned char bool`.
  commonCflags = [
    "-O2"
    "-fno-omit-frame-pointer"
    "-std=gnu17"
  ]
  ++ lib.optional stdenv.hostPlatform.isx86_64 "-fcf-protection=none";

  allCflags = lib.concatStringsSep " " (commonCflags ++ cflags);

  # LLVM stays out: 12 to 15 need one older than 16, and without JIT the versions meet on equal terms.
  allConfigureFlags = [
    "--enable-debug"
    "--enable-dtrace"
    "--with-icu"
  ]
  ++ lib.optional (lib.versionAtLeast version "14") "--with-lz4"
  ++ lib.optional (lib.versionAtLeast version "15") "--with-zstd"
  ++ configureFlags;

  # What nix-side code knows; the compiler is asked at build time.
  record = {
    inherit label version;
    provenance = "source";
    compiler = "@compiler@";
    flags = lib.concatStringsSep " " ([ "CFLAGS='${allCflags}'" ] ++ allConfigureFlags);
    patches = map baseNameOf patches;
  };
in
stdenv.mkDerivation {
  pname = "postgresql";
  # Variants differ in label only.
  version = label;

  src = fetchurl {
    url = "https://ftp.postgresql.org/pub/source/v${version}/postgresql-${version}.tar.bz2";
    inherit hash;
  };
  inherit patches;

  # bison, flex and perl: from 17 on the tarball comes without generated files.
  nativeBuildInputs = [
    bison
    flex
    perl
    pkg-config
    systemtap-sdt
  ];
  buildInputs = [
    icu
    libsystemtap
    lz4
    readline
    zlib
    zstd
  ];

  # Distribution hardening would put other flags between the versions and their sources.
  hardeningDisable = [ "all" ];
  # What is stripped is debug information, which names the compiler and every header: the server would drag them along.
  enableParallelBuilding = true;

  CFLAGS = allCflags;
  configureFlags = allConfigureFlags;

  buildPhase = ''
    runHook preBuild
    make -s -j"$NIX_BUILD_CORES"
    make -s -j"$NIX_BUILD_CORES" -C contrib
    runHook postBuild
  '';

  installPhase = ''
    runHook preInstall
    make -s install
    make -s -C contrib install
    # The build system for extensions names the compiler and every header package: nothing here needs it.
    rm -rf "$out/lib/pgxs" "$out/lib/postgresql/pgxs" "$out"/lib/*.a
    mkdir -p "$out/share/pgbed"
    compiler=$(gcc --version | head -n 1)
    printf '%s\n' ${lib.escapeShellArg (builtins.toJSON record)} \
      | sed "s|@compiler@|$compiler|" > "$out/share/pgbed/build.json"
    runHook postInstall
  '';

  # What the probes stand on. A server that lacks it would be measured and then silently not explained.
  doInstallCheck = true;
  # No `grep -q` here: it stops reading early, and with pipefail the writer's SIGPIPE would count as a failure.
  installCheckPhase = ''
    runHook preInstallCheck
    server=$out/bin/postgres
    readelf --notes "$server" | grep stapsdt > /dev/null \
      || { echo "$server: has no USDT probes"; exit 1; }
    nm "$server" | grep -E ' [tT] get_actual_variable_endpoint(\.|$)' > /dev/null \
      || { echo "$server: get_actual_variable_endpoint is not in its symbol table"; exit 1; }
    if readelf --section-headers --wide "$server" | grep ' \.debug_info' > /dev/null; then
      echo "$server: has debug information, and with it the paths of the compiler"
      exit 1
    fi
    for function in pg_plan_query raw_parser standard_planner; do
      entry=$(objdump --disassemble="$function" --no-show-raw-insn "$server" | grep -A1 "<$function>:$" | tail -n 1)
      echo "$function begins with:$entry"
      case $entry in
        "") echo "$server: has no function $function"; exit 1 ;;
        *endbr64*) echo "$server: $function begins with endbr64"; exit 1 ;;
      esac
    done
    runHook postInstallCheck
  '';

  meta = {
    description = "PostgreSQL ${label}, built from source for comparison with other versions";
    homepage = "https://www.postgresql.org";
    license = lib.licenses.postgresql;
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
    mainProgram = "postgres";
  };
}
