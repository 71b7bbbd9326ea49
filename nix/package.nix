# The application: `bench`, which runs the engine from a store copy of the source. `callPackage ./package.nix { }` makes it
# of any nixpkgs, and of that one's Python; pgbed's flake gives it the Python that is tested (see python.nix).
#
# What it finds in its environment:
#   PGBED_CATALOG       JSON of every build that the flake knows, with its derivation (see postgres/default.nix)
#   PGBED_RECIPES       JSON of the derivations that source trees are built by
#   PGBED_EXTENSIONS    JSON of the extensions that the flake knows, and of the derivation that they are built by
#   PGBED_VARIANTS      JSON of what variants of a build need (see postgres/default.nix)
#   PGBED_SELF_CONTAINED   the same application without the derivations: what blocks of a farm run
#   PGBED_PACKAGE_SET   nixpkgs or hostpkgs: what these are made of
#   PGBED_PACKAGES      the same with nixpkgs' version, for `bench --version`
#   PGBED_REVISION      the revision of the flake; empty where its files or inputs are others
#   PGBED_STACK_TOOL    eu-stack of elfutils: the user stack of a backend that stalls
#   PGBED_PROBE_HELPER  what starts bpftrace, with privilege; unless it is named already, as by module.nix
#   PGBED_SERVER_PATH   the PATH of servers: `locale`, which initdb asks for collations, and nothing else
# (`pgbench`, `pg_dump`, `pg_restore`, `psql`, `hyperfine` and `perf` of the user's config.toml replace the variables of
# that name.)
#   PGBED_PGBENCH       the derivation of the pgbench that puts load on servers, realised by the first run that wants
#                       it; unless a program is named already
#   PGBED_PG_DUMP, PGBED_PG_RESTORE, PGBED_PSQL, PGBED_HYPERFINE   the same of the pg_dump that dumps all servers, the
#   pg_restore and the psql that fill them, and the hyperfine that times a dump
#   PGBED_BPFTRACE      the derivation of the bpftrace that runs the probes: like a server it is realised by the first
#                       run that wants it
#   PGBED_BPFTRACE_VERSION   its version, for who asks before; over hostpkgs both are missing: it is the machine's own
#   PGBED_PERF          the derivation of the perf that counts events, realised by the first run that wants it, unless a
#                       program is named already; over hostpkgs it is missing: it is the machine's own
#   PGBED_KERNELS       JSON of every kernel that the flake knows, and
#   PGBED_GUEST_TOOLS   the derivation of qemu and what else guests need; over hostpkgs both are missing: they are the
#                       machine's own
{
  lib,
  stdenv,
  callPackage,
  runCommand,
  runtimeShell,
  bpftrace,
  elfutils,
  glibc,
  hyperfine,
  python3,
  # Only hostpkgs has a name for itself.
  packageSetName ? "nixpkgs",
  # nixpkgs once had it with each kernel only; hostpkgs has none.
  linuxPackages ? { },
  perf ? linuxPackages.perf or null,

  # What the flake makes itself.
  pythonEnvironment ? null,
  postgres ? callPackage ./postgres { versions = import ./postgres/versions.nix; },
  pgbench ? callPackage ./pgbench.nix { inherit postgres; },
  kernels ? callPackage ./kernels { },
  revision ? "",

  # Whether it leads to no derivation: it runs servers that it is given, and builds none. Where a derivation is in a closure,
  # whatever packs that (virtual machines, images, closureInfo) asks for all that the derivation makes. Of every bench this
  # form is `bench.selfContained`.
  selfContained ? false,
}@arguments:
let
  inherit (builtins.fromTOML (builtins.readFile ../pyproject.toml)) project;
  inherit (project) version;
  # Packages of nixpkgs have the same names.
  nameOf = range: builtins.head (builtins.match "([a-z0-9-]+).*" range);
  dependencies = map nameOf project.dependencies;
  # The bound of a range, such as the one after >=.
  boundOf = sign: range: builtins.match ".*${sign} *([0-9.]+).*" range;
  isWithin =
    range: version:
    let
      least = boundOf ">=" range;
      below = boundOf "<" range;
      compared = bound: builtins.compareVersions version (builtins.head bound);
    in
    (least == null || compared least >= 0) && (below == null || compared below < 0);
  packageFor =
    packages: range:
    let
      package = packages.${nameOf range} or { version = "none"; };
    in
    if package.version != "none" && isWithin range package.version then
      package
    else
      throw "pgbed needs ${range}, and these Python packages have ${nameOf range} ${package.version}: take others, or the bench of pgbed's flake";
  pythonPackages = packages: map (packageFor packages) project.dependencies;

  python =
    if pythonEnvironment != null then pythonEnvironment else python3.withPackages pythonPackages;

  sources = callPackage ./sources.nix { };
  packages = packageSetName + lib.optionalString (lib ? version) " ${lib.version}";

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

  selfContainedForm = import ./package.nix (arguments // { selfContained = true; });

  # Its lib and manual page.
  parts =
    if selfContained then
      ''
        mkdir -p "$out/lib" "$out/share/man/man1"
        cp -r ${application} "$out/lib/pgbed"
        chmod -R u+w "$out/lib/pgbed"
        # What an installer would leave beside the modules: `bench --version` asks for it.
        mkdir "$out/lib/pgbed/pgbed-${version}.dist-info"
        printf 'Metadata-Version: 2.1\nName: pgbed\nVersion: ${version}\n' > "$out/lib/pgbed/pgbed-${version}.dist-info/METADATA"
        ${python}/bin/python -m compileall -q --invalidation-mode unchecked-hash "$out/lib/pgbed"
        HOME=$PWD PYTHONPATH="$out/lib/pgbed" ${python}/bin/python -B ${../docs/manpage.py} > "$out/share/man/man1/bench.1"
      ''
    else
      ''
        cp -r ${selfContainedForm}/lib ${selfContainedForm}/share "$out"
        chmod -R u+w "$out"
      '';

  files = {
    catalog =
      if selfContained then
        map (build: removeAttrs build [ "drv" ]) postgres.catalog
      else
        postgres.catalog;
  }
  // lib.optionalAttrs (!selfContained) {
    inherit (postgres) recipes extensions variants;
    kernels = kernels.catalog;
  };

  locale = runCommand "pgbed-locale" { meta.description = "The program locale"; } ''
    mkdir -p $out/bin
    ln -s ${lib.getBin glibc}/bin/locale $out/bin
  '';

  # A file of its own: the tests outside the Nix build take it too.
  environment = ''
    export PGBED_CATALOG=@out@/share/pgbed/catalog.json
    export PGBED_PACKAGE_SET=${packageSetName}
    export PGBED_PACKAGES='${packages}'
    export PGBED_REVISION=${revision}
    export PGBED_STACK_TOOL=${lib.getBin elfutils}/bin/eu-stack
    export PGBED_PROBE_HELPER=''${PGBED_PROBE_HELPER:-@out@/libexec/pgbed-probe-helper}
    export PGBED_SERVER_PATH=${locale}/bin
  ''
  + lib.optionalString (!selfContained) builders;

  # The derivation that these programs are of, where the user has named no program.
  usual =
    package: names:
    lib.optionalString (package != null) (
      lib.concatMapStringsSep "" (
        name:
        "export PGBED_${name}=\${PGBED_${name}:-${builtins.unsafeDiscardOutputDependency package.drvPath}}\n"
      ) names
    );

  builders = ''
    export PGBED_RECIPES=@out@/share/pgbed/recipes.json
    export PGBED_EXTENSIONS=@out@/share/pgbed/extensions.json
    export PGBED_VARIANTS=@out@/share/pgbed/variants.json
    export PGBED_SELF_CONTAINED=${selfContainedForm}
  ''
  + usual pgbench [
    "PGBENCH"
    "PG_DUMP"
    "PG_RESTORE"
    "PSQL"
  ]
  + usual hyperfine [ "HYPERFINE" ]
  + usual perf [ "PERF" ]
  + lib.optionalString (kernels.tools != null) ''
    export PGBED_KERNELS=@out@/share/pgbed/kernels.json
    export PGBED_GUEST_TOOLS=${builtins.unsafeDiscardOutputDependency kernels.tools.drvPath}
  ''
  + lib.optionalString (!(bpftrace ? hostProgram)) ''
    export PGBED_BPFTRACE=${builtins.unsafeDiscardOutputDependency bpftrace.drvPath}
    export PGBED_BPFTRACE_VERSION=${bpftrace.version}
  '';

  # What runs with privilege: of a bench in `out`, with the one bpftrace that it may start. -I: neither environment nor
  # current folder decides what a privileged process imports. -B: it leaves nothing behind.
  probeHelper = out: bpftraceProgram: ''
    #!${python}/bin/python -IB
    import sys

    sys.path.insert(0, "${out}/lib/pgbed")
    from probes.helper import main

    sys.exit(main(sys.argv[1:], "${bpftraceProgram}"))
  '';

  # Without its context: the first run that wants probes fetches it.
  ownProbeHelper = probeHelper "@out@" (
    bpftrace.hostProgram or (builtins.unsafeDiscardStringContext "${bpftrace}/bin/bpftrace")
  );

  wrapper = ''
    #!${runtimeShell}
    . @out@/share/pgbed/environment
    # The clients that the engine starts find its modules in the same place, and never in the current folder.
    export PYTHONPATH=@out@/lib/pgbed PYTHONSAFEPATH=1
    exec ${python}/bin/python -m engine "$@"
  '';

  license = lib.licenses.postgresql;

  bench = stdenv.mkDerivation {
    pname = "pgbed";
    inherit version;

    dontUnpack = true;
    installPhase = ''
      runHook preInstall
      mkdir -p "$out"
      ${parts}
      mkdir -p "$out/bin" "$out/libexec" "$out/share/pgbed"
      ${lib.concatStringsSep "\n" (
        lib.mapAttrsToList (
          name: value:
          "printf '%s' ${lib.escapeShellArg (builtins.toJSON value)} > \"$out/share/pgbed/${name}.json\""
        ) files
      )}
      printf '%s' ${lib.escapeShellArg environment} | sed "s|@out@|$out|g" > "$out/share/pgbed/environment"
      printf '%s' ${lib.escapeShellArg wrapper} | sed "s|@out@|$out|g" > "$out/bin/bench"
      printf '%s' ${lib.escapeShellArg ownProbeHelper} | sed "s|@out@|$out|g" > "$out/libexec/pgbed-probe-helper"
      chmod +x "$out/bin/bench" "$out/libexec/pgbed-probe-helper"
      runHook postInstall
    '';

    passthru = {
      inherit
        dependencies
        hyperfine
        probeHelper
        python
        pythonPackages
        ;
      selfContained = if selfContained then bench else selfContainedForm;
      tests.start =
        runCommand "pgbed-start"
          {
            meta = {
              description = "The application starts, and says what it is";
              inherit license;
            };
          }
          ''
            export HOME=$PWD
            ${bench}/bin/bench --version | tee $out
            grep -F 'bench ${version}, revision ' $out
            grep -F ', package set ${packages}' $out
            ${bench}/bin/bench list builds | grep -F 18.6
          '';
    };
    meta = {
      description = "Build PostgreSQL servers, load them, and say which is slower and why";
      # pgbed's, and those of the scripts that its pages bring along.
      license = [
        license
        lib.licenses.isc
        lib.licenses.asl20
      ];
      mainProgram = "bench";
      platforms = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    };
  };
in
bench
