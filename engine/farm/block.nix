# A block of a plan as a derivation: all its subjects, interleaved, measured by one builder; its output is a run folder.
# Used by flake.nix (lib.SYSTEM.run) and by engine/farm/blocks.py, which has store paths where the flake has packages.
#
#   plan      the text of a plan file (TOML), complete: nothing of it is on the machine that asks
#   servers   { LABEL = server; … }
#   builds    { LABEL = record; … }: what is known of those servers that are not in pgbed's table of builds
#   programs  { PGBED_PGBENCH = path; … }: programs that the plan's clients are
#   nonce     another one measures again; the same one gives the result that is there
{
  system,
  bench,
  servers,
  plan,
  block,
  programs ? { },
  builds ? { },
  nonce ? "",
}:
let
  # A path that is only text would not be copied to the builder.
  stored = place: if builtins.hasContext "${place}" then "${place}" else builtins.storePath place;
in
derivation {
  name = "pgbed-block-${toString block}";
  inherit system nonce;
  builder = "${stored bench}/bin/bench";
  args = [ "block" ];
  block = toString block;
  plan = builtins.toFile "plan.toml" plan;
  builds = builtins.toJSON builds;
  servers = builtins.toJSON (builtins.mapAttrs (_: stored) servers);
  programs = builtins.toJSON (
    builtins.mapAttrs (_: { folder, file }: "${stored folder}/${file}") programs
  );
  # Only machines that offer to be measured on take it.
  requiredSystemFeatures = [ "benchmark" ];
}
