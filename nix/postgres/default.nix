# Every server of a table like versions.nix, as packages and as the catalogue that the application reads.
#
#   packages   { postgresql-16_3 = derivation; postgresql-16_3-prebuilt = derivation; … }
#   catalog    [ { label, version, attr, provenance, initdb_args, patches, tarball, drv, out } … ], JSON-able;
#              `tarball` is null for a prebuilt, else { name, hash, path } of the source in the store; `drv` is the
#              derivation and `out` what it makes, so that a server can be realised with nothing but the store
#   recipes    [ { major, system, drv } … ], JSON-able: the derivation to make servers of that major and later ones from a
#              source tree with, which it lacks, by `make` or `meson`: see engine/builds/derivation.py
#   extensions { names, sources, drv }, JSON-able: see extensions.nix; `drv` makes a server with an extension of it, and
#              lacks both
#   variants   { jit = null or { env, inputs }; layout }, JSON-able: what a variant adds to the environment of a derivation, and the
#              derivations that this leads to; the derivation that links a backend once more
{
  lib,
  callPackage,
  stdenv,
  # The newest that PostgreSQL 16.3 knows. Where nixpkgs has it no more there is no variant :jit.
  llvmPackages_18 ? null,
  versions,
  packageSetName ? "nixpkgs",
}:
let
  build = callPackage ./build.nix { };
  unpackPrebuilt = callPackage ./prebuilt.nix { };
  system = stdenv.hostPlatform.system;
  hasLlvm = (builtins.tryEval (llvmPackages_18 != null && llvmPackages_18 ? llvm)).value;

  attrOf = label: "postgresql-" + builtins.replaceStrings [ "." ] [ "_" ] label;

  # A variant takes version and source from the entry it starts from.
  sourceOf = label: entry: rec {
    inherit label;
    version = entry.from or label;
    attr = attrOf label;
    provenance = "source";
    patches = map baseNameOf (entry.patches or [ ]);
    package = build {
      inherit label version;
      hash = versions.${version}.source;
      patches = entry.patches or [ ];
      cflags = entry.cflags or [ ];
      configureFlags = entry.configureFlags or [ ];
    };
    tarball = {
      inherit (package.src) name;
      hash = versions.${version}.source;
      # The path only: the catalogue must not make the application depend on the tarballs.
      path = builtins.unsafeDiscardStringContext package.src.outPath;
    };
  };

  # Debian's server needs Debian's apt, and is of use only where the source cannot be had.
  isOffered = origin: !(origin ? debian) || packageSetName == "hostpkgs";

  prebuiltOf = version: entry: {
    inherit version;
    label = "${version}-prebuilt";
    attr = attrOf "${version}-prebuilt";
    provenance = "prebuilt";
    patches = [ ];
    tarball = null;
    package = unpackPrebuilt {
      inherit version;
      origin = entry.prebuilt.${system};
    };
  };

  # The same for source trees: the recipe as it is from some major version on, to be given a tree.
  recipes =
    map (recipe "make") [
      "12"
      "14"
      "15"
      "18"
    ]
    ++ map (recipe "meson") [
      "16"
      "18"
    ];
  recipe = system: major: {
    inherit major system;
    drv =
      builtins.unsafeDiscardOutputDependency
        (build {
          label = major;
          version = major;
          hash = null;
          byMeson = system == "meson";
        }).drvPath;
  };

  # Oldest version first, as a person would list them; versions.nix is sorted by spelling once it is read.
  servers = lib.sort (one: other: builtins.compareVersions one.version other.version < 0) (
    lib.mapAttrsToList sourceOf (lib.filterAttrs (_: entry: entry ? source || entry ? from) versions)
    ++ lib.mapAttrsToList prebuiltOf (
      lib.filterAttrs (
        _: entry: entry ? prebuilt.${system} && isOffered entry.prebuilt.${system}
      ) versions
    )
  );

  # The recipes come with whoever holds the catalogue, what they make does not.
  entryOf =
    server:
    removeAttrs server [ "package" ]
    // {
      drv = builtins.unsafeDiscardOutputDependency server.package.drvPath;
      out = builtins.unsafeDiscardStringContext server.package.outPath;
      initdb_args = [ ];
    };

  listed =
    server:
    [ (entryOf server) ]
    # 17beta1 sorts after "17" here, as it must: it has the builtin provider too.
    ++ lib.optional (lib.versionAtLeast server.version "17") (
      entryOf server
      // {
        label = "${server.label}-builtin";
        initdb_args = [
          "--locale-provider=builtin"
          "--builtin-locale=C.UTF-8"
        ];
      }
    );
in
{
  packages = lib.listToAttrs (map (server: lib.nameValuePair server.attr server.package) servers);
  catalog = lib.concatMap listed servers;
  inherit recipes;
  extensions = {
    inherit (callPackage ./extensions.nix { }) names sources;
    drv = builtins.unsafeDiscardOutputDependency (callPackage ./extension.nix { }).drvPath;
  };
  variants.layout = builtins.unsafeDiscardOutputDependency (callPackage ./layout.nix { }).drvPath;
  variants.jit =
    if !hasLlvm then
      null
    else
      let
        llvm = lib.getDev llvmPackages_18.llvm;
        inherit (llvmPackages_18) clang;
        path = package: builtins.unsafeDiscardStringContext package.outPath;
        input = package: {
          drv = builtins.unsafeDiscardOutputDependency package.drvPath;
          output = package.outputName or "out";
        };
      in
      {
        env = {
          nativeBuildInputs = path llvm;
          CLANG = "${path clang}/bin/clang";
        };
        inputs = [
          (input llvm)
          (input clang)
        ];
      };
}
