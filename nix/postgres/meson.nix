# How a source is built by Meson, with the flags of build.nix by Meson's names: for trees that have no configure, and for
# whoever wants to see whether it makes a difference (`:meson`).
{
  lib,
  meson,
  ninja,
}:
{
  tools = [
    meson
    ninja
  ];

  # What is not asked for is left out, as by configure; only CFLAGS say how code is compiled.
  configurePhase = ''
    runHook preConfigure
    if [ -n "''${ccacheFolder:-}" ] && [ -w "$ccacheFolder" ]; then
      export CC="ccache gcc" CCACHE_DIR=$ccacheFolder CCACHE_UMASK=007 CCACHE_TEMPDIR=$PWD/.ccache
      export CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content
      # What nixpkgs' compiler adds by itself ccache does not see.
      added="''${NIX_CFLAGS_COMPILE:-} ''${NIX_ENFORCE_NO_NATIVE:-} ''${NIX_HARDENING_ENABLE:-}"
      CCACHE_NAMESPACE=meson-$(printf '%s' "$added" | sed 's/-frandom-seed=[^ ]*//' | sha256sum | cut -c 1-16)
      export CCACHE_NAMESPACE
    else
      export CC=gcc # Meson would take ccache where it sees it
    fi
    # A tree comes without the manual's chapters, and so without what they are made by.
    if [ ! -e doc/src/sgml/meson.build ]; then
      mkdir -p doc/src/sgml
      printf '%s = []\n' docs installdocs alldocs > doc/src/sgml/meson.build
      touch doc/src/sgml/targets-meson.txt
    fi
    options=()
    for flag in $configureFlags; do
      case $flag in
        --enable-debug) options+=(-Ddebug=true) ;;
        --enable-cassert) options+=(-Dcassert=true) ;;
        --enable-dtrace) options+=(-Ddtrace=enabled) ;;
        --with-icu | --with-liburing | --with-libnuma | --with-llvm | --with-lz4 | --with-zstd)
          options+=("-D''${flag#--with-}=enabled")
          ;;
        *) echo "no option of Meson's is known for $flag"; exit 1 ;;
      esac
    done
    meson setup made --prefix="$out" --libdir=lib --buildtype=plain --auto-features=disabled \
      -Dreadline=enabled -Dzlib=enabled "''${options[@]}"
    runHook postConfigure
  '';

  buildPhase = ''
    runHook preBuild
    ninja -C made -j"$NIX_BUILD_CORES"
    runHook postBuild
  '';

  install = ''
    ninja -C made install > /dev/null
  '';
}
