# The packages: see flake.nix. Tools are the machine's, so "${python3}/bin/python3" is /usr/bin/python3, and
# being listed in nativeBuildInputs changes nothing: everything in /usr/bin is on the PATH of a build.
{ lib, system }:
let
  hostTool = {
    outPath = "/usr";
  };

  # Which Python there is can only be looked up in an impure evaluation (./bench and ./check ask for one);
  # a pure one assumes Debian 12's.
  pythonVersion =
    let
      present = version: builtins.pathExists (/usr/bin + "/python${version}");
      found = lib.filter present [
        "3.13"
        "3.12"
        "3.11"
      ];
    in
    if builtins ? currentSystem && found != [ ] then builtins.head found else "3.11";

  mkDerivation =
    args:
    let
      environment = removeAttrs args [
        "meta"
        "passthru"
        "nativeBuildInputs"
        "buildInputs"
        "autoPatchelfIgnoreMissingDeps"
      ];
      built = derivation (
        environment
        // {
          inherit system;
          name = args.name or "${args.pname}-${args.version}";
          builder = "/bin/bash";
          args = [ ./builder.sh ];
        }
      );
    in
    built // { meta = args.meta or { }; } // (args.passthru or { });

  packages = {
    inherit lib stdenv;

    # What tells the application which package set it came from.
    packageSetName = "hostpkgs";

    callPackage =
      path: arguments:
      let
        function = import path;
      in
      function (builtins.intersectAttrs (builtins.functionArgs function) packages // arguments);

    # The machine may be cut off from every source archive. Such a source is only ever here because somebody put it
    # into the store under its hash, which makes this builder, and its message, unnecessary. `atHand` says whether it is
    # there, which a pure evaluation cannot see.
    fetchurl =
      {
        url,
        hash,
        name ? baseNameOf url,
      }:
      let
        file = mkDerivation {
          inherit name;
          outputHash = hash;
          outputHashMode = "flat";
          dontUnpack = true;
          installPhase = ''
            echo "${name} cannot be fetched with this package set: put the file into a folder and name the folder in BENCH_TARBALLS"
            exit 1
          '';
          meta.description = "The archive ${name}";
        };
      in
      file
      // {
        atHand =
          builtins ? currentSystem
          && builtins.pathExists (builtins.unsafeDiscardStringContext file.outPath);
      };

    runCommand =
      name: environment: command:
      mkDerivation (
        environment
        // {
          inherit name;
          dontUnpack = true;
          installPhase = command;
        }
      );

    mkShell =
      environment:
      mkDerivation (
        {
          name = "shell";
          # `nix develop` writes the environment to each output that this names.
          outputs = [ "out" ];
          dontUnpack = true;
          installPhase = "touch $out";
        }
        // removeAttrs environment [ "packages" ]
      );

    runtimeShell = "/bin/bash";
    python3 = hostTool // {
      inherit pythonVersion;
      interpreter = "/usr/bin/python${pythonVersion}";
    };

    # The machine's loader finds the machine's libraries: nothing to patch.
    autoPatchelfHook = null;
  }
  // lib.genAttrs [
    "bison"
    "cacert"
    "elfutils"
    "flex"
    "icu"
    "libsystemtap"
    "lz4"
    "maven"
    "nodejs"
    "perl"
    "pkg-config"
    "readline"
    "systemtap-sdt"
    "unzip"
    "xz"
    "zlib"
    "zstd"
  ] (_: hostTool);

  stdenv = {
    inherit mkDerivation;
    cc.cc.lib = hostTool;
    hostPlatform = {
      inherit system;
      isx86_64 = system == "x86_64-linux";
    };
  };
in
packages
