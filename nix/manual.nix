# The manual as a site: the pages of docs/, and those of the reference that are made of the code. A warning, such as a dead
# link, fails it.
{
  lib,
  callPackage,
  stdenv,
  python,
}:
let
  source = callPackage ./sources.nix { } {
    name = "pgbed-manual-source";
    keep = [
      "docs"
      "engine"
      "pictures"
      "probes"
      "tui"
      "workloads"
      "pyproject.toml"
    ];
  };
in
stdenv.mkDerivation {
  name = "pgbed-manual";
  nativeBuildInputs = [ python.dev ];
  dontUnpack = true;
  installPhase = ''
    runHook preInstall
    cp -r ${source} source
    chmod -R u+w source
    HOME=$PWD sphinx-build --quiet --fail-on-warning --keep-going --builder html --doctree-dir doctrees source/docs "$out"
    runHook postInstall
  '';
  passthru.noProgram = true;
  meta = {
    description = "The manual of pgbed";
    license = lib.licenses.postgresql;
  };
}
