# What `nix flake check` builds. What needs root, tracefs, a terminal or Nix itself runs in ./check instead.
{
  lib,
  callPackage,
  runCommand,
  hyperfine,
  manual,
  nixfmt ? null,
  stdenv,
  bench,
  module,
  packages,
  pgbench,
  python,
  testServers,
}:
let
  sourceWith = pages: sourceOf pages [ ];
  sourceOf =
    pages: leave:
    callPackage ./sources.nix { } {
      name = "pgbed-source";
      inherit leave;
      keep = pages ++ [
        "engine"
        "probes"
        "tests"
        "tui"
        "workloads"
        "action.yml"
        "pyproject.toml"
      ];
    };

  about = description: {
    inherit description;
    license = lib.licenses.postgresql;
  };

  check = checkOf (sourceWith [ ]);
  checkOf =
    source: tools: description: name: command:
    runCommand "pgbed-${name}"
      {
        nativeBuildInputs = [ python.dev ] ++ tools;
        # What is compiled is compiled as it is written, like the servers.
        hardeningDisable = [ "all" ];
        meta = about description;
      }
      ''
        cp -r --preserve=timestamps ${source} source
        chmod -R u+w source
        cd source
        set -o pipefail
        unset TMPDIR # the tests choose a place
        export HOME=$PWD PGBED_MARKERS=$PWD/markers.json
        ${command}
      '';

  programs = ''
    export PGBED_SERVERS=${testServers.checked}/servers PGBED_CATALOG=${testServers.checked}/catalog.json
    ${lib.optionalString (pgbench != null) ''
      export PGBED_PGBENCH=${pgbench}/bin/pgbench
      export PGBED_PG_DUMP=${pgbench}/bin/pg_dump PGBED_PG_RESTORE=${pgbench}/bin/pg_restore
      export PGBED_PSQL=${pgbench}/bin/psql
    ''}
    ${lib.optionalString (hyperfine != null) "export PGBED_HYPERFINE=${lib.getExe hyperfine}"}
  '';

  # Source and tests with their byte code, which takes four times as long as all other collecting, and with the markers of
  # all tests, so that a check imports only its own. The byte code is of files with the times that all have in the store,
  # so that of all else is right beside the screens, too.
  compiled =
    leave:
    checkOf (sourceOf [ ] leave) [ stdenv.cc ] "The tests, compiled" "compiled" ''
      ${programs}
      ${lib.optionalString (leave != withoutScreens) ''
        cp -r --preserve=timestamps ${compiled withoutScreens}/. .
        chmod -R u+w .
        rm markers.json
      ''}
      python -m pytest -p no:cacheprovider --collect-only -q -m "" ${documents} tests | tail -n 1
      cp -r --preserve=timestamps . $out
    '';

  # Tests by their markers, several files at a time, since most of them wait for servers. The screens are left out of the
  # source of all others, so that an edit of a screen repeats the tests of the screens alone. Nix begins builds in the
  # order of their names: those with many tests, which take longest, come before what is short.
  tests =
    workers: leave: description: name: markers: which:
    # Some tests compile a program, to look into it.
    checkOf (compiled leave) [ stdenv.cc ] description "check-${name}" ''
      ${programs}
      mkdir -p $out
      { time python -m pytest -p no:cacheprovider -n ${toString workers} --dist loadfile \
          --durations=10 -m "${markers} and not outside and not nightly" ${which}; } 2>&1 | tee $out/pytest.log
    '';
  withoutScreens = [
    "tui"
    "tests/tui"
  ];
  runs = [
    "tests/engine/run"
    "tests/engine/slices"
  ];
  documents = "--ignore=tests/test_documented_commands.py --ignore=tests/test_manual.py --ignore=tests/test_sql_page.py";

  format = runCommand "pgbed-format" { meta = about "The Nix code is formatted"; } ''
    ${lib.getExe nixfmt} --check ${../flake.nix} ${../engine/farm/block.nix} ${../engine/builds/derivation.nix} $(find ${../nix} -name '*.nix')
    touch $out
  '';

  # package.nix as nixpkgs would call it: all that it needs is there, but for packages of Python, which may be too old, and
  # are refused then.
  alone =
    let
      withPackages =
        choose:
        assert map (package: package.name) (choose (packagesWith { })) == bench.dependencies;
        bench.python;
      packagesWith =
        versions:
        lib.genAttrs bench.dependencies (name: {
          inherit name;
          version = versions.${name} or (if name == "textual" then "8.2.8" else "99");
        });
      refused =
        versions:
        !(builtins.tryEval (builtins.deepSeq (bench.pythonPackages (packagesWith versions)) true)).success;
      package = callPackage ./package.nix {
        inherit (bench) hyperfine;
        python3 = { inherit withPackages; };
      };
    in
    assert refused { textual = "6.1"; } && refused { textual = "9.0"; } && !refused { };
    runCommand "pgbed-alone"
      { meta = about "package.nix makes the application of a package set alone"; }
      ''
        echo ${builtins.unsafeDiscardStringContext package.drvPath} > $out
      '';

  # Every output says what it is, under which licence, and which program it is for.
  undescribed =
    let
      lacking =
        wanted: outputs:
        map (name: "${name} (${lib.concatStringsSep ", " (without wanted outputs.${name})})") (
          lib.filter (name: without wanted outputs.${name} != [ ]) (builtins.attrNames outputs)
        );
      without =
        wanted: output:
        lib.filter (key: !(output.meta ? ${key})) (
          [
            "description"
            "license"
          ]
          ++ lib.optional (wanted && !(output ? noProgram)) "mainProgram"
        );
    in
    lacking true packages ++ lacking false checks;

  checks = {
    lint =
      check [ ] "The Python code is formatted, free of known mistakes, typed, and keeps to its layers"
        "lint"
        ''
          ruff check --no-cache .
          ruff format --no-cache --check .
          mypy --cache-dir=/dev/null
          lint-imports --no-cache
          python -m tests.idioms
          touch $out
        '';

    # The tests that need no privilege. Sockets live under the build directory; PostgreSQL runs because a build has a user
    # of its own.
    pure =
      tests 2 withoutScreens "The tests that start no process" "pure"
        "not screens and not servers and not slow"
        documents;
    servers =
      tests 3 withoutScreens "The tests against real servers, but for runs" "servers"
        "not screens and (servers or slow)"
        "${documents} ${lib.concatMapStringsSep " " (folder: "--ignore=${folder}") runs}";
    runs = tests 4 withoutScreens "Whole runs" "runs" "not screens and (servers or slow)" (
      toString runs
    );
    screens = tests 4 [ ] "The tests of the screens, without a terminal" "screens" "screens" documents;

    # Apart, or an edit of a page would repeat all other tests.
    documented =
      checkOf
        (sourceWith [
          "docs"
          "nix"
          "pictures"
          "CHANGELOG.md"
          "CONTRIBUTING.md"
          "LICENSE"
          "README.md"
          "SECURITY.md"
        ])
        [ ]
        "The command lines of the manual run, and its samples, help and links are right"
        "documented"
        ''
          ${programs}
          python -m tests.idioms manual
          python -m pytest -p no:cacheprovider -m "" tests/test_documented_commands.py tests/test_manual.py tests/test_sql_page.py
          touch $out
        '';

    # Simulations with known truth: exit code 1 where an interval or a verdict breaks its promise.
    coverage = check [ ] "Intervals and verdicts hold what they promise" "coverage" ''
      mkdir -p $out
      { time python -m tests.perf.coverage --trials 20; } 2>&1 | tee $out/coverage.log
    '';

    inherit alone manual;

    described =
      runCommand "pgbed-described" { meta = about "Every output has its description and licence"; }
        ''
          ${lib.concatMapStringsSep "\n" (line: "echo 'meta lacks: ${line}'") undescribed}
          ${lib.optionalString (undescribed != [ ]) "exit 1"}
          touch $out
        '';

    # As it is with nixpkgs, or the other checks would say less over hostpkgs.
    undeclared = runCommand "pgbed-undeclared" { meta = about "A build sees only what it declares"; } ''
      case :$PATH: in
        *:/usr/*|*:/bin:*) echo "the machine's programs are on PATH: $PATH"; exit 1 ;;
      esac
      for program in gcc bison mvn node python3; do
        if command -v "$program"; then exit 1; fi
      done
      touch $out
    '';

    # What virtual machines and images do with it.
    packed =
      runCommand "pgbed-packed"
        {
          exportReferencesGraph = [
            "graph"
            bench.selfContained
          ];
          meta = about "The closure of the self-contained application can be packed";
        }
        ''
          ! grep '\.drv$' graph
          HOME=$PWD ${bench.selfContained}/bin/bench list builds | grep -F 18.6 > $out
        '';

    module = callPackage ./module-check.nix { inherit bench module; };
    bench = bench.tests.start;
  }
  # The recipe for servers from source, which no other check needs.
  // lib.optionalAttrs (testServers.compiled != null) { server = testServers.compiled; }
  // lib.optionalAttrs (nixfmt != null) { inherit format; };
in
# One attribute, since callPackage adds functions of its own beside it.
{
  inherit checks;
}
