# Extensions that nixpkgs has and that `make` builds with nothing but a server, for labels such as 17.11+pgvector.
#
#   names     [ name … ]
#   sources   [ { name, control, version, drv, path } … ], JSON-able; `control` is its name in SQL, `drv` the derivation of
#             the source at `path`; none over hostpkgs
{
  lib,
  postgresqlPackages ? { },
}:
let
  controls = {
    hypopg = "hypopg";
    ip4r = "ip4r";
    pg_cron = "pg_cron";
    pg_ivm = "pg_ivm";
    pg_partman = "pg_partman";
    pgvector = "vector";
    rum = "rum";
  };
in
rec {
  names = builtins.attrNames controls;
  sources = map (
    name:
    let
      package = postgresqlPackages.${name};
    in
    {
      inherit name;
      inherit (package) version;
      control = controls.${name};
      drv = builtins.unsafeDiscardOutputDependency package.src.drvPath;
      path = builtins.unsafeDiscardStringContext package.src.outPath;
    }
  ) (lib.filter (name: postgresqlPackages ? ${name}) names);
}
