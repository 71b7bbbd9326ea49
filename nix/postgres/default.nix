# Every server of versions.nix, as packages and as the catalogue that the application reads.
#
#   packages   { postgresql-16_3 = derivation; postgresql-16_3-prebuilt = derivation; … }
#   catalog    [ { label, version, attr, provenance, initdb_args, patches, tarball } … ], JSON-able;
#              `tarball` is null for a prebuilt, else { name, hash, path } of the source in the store
{
  lib,
  callPackage,
  stdenv,
}:
let
  versions = import ./versions.nix;
  build = callPackage ./build.nix { };
  unpackPrebuilt = callPackage ./prebuilt.nix { };
  system = stdenv.hostPlatform.system;

  attrOf = label: "postgresql-" + builtins.replaceStrings [ "." ] [ "_" ] label;

  # A variant takes version and source from the entry it starts from.
  sourceOf =
    label: entry:
    let
      version = entry.from or label;
    in
    rec {
      inherit label version;
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

  # Oldest version first, as a person would list them; versions.nix is sorted by spelling once it is read.
  servers = lib.sort (one: other: builtins.compareVersions one.version other.version < 0) (
    lib.mapAttrsToList sourceOf (lib.filterAttrs (_: entry: entry ? source || entry ? from) versions)
    ++ lib.mapAttrsToList prebuiltOf (
      lib.filterAttrs (_: entry: (entry.prebuilt or { }) ? ${system}) versions
    )
  );

  listed =
    server:
    [ (removeAttrs server [ "package" ] // { initdb_args = [ ]; }) ]
    # 17beta1 sorts after "17" here, as it must: it has the builtin provider too.
    ++ lib.optional (lib.versionAtLeast server.version "17") (
      removeAttrs server [ "package" ]
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
}
