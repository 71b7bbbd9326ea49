{
  description = "A reproducible test bed for PostgreSQL performance";

  # Whoever lets another flake's nixpkgs take this one's place (inputs.nixpkgs.follows) has servers, Python and bpftrace
  # all of that nixpkgs, and with it another compiler than others have.
  # The last update of this branch was on 2026-06-30: see CONTRIBUTING.md for how to move to another one.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs, ... }:
    let
      inherit (nixpkgs) lib;

      # `bench` over other packages, or with a table of servers of one's own. For images: see nix/package.nix.
      mkBench =
        {
          pkgs,
          versions ? defaultVersions,
          selfContained ? false,
        }:
        let
          inherit
            ((import ./nix {
              inherit
                module
                pkgs
                revision
                versions
                ;
            }).packages
            )
            bench
            ;
        in
        if selfContained then bench.selfContained else bench;
      # Runs record it: it says what repeats them.
      revision = self.rev or "";
      defaultVersions = import ./nix/postgres/versions.nix;

      perSystem = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (
        system:
        import ./nix {
          inherit module revision;
          pkgs = nixpkgs.legacyPackages.${system};
          versions = defaultVersions;
        }
      );
      output =
        name: lib.filterAttrs (_: value: value != null) (lib.mapAttrs (_: all: all.${name}) perSystem);

      # Its default package is the one of `nix run`, whatever nixpkgs the system is made of.
      module = import ./nix/module.nix { benchOf = system: perSystem.${system}.packages.bench; };
    in
    lib.genAttrs [ "packages" "apps" "checks" "devShells" "formatter" ] output
    // {
      # lib.SYSTEM.run is a block of a plan as a derivation: see nix/block.nix.
      lib = output "lib" // {
        inherit mkBench;
        versions = defaultVersions;
      };
      overlays.default = final: _: { pgbed = mkBench { pkgs = final; }; };
      nixosModules.default = module;
      # Blocks of a plan of your own, for builders that offer the feature `benchmark`, stand beside these in a flake of
      # yours, with another nonce to measure again, such as the revision that is tested:
      #   hydraJobs.nightly = lib.genAttrs [ "1" "2" "3" "4" ] (
      #     block: pgbed.lib.x86_64-linux.run { plan = ./nightly.toml; inherit block; nonce = self.rev; });
      hydraJobs = lib.genAttrs [ "packages" "checks" ] output;
    };
}
