# A block of a plan as a derivation: `run { plan = ./nightly.toml; block = 1; }`. Its output is a run folder, for
# `bench compare`; another `nonce` measures again. The builds are those that the plan names by their labels, of pgbed's
# table or of `servers`: { mine = a PostgreSQL of your flake, such as nixpkgs' with patches; }
{
  lib,
  stdenv,
  bench,
  hyperfine,
  pgbench,
  postgres,
}:
{
  plan,
  block,
  servers ? { },
  nonce ? "",
}:
let
  text = builtins.readFile plan;
  entries = builtins.fromTOML text;
  labels = entries.builds or (throw "${toString plan}: name its builds");
  serverOf =
    label:
    let
      known = lib.filter (build: build.label == label) postgres.catalog;
    in
    if servers ? ${label} then
      servers.${label}
    else if known == [ ] then
      throw "${toString plan}: ${label} is no label of a build, and not in `servers`"
    else
      postgres.packages.${(lib.head known).attr};
  # What clients of a plan are, where its text names their workload at all: by no regular expression, whose recursion
  # ends in a large plan.
  programsOf =
    workload: found:
    lib.optionalAttrs (builtins.replaceStrings [ workload ] [ "" ] text != text) (
      lib.filterAttrs (_: program: program.folder != null) found
    );
  recordOf = label: server: {
    inherit label;
    inherit (server) version;
    prefix = "${server}";
    digest = builtins.substring 0 32 (baseNameOf "${server}");
    provenance = "source";
  };
  programIn = folder: name: {
    inherit folder;
    file = "bin/${name}";
  };
in
import ../engine/farm/block.nix {
  inherit (stdenv.hostPlatform) system;
  inherit bench block nonce;
  plan = text;
  builds = lib.mapAttrs recordOf servers;
  servers = lib.listToAttrs (map (label: lib.nameValuePair label (serverOf label)) labels);
  programs =
    programsOf "pgbench" { PGBED_PGBENCH = programIn pgbench "pgbench"; }
    // programsOf "micro" {
      PGBED_PG_DUMP = programIn pgbench "pg_dump";
      PGBED_HYPERFINE = programIn hyperfine "hyperfine";
    };
}
// {
  meta = {
    description = "A block of a plan, measured by a builder: a run folder";
    license = lib.licenses.postgresql;
  };
}
