# Servers for the tests, where Nix cannot be called: `servers/LABEL` for PGBED_SERVERS, catalog.json for PGBED_CATALOG.
# Prebuilt ones, since a check must not take an hour: the oldest and newest major versions and what lies between.
{
  lib,
  runCommand,
  postgres,
}:
let
  wanted = [
    "12.11-prebuilt"
    "14.10-prebuilt"
    "16.3-prebuilt"
    "17.0-prebuilt"
    "18.6-prebuilt"
  ];
  # Not every one exists for every system.
  found = lib.filter (build: lib.elem build.label wanted) postgres.catalog;
  link = build: "ln -s ${postgres.packages.${build.attr}} $out/servers/${build.label}";
in
runCommand "pgbed-test-servers"
  {
    meta.description = "PostgreSQL servers of several major versions, by label";
  }
  ''
    mkdir -p $out/servers
    ${lib.concatStringsSep "\n" (map link found)}
    printf '%s' ${lib.escapeShellArg (builtins.toJSON postgres.catalog)} > $out/catalog.json
  ''
