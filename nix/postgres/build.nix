# The one recipe for a server from source. Every version goes through it with the same compiler and flags: that is
# what makes versions comparable (nixpkgs' own postgresql differs per version in compiler, LTO and patches).
{
  lib,
  stdenv,
  callPackage,
  fetchurl,
  bison,
  ccache,
  flex,
  perl,
  pkg-config,
  systemtap-sdt,
  libsystemtap,
  icu,
  liburing,
  lz4,
  numactl,
  readline,
  zlib,
  zstd,
}:
{
  label,
  version,
  # Of the released tarball; null for the recipe of source trees, whose `src` and name engine.builds.derivation sets.
  hash,
  patches ? [ ],
  cflags ? [ ],
  configureFlags ? [ ],
  # For sources without configure: see meson.nix.
  byMeson ? false,
}:
let
  meson = callPackage ./meson.nix { };

  # No endbr64 at function entries: a uprobe there must be single-stepped, some 10 us a hit instead of 0.5.
  # Frame pointers for stacks. C17 because gcc 15's default (C23) refuses `typedef unsigned char bool`.
  commonCflags = [
    "-O2"
    "-fno-omit-frame-pointer"
    "-std=gnu17"
  ]
  ++ lib.optional stdenv.hostPlatform.isx86_64 "-fcf-protection=none";

  allCflags = lib.concatStringsSep " " (commonCflags ++ cflags);

  # LLVM stays out, unless a variant asks for it: 12 to 15 need one older than 16, and without JIT the versions meet on
  # equal terms.
  allConfigureFlags = [
    "--enable-dtrace"
    "--with-icu"
  ]
  ++ lib.optional (lib.versionAtLeast version "14") "--with-lz4"
  ++ lib.optional (lib.versionAtLeast version "15") "--with-zstd"
  ++ lib.optionals hasAsynchronousIo [
    "--with-liburing"
    "--with-libnuma"
  ]
  ++ configureFlags;

  hasAsynchronousIo = lib.versionAtLeast version "18";

  isTree = hash == null;

  # A tree is compiled again and again, by the same compiler with the same flags. Where it goes is known to make only:
  # configure would write it into a header of every file, and ccache would know none of them again.
  makePrefix = lib.optionalString isTree "prefix=$out";

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

  src =
    if isTree then
      ""
    else
      fetchurl {
        url = "https://ftp.postgresql.org/pub/source/v${version}/postgresql-${version}.tar.bz2";
        inherit hash;
      };
  inherit patches;

  # `dev` is what extensions are built with (headers, pgxs, static libraries), and the backend's objects for another layout.
  # It names the compiler and every header package, and no server needs it: what runs does not lead to it.
  outputs = [
    "out"
    "dev"
  ];
  # nixpkgs would tell configure where each output is, and pg_config would tell everybody.
  setOutputFlags = false;

  # bison, flex and perl: from 17 on the tarball comes without generated files.
  nativeBuildInputs = [
    bison
    flex
    perl
    pkg-config
    systemtap-sdt
  ]
  ++ lib.optional isTree ccache
  ++ lib.optionals byMeson meson.tools;
  buildInputs = [
    icu
    libsystemtap
    lz4
    readline
    zlib
    zstd
  ]
  ++ lib.optionals hasAsynchronousIo [
    liburing
    numactl
  ];

  # Distribution hardening would put other flags between the versions and their sources.
  hardeningDisable = [ "all" ];
  # No debug information, although symbols stay: it names the compiler, every header and the folder of the build, which the
  # build ids would hash before it is stripped.
  enableParallelBuilding = true;

  CFLAGS = allCflags;
  configureFlags = allConfigureFlags;

  # The folder of ccache is named by engine.builds.resolve; a sandbox may hide it. What configure has found out is
  # kept there, too, for the same script, flags and tools: with that it takes 3 s of CPU. meson, which 16 and later have,
  # takes 13 for each build, and would compile them with other flags than the older ones.
  configurePhase =
    if byMeson then
      meson.configurePhase
    else if isTree then
      ''
        runHook preConfigure
        found=
        if [ -n "''${ccacheFolder:-}" ] && [ -w "$ccacheFolder" ]; then
          export CC="ccache gcc" CCACHE_DIR=$ccacheFolder CCACHE_UMASK=007 CCACHE_TEMPDIR=$PWD/.ccache
          export CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content
          # What nixpkgs' compiler adds by itself ccache does not see.
          added="''${NIX_CFLAGS_COMPILE:-} ''${NIX_ENFORCE_NO_NATIVE:-} ''${NIX_HARDENING_ENABLE:-}"
          CCACHE_NAMESPACE=$(printf '%s' "$added" | sed 's/-frandom-seed=[^ ]*//' | sha256sum | cut -c 1-16)
          export CCACHE_NAMESPACE
          # Nobody writes headers while this runs; some are made just before.
          export CCACHE_SLOPPINESS=include_file_ctime,include_file_mtime
          key=$({ cat configure; echo "$configureFlags $CFLAGS $PATH $buildInputs $CCACHE_NAMESPACE"; gcc --version; } | sha256sum)
          found=$ccacheFolder/configure-''${key%% *}
          if [ -e "$found" ]; then cp "$found" config.found; fi
        else
          echo "compiling without ccache"
        fi
        configured() { ./configure --quiet --prefix=/nonexistent --cache-file=config.found $configureFlags; }
        configured
        # A release up to 16 comes with what bison, flex and perl make. All files in the store are of one age, so that make
        # would take that for up to date, whatever was changed of what it is made of. A tree of git has none of it.
        if [ -e src/backend/parser/gram.c ] || [ -e src/backend/utils/fmgroids.h ]; then
          make -s -C contrib maintainer-clean
          make -s -C src maintainer-clean
          configured
        fi
        if [ -n "$found" ] && [ -e config.found ] && [ ! -e "$found" ]; then
          part=$(mktemp "$found.XXXXXX") # in a sandbox every build has the same process ids
          cat config.found > "$part"
          chmod 640 "$part"
          mv "$part" "$found"
        fi
        runHook postConfigure
      ''
    else
      null;

  # Read by whoever derives another build from this one, and rewritten there.
  buildRecord = builtins.toJSON record;

  # Empty where somebody watches the build of a source of his own.
  quiet = "-s";

  buildPhase =
    if byMeson then
      meson.buildPhase
    else
      ''
        runHook preBuild
        make $quiet -j"$NIX_BUILD_CORES" ${makePrefix}
        make $quiet -j"$NIX_BUILD_CORES" -C contrib ${makePrefix}
        runHook postBuild
      '';

  installPhase = ''
    runHook preInstall
    ${
      if byMeson then
        meson.install
      else
        ''
          make -s install ${makePrefix}
          make -s -C contrib install ${makePrefix}''
    }
    for part in include lib/pgxs lib/postgresql/pgxs lib/pkgconfig 'lib/*.a'; do
      for found in "$out"/$part; do
        if [ -e "$found" ]; then
          mkdir -p "$dev/$(dirname "''${found#"$out"/}")"
          mv "$found" "$dev/''${found#"$out"/}"
        fi
      done
    done
    mkdir -p "$dev" "$out/share/pgbed"
    # What another layout is linked of: see layout.nix.
    if [ -e src/backend/${if byMeson then "made-by-make" else "Makefile"} ]; then
      objects=$dev/lib/backend
      mkdir -p "$objects"
      rm src/backend/postgres
      make -s -n -C src/backend postgres ${makePrefix} | grep -E -- ' -o postgres( |$)' | tail -n 1 > "$objects/link"
      (cd src/backend && tr ' ' '\n' < "$objects/link" | grep -E '\.[oa]$' | xargs readlink -f) \
        | sed "s|^$(readlink -f .)/||" | xargs cp --parents -t "$objects"
      find "$objects" -name '*.[oa]' -exec strip -S {} +
    fi
    # Where it was compiled is gone, and another place each time.
    find "$dev" -name Makefile.global -exec sed -i "s|$PWD|/nonexistent|g" {} +
    compiler=$(gcc --version | head -n 1)
    printf '%s\n' "$buildRecord" \
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
    if grep -r "$dev" "$out"; then
      echo "$out: leads to what only extensions need"
      exit 1
    fi
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
