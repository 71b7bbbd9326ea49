# The application: `bench`, which runs the engine from a store copy of the source.
#
# What it finds in its environment:
#   PGBED_CATALOG       JSON of every build that the flake knows (see postgres/default.nix)
#   PGBED_FLAKE         the flake itself, so that the builds that are asked for can be realised from it
#   PGBED_PACKAGE_SET   nixpkgs or hostpkgs: what that flake is evaluated over
#   PGBED_FLAMEGRAPH    the scripts that go into pages with flame graphs
#   PGBED_STACK_TOOL    eu-stack of elfutils: the user stack of a backend that stalls
{
  lib,
  stdenv,
  callPackage,
  runtimeShell,
  elfutils,
  # Only hostpkgs has a name for itself.
  packageSetName ? "nixpkgs",
  postgres,
  python,
}:
let
  inherit ((builtins.fromTOML (builtins.readFile ../pyproject.toml)).project) version;
  sources = callPackage ./sources.nix { };
  flamegraph = callPackage ./flamegraph.nix { };

  application = sources {
    name = "pgbed-application";
    keep = [
      "engine"
      "probes"
      "tui"
      "workloads"
      "pyproject.toml"
    ];
  };

  # Enough of the flake to build servers from, so that an edit of the application leaves it alone.
  serverFlake = sources {
    name = "pgbed-servers";
    keep = [
      "flake.lock"
      "flake.nix"
      "nix"
    ];
  };

  # A file of its own: the tests outside the Nix build take it too.
  environment = ''
    export PGBED_CATALOG=@out@/share/pgbed/catalog.json
    export PGBED_FLAKE=${serverFlake}
    export PGBED_PACKAGE_SET=${packageSetName}
    export PGBED_FLAMEGRAPH=${flamegraph}
    export PGBED_STACK_TOOL=${elfutils}/bin/eu-stack
  '';

  # What a wrapper with capabilities starts (see module.nix). -I: neither environment nor current folder decides what
  # a privileged process imports. -B: it leaves nothing behind.
  probeHelper = ''
    #!${python}/bin/python -IB
    import runpy

    runpy.run_path("@out@/lib/pgbed/probes/helper.py", run_name="__main__")
  '';

  wrapper = ''
    #!${runtimeShell}
    . @out@/share/pgbed/environment
    # The clients that the engine starts find its modules in the same place, and never in the current folder.
    export PYTHONPATH=@out@/lib/pgbed PYTHONSAFEPATH=1
    exec ${python}/bin/python -m engine "$@"
  '';
in
stdenv.mkDerivation {
  pname = "pgbed";
  inherit version;

  dontUnpack = true;
  installPhase = ''
    runHook preInstall
    mkdir -p "$out/bin" "$out/lib" "$out/libexec" "$out/share/pgbed"
    cp -r ${application} "$out/lib/pgbed"
    chmod -R u+w "$out/lib/pgbed"
    # What an installer would leave beside the modules: `bench --version` asks for it.
    mkdir "$out/lib/pgbed/pgbed-${version}.dist-info"
    printf 'Metadata-Version: 2.1\nName: pgbed\nVersion: ${version}\n' > "$out/lib/pgbed/pgbed-${version}.dist-info/METADATA"
    ${python}/bin/python -m compileall -q --invalidation-mode unchecked-hash "$out/lib/pgbed"
    printf '%s' ${lib.escapeShellArg (builtins.toJSON postgres.catalog)} > "$out/share/pgbed/catalog.json"
    printf '%s' ${lib.escapeShellArg environment} | sed "s|@out@|$out|g" > "$out/share/pgbed/environment"
    printf '%s' ${lib.escapeShellArg wrapper} | sed "s|@out@|$out|g" > "$out/bin/bench"
    printf '%s' ${lib.escapeShellArg probeHelper} | sed "s|@out@|$out|g" > "$out/libexec/pgbed-probe-helper"
    chmod +x "$out/bin/bench" "$out/libexec/pgbed-probe-helper"
    runHook postInstall
  '';

  passthru = { inherit python; };
  meta = {
    description = "Build PostgreSQL servers, load them, and say which is slower and why";
    mainProgram = "bench";
  };
}
