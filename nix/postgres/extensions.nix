# Extensions that nixpkgs has and that `make` builds with nothing but a server, for labels such as 17.11+pgvector.
#
#   names     [ name … ]
#   sources   [ { name, version, drv, path } … ], JSON-able; `drv` is the derivation of the source at `path`; none over
#             hostpkgs
{
  lib,
  postgresqlPackages ? { },
}:
rec {
  names = [
    "hypopg"
    "ip4r"
    "pg_cron"
    "pg_ivm"
    "pg_partman"
    "pgvector"
    "rum"
  ];
  sources = map (
    name:
    let
      package = postgresqlPackages.${name};
    in
    {
      inherit name;
      inherit (package) version;
      drv = builtins.unsafeDiscardOutputDependency package.src.drvPath;
      path = builtins.unsafeDiscardStringContext package.src.outPath;
    }
  ) (lib.filter (name: postgresqlPackages ? ${name}) names);
}
