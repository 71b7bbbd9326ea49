# The packages: see flake.nix. Each is a folder of links to the programs of this machine that it stands for (see
# tools.nix), and a build has on its PATH what it declares and what nixpkgs gives to every build: what is forgotten here
# is missed here, and not first by whoever builds over nixpkgs.
{ lib, system }:
let
  # A package of its own name, made of what /usr/bin has.
  linked =
    name: programs:
    derivation {
      inherit name system;
      builder = "/bin/bash";
      args = [ ./link.sh ];
      inherit programs;
    }
    // {
      meta = {
        description = "This machine's ${name}";
        mainProgram = lib.head (lib.splitString " " programs);
      };
    };
  tools = builtins.mapAttrs linked (import ./tools.nix);

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

  # As nixpkgs' two of them: with a compiler, and without.
  mkDerivationWith =
    compiler: args:
    let
      built = derivation (
        removeAttrs args [
          "meta"
          "passthru"
          "autoPatchelfIgnoreMissingDeps"
        ]
        // {
          inherit system;
          inherit (tools) initialPath;
          nativeBuildInputs = compiler ++ args.nativeBuildInputs or [ ];
          name = args.name or "${args.pname}-${args.version}";
          builder = "/bin/bash";
          args = [ ./builder.sh ];
        }
      );
    in
    built // { meta = args.meta or { }; } // (args.passthru or { });
  mkDerivation = mkDerivationWith [ tools.cc ];

  packages = tools // {
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
          builtins ? currentSystem && builtins.pathExists (builtins.unsafeDiscardStringContext file.outPath);
      };

    runCommand =
      name: environment: command:
      mkDerivationWith [ ] (
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
        // {
          shellHook = ''
            export PATH=${lib.makeBinPath environment.packages}:$PATH
            ${environment.shellHook or ""}
          '';
        }
      );

    runtimeShell = "/bin/bash";
    python3 = linked "python3" "python${pythonVersion}" // {
      inherit pythonVersion;
      interpreter = "/usr/bin/python${pythonVersion}";
    };

    llvmPackages_18 = {
      clang = linked "clang" "clang";
      llvm = linked "llvm" "llvm-config";
    };

    # What the probe helper may start is the machine's own file, not a link to it.
    bpftrace = tools.bpftrace // {
      hostProgram = "/usr/bin/bpftrace";
      meta = tools.bpftrace.meta // {
        license = lib.licenses.asl20;
      };
    };

    # The machine's loader finds the machine's libraries: nothing to patch.
    autoPatchelfHook = null;

    nixfmt = packages.callPackage ./nixfmt.nix { };
  };

  stdenv = {
    inherit mkDerivation;
    cc = tools.cc // {
      cc.lib = linked "libstdc++" "";
    };
    hostPlatform = {
      inherit system;
      isx86_64 = system == "x86_64-linux";
    };
  };
in
packages
