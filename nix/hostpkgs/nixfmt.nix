# nixfmt, which no distribution of this kind ships: the implementation in Rust that agrees with the original to the
# byte, compiled from its crate. null where there is no cargo, which only an impure evaluation can see.
{
  lib,
  stdenv,
  rust,
  cacert,
}:
let
  version = "0.5.3";
  sha256 = "a79a3d2c5fb02436a3bbc5ef251bfc6a06cd631e1f5aea594f0dad83c95e2a65";
in
if !(builtins ? currentSystem && builtins.pathExists /usr/bin/cargo) then
  null
else
  stdenv.mkDerivation {
    pname = "nixfmt";
    inherit version;
    nativeBuildInputs = [
      rust
      cacert
    ];
    impureEnvVars = lib.fetchers.proxyImpureEnvVars;
    dontUnpack = true;
    # Cargo.lock, which comes with the crate, holds the hashes of what it needs.
    installPhase = ''
      export HOME=$PWD CARGO_HOME=$PWD/cargo
      cargo install --quiet --locked --debug --root "$out" nixfmt_rs@${version}
      echo "${sha256}  $(echo cargo/registry/cache/*/nixfmt_rs-${version}.crate)" | sha256sum --check
    '';
    meta = {
      description = "The formatter of Nix code";
      mainProgram = "nixfmt";
    };
  }
