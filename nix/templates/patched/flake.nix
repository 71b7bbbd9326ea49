# bench with a server of your own beside those that it knows:
#
#   nix run . -- --pg 16.3,16.3-mine
#
# A server is an entry of pgbed's nix/postgres/versions.nix, whose comment says what it may hold.
{
  description = "PostgreSQL as released against PostgreSQL with my patch";

  # Where you have it: `path:/home/me/pgbed` and `git+file:///home/me/pgbed` do, too.
  inputs.pgbed.url = "github:OWNER/pgbed";

  outputs =
    { pgbed, ... }:
    let
      benchFor =
        system:
        pgbed.lib.mkBench {
          pkgs = pgbed.inputs.nixpkgs.legacyPackages.${system};
          versions = pgbed.lib.versions // {
            "16.3-mine" = {
              from = "16.3";
              patches = [ ./mine.patch ];
            };
          };
        };
    in
    {
      packages.x86_64-linux.default = benchFor "x86_64-linux";
      packages.aarch64-linux.default = benchFor "aarch64-linux";
    };
}
