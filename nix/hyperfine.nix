# The hyperfine that times one-shot tasks: the package set's, else that of a wheel, which somebody else compiled. null where
# there is neither: then a run takes the one that is on PATH.
{
  hyperfine ? null,
  lib,
  callPackage,
}:
if hyperfine != null then
  hyperfine
else
  callPackage ./wheel.nix { } {
    pname = "hyperfine";
    project = "astral-dev-toolchain-hyperfine";
    wheels.x86_64-linux = {
      version = "2.0.0";
      platform = "manylinux_2_17_x86_64";
      hash = "sha256-ygYBniBkeZscafdW7CZm1jo+Ol9sEnfCkJf1CKdNLu0=";
    };
    installPhase = ''
      unzip -q "$src"
      install -D -t "$out/bin" ./*.data/scripts/hyperfine
      "$out/bin/hyperfine" --version
    '';
    metaOf = _: {
      description = "A timer of programs";
      license = [
        lib.licenses.asl20
        lib.licenses.mit
      ];
      mainProgram = "hyperfine";
    };
  }
