# What `nix flake check` builds. What needs root, tracefs, a terminal or Nix itself runs in ./check instead.
{
  lib,
  callPackage,
  runCommand,
  nixfmt ? null,
  bench,
  module,
  python,
  testServers,
}:
let
  source = callPackage ./sources.nix { } {
    name = "pgbed-source";
    keep = [
      "engine"
      "probes"
      "tests"
      "tui"
      "workloads"
      "pyproject.toml"
    ];
  };

  check =
    description: name: command:
    runCommand "pgbed-${name}" { meta = { inherit description; }; } ''
      cp -r ${source} source
      chmod -R u+w source
      cd source
      set -o pipefail
      export HOME=$PWD
      export PATH=${python}/bin:$PATH
      ${command}
    '';

  tests =
    description: name: which:
    check description name ''
      export PGBED_SERVERS=${testServers.prebuilt}/servers PGBED_CATALOG=${testServers.prebuilt}/catalog.json
      mkdir -p $out
      python -m pytest -p no:cacheprovider -m "not outside" --durations=10 ${which} 2>&1 | tee $out/pytest.log
    '';

  format = runCommand "pgbed-format" { meta.description = "The Nix code is formatted"; } ''
    ${lib.getExe nixfmt} --check ${../flake.nix} $(find ${../nix} -name '*.nix')
    touch $out
  '';
in
{
  # One attribute, since callPackage adds functions of its own beside it.
  checks = {
    lint =
      check "The Python code is formatted, free of known mistakes, typed, and keeps to its rooms" "lint"
        ''
          ruff check --no-cache .
          ruff format --no-cache --check .
          mypy --cache-dir=/dev/null
          lint-imports --no-cache
          touch $out
        '';

    # The tests that need no privilege, in three parts that run beside each other: most of the time they wait.
    # Sockets live under the build directory; PostgreSQL runs because a build has a user of its own.
    engine = tests "The tests of the engine, against real servers" "engine" "tests/engine";
    screens = tests "The tests of the terminal, without one" "screens" "tests/tui";
    tests =
      tests "All other tests, against real servers" "tests"
        "--ignore=tests/engine --ignore=tests/tui";

    module = callPackage ./module-check.nix { inherit bench module; };

    # The wrapper starts, and finds its catalogue.
    bench = check "The application starts" "start" ''
      ${lib.getExe bench} --help > $out
    '';
  }
  // lib.optionalAttrs (nixfmt != null) { inherit format; };
}
