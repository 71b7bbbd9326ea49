# Servers for the tests, where Nix cannot be called: `servers/LABEL` for PGBED_SERVERS, catalog.json for PGBED_CATALOG.
# Prebuilt ones, since a check must not take an hour: the oldest and newest major versions and what lies between. And
# one from source, for what only these have: USDT, frame pointers, every symbol.
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
  ]
  # Debian keeps it until there is a newer one.
  ++ lib.filter (label: builtins.all atHand (named label)) [ "19rc1-prebuilt" ];
  # The first whose source is at hand. What a release that gets no more updates has comes first: it stays there.
  wantedSources = [
    "13.16"
    "17.11"
    "18.6"
  ];
  # nixpkgs can fetch all of them; hostpkgs knows which are there.
  atHand = build: postgres.packages.${build.attr}.src.atHand or true;
  named = label: lib.filter (build: build.label == label) postgres.catalog;
  sources = lib.concatMap named wantedSources;
  compiled = lib.filter atHand sources;

  prebuilt = lib.concatMap named wanted;

  # Not every one exists for every system. Tests ask for these labels, so the same version from source takes its place.
  standIns = lib.concatMap (
    label:
    let
      version = lib.head (lib.splitString "-prebuilt" label);
      standIn = suffix: build: build // { label = label + suffix; };
    in
    lib.optionals (named label == [ ]) (
      map (standIn "") (named version) ++ map (standIn "-builtin") (named "${version}-builtin")
    )
  ) wanted;

  checked = prebuilt ++ lib.filter (build: build.initdb_args == [ ]) standIns;

  # Nix cannot be called where this catalogue is read.
  catalog = map (build: removeAttrs build [ "drv" ]) (postgres.catalog ++ standIns);

  link = build: "ln -s ${postgres.packages.${build.attr}} $out/servers/${build.label}";

  servers =
    found: passthru:
    runCommand "pgbed-test-servers"
      {
        passthru = passthru // {
          noProgram = true;
        };
        meta = {
          description = "PostgreSQL servers of several major versions, by label";
          license = lib.licenses.postgresql;
        };
      }
      ''
        mkdir -p $out/servers
        ${lib.concatStringsSep "\n" (map link found)}
        printf '%s' ${lib.escapeShellArg (builtins.toJSON catalog)} > $out/catalog.json
      '';
in
servers (checked ++ lib.optional (compiled != [ ]) (lib.head compiled)) {
  # Enough for what runs within a build, which need not wait for a compiler where all of them exist prebuilt.
  checked = servers checked { };
  # Nothing is compiled for these.
  prebuilt = servers prebuilt { };
  # null where no source is at hand.
  compiled = if compiled == [ ] then null else postgres.packages.${(lib.head compiled).attr};
  # What ./check puts into the store, one of them, before it builds this.
  tarballs = lib.concatStringsSep "\n" (
    map (build: "${build.label} ${build.tarball.path}") sources ++ [ "" ]
  );
}
