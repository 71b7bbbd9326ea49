# The one recipe for a layout: a server whose backend is linked once more from the same objects, folder after folder in
# an order drawn from a number. Nothing is compiled. Server, headers and number are set by engine.builds.derivation, in the
# derivation that this makes.
{
  lib,
  stdenv,
  libsystemtap,
  icu,
  liburing,
  lz4,
  numactl,
  readline,
  zlib,
  zstd,
}:
stdenv.mkDerivation {
  name = "postgresql-layout";

  # The two outputs of build.nix.
  server = "";
  headers = "";
  layout = "";
  src = "";

  dontUnpack = true;
  buildInputs = [
    icu
    libsystemtap
    liburing
    lz4
    numactl
    readline
    zlib
    zstd
  ];
  hardeningDisable = [ "all" ];
  configurePhase = ":";

  # Within a folder objects keep their order, as neighbours in a source do.
  buildPhase = ''
    runHook preBuild
    mkdir -p "$out"
    cp -r "$server/." "$out"
    chmod -R u+w "$out"
    cp -r "$headers/lib/backend" backend
    chmod -R u+w backend
    cd backend/src/backend
    tr ' ' '\n' < ../../link | grep '\.o$' > objects
    sed 's|/[^/]*$||' objects | sort -u | while read -r folder; do
      echo "$(printf '%s' "$layout $folder" | sha256sum | cut -c 1-16) $folder"
    done | sort > folders
    while read -r _ folder; do grep -x "$folder/[^/]*" objects; done < folders > drawn
    [ "$(sort objects | sha256sum)" = "$(sort drawn | sha256sum)" ] || { echo "not the same objects"; exit 1; }
    sed -E 's/ [^ ]+\.o( [^ ]+\.o)*( |$)/ @drawn \2/' ../../link > link
    grep -vE '\.o( |$)' link > relink || { echo "the objects do not stand together"; exit 1; }
    bash -ec "$(cat relink)"
    runHook postBuild
  '';

  installPhase = ''
    runHook preInstall
    strip -S postgres
    cp postgres "$out/bin/postgres"
    "$out/bin/postgres" --version
    sed -i -E "s|\"flags\": ?\"|&layout $layout, |" "$out/share/pgbed/build.json"
    runHook postInstall
  '';

  meta = {
    description = "A PostgreSQL server whose functions lie elsewhere";
    license = lib.licenses.postgresql;
  };
}
