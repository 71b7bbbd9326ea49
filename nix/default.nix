# Everything that the flake has for one system, made of one package set and one table of servers.
{
  pkgs,
  versions,
  module,
  revision ? "",
}:
let
  inherit (pkgs) lib;
  postgres = pkgs.callPackage ./postgres { inherit versions; };
  python = pkgs.callPackage ./python.nix { };
  pgbench = pkgs.callPackage ./pgbench.nix { inherit postgres; };
  hyperfine = pkgs.callPackage ./hyperfine.nix { };
  testServers = pkgs.callPackage ./test-servers.nix { inherit postgres; };
  kernels = pkgs.callPackage ./kernels { };
  bench = pkgs.callPackage ./package.nix {
    inherit
      hyperfine
      kernels
      pgbench
      postgres
      revision
      ;
    pythonEnvironment = python;
  };
  manual = pkgs.callPackage ./manual.nix { inherit python; };
  checks = pkgs.callPackage ./checks.nix {
    inherit
      bench
      hyperfine
      manual
      module
      packages
      pgbench
      python
      testServers
      ;
  };
  app = {
    type = "app";
    program = lib.getExe bench;
    meta = { inherit (bench.meta) description; };
  };
  packages =
    postgres.packages
    // kernels.packages
    // {
      inherit bench manual python;
      inherit (pkgs) bpftrace;
      test-servers = testServers;
      default = bench;
    }
    // lib.optionalAttrs (pgbench != null) { inherit pgbench; }
    // lib.optionalAttrs (hyperfine != null) { inherit hyperfine; };
in
{
  inherit packages;
  lib.run = pkgs.callPackage ./block.nix {
    bench = bench.selfContained;
    inherit
      hyperfine
      pgbench
      postgres
      ;
  };
  apps = {
    bench = app;
    default = app;
  };
  inherit (checks) checks;
  devShells.default = pkgs.callPackage ./shell.nix { inherit python testServers; };
  # hostpkgs has none.
  formatter = pkgs.nixfmt-tree or null;
}
