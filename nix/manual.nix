# The manual as a site: the pages of docs/, those that are made of the code, a sample report, and bench(1). A warning, such
# as a dead link, fails it.
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
    mkdir -p source/nix/postgres
    cp ${./postgres/versions.nix} source/nix/postgres/versions.nix
    HOME=$PWD sphinx-build --quiet --fail-on-warning --keep-going --builder html --doctree-dir doctrees source/docs "$out"
    test -s "$out/sample-report.html"
    mkdir -p "$out/share/man/man1"
    PYTHONPATH=source python source/docs/manpage.py > "$out/share/man/man1/bench.1"
    runHook postInstall
  '';
  passthru.noProgram = true;
  meta = {
    description = "The manual of pgbed";
    license = lib.licenses.postgresql;
  };
}
