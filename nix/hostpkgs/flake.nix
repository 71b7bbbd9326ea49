# A package set with the shape of nixpkgs, made of this machine's own tools and of what language registries ship.
# For machines that can reach neither GitHub nor the Nix cache:
#
#   nix run --override-input nixpkgs path:./nix/hostpkgs --option sandbox false .#bench -- --pg 12.11,16.3
#
# It holds what the flake uses and no more. What it builds depends on the machine (gcc, libraries), which no hash here
# can name: so every server records the compiler that made it, and results name both.
{
  description = "The machine's own tools in the shape of nixpkgs";

  outputs =
    _:
    let
      lib = import ./lib.nix;
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (
        system: import ./default.nix { inherit lib system; }
      );
    };
}
