{
  description = "A reproducible test bed for PostgreSQL performance";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { nixpkgs, ... }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];

      outputsOf =
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
          postgres = pkgs.callPackage ./nix/postgres { };
          python = pkgs.callPackage ./nix/python.nix { };
          testServers = pkgs.callPackage ./nix/test-servers.nix { inherit postgres; };
          bench = pkgs.callPackage ./nix/bench.nix { inherit postgres python; };
          checks = pkgs.callPackage ./nix/checks.nix {
            inherit
              bench
              module
              python
              testServers
              ;
          };
          app = {
            type = "app";
            program = lib.getExe bench;
            meta = { inherit (bench.meta) description; };
          };
        in
        {
          packages = postgres.packages // {
            inherit bench python;
            test-servers = testServers;
            default = bench;
          };
          apps = {
            bench = app;
            default = app;
          };
          inherit (checks) checks;
          devShells.default = pkgs.callPackage ./nix/shell.nix { inherit python testServers; };
          # hostpkgs has no nixfmt.
          formatter = pkgs.nixfmt or null;
        };

      # Its default package is the one of `nix run`, whatever nixpkgs the system is made of.
      module = import ./nix/module.nix { benchOf = system: perSystem.${system}.packages.bench; };

      perSystem = lib.genAttrs systems outputsOf;
      output =
        name: lib.filterAttrs (_: value: value != null) (lib.mapAttrs (_: all: all.${name}) perSystem);
    in
    lib.genAttrs [ "packages" "apps" "checks" "devShells" "formatter" ] output
    // {
      nixosModules.default = module;
    };
}
