# The Python environments: virtual environments with exactly what the locks name, the same versions over nixpkgs and over
# hostpkgs. `bench` runs in the one of requirements.lock; the tests' one (passthru.dev) has requirements-dev.lock on top.
# Wheels come through pip (so the user's mirror and certificates apply) as one fixed-output derivation for each lock, and
# are installed from there without the network.
{
  lib,
  stdenv,
  python3,
  # nixpkgs' default moves on; hostpkgs has the machine's alone.
  python313 ? python3,
  autoPatchelfHook,
  cacert,
  zlib,
}:
let
  inherit (python313) interpreter pythonVersion;
  inherit (stdenv.hostPlatform) system;

  # A lock holds the hash of each wheel; these are of the folder of wheels that one Python on one system takes.
  wheelHashes = builtins.fromJSON (builtins.readFile ./wheels.json);

  wheelsOf =
    lock:
    let
      known = wheelHashes.${baseNameOf lock}.${system};
    in
    stdenv.mkDerivation {
      # The lock is part of the name, so that the wheels of another lock are never taken for those of this one.
      name = "pgbed-wheels-${
        builtins.substring 0 12 (builtins.hashFile "sha256" lock)
      }-py${pythonVersion}";
      outputHashMode = "recursive";
      outputHash =
        known.${pythonVersion}
          or (throw "pgbed runs on Python ${lib.concatStringsSep ", " (builtins.attrNames known)}, not on ${pythonVersion}: pass one of these as python313");
      impureEnvVars = lib.fetchers.proxyImpureEnvVars ++ [
        "PIP_CERT"
        "PIP_INDEX_URL"
      ];
      nativeBuildInputs = [
        python313
        cacert
      ];
      dontUnpack = true;
      dontFixup = true;
      installPhase = ''
        . ${./wheels.sh}
        ${interpreter} -m venv pip
        HOME=$PWD fetch_wheels pip/bin/pip ${lock} ${pythonVersion} ${lib.head (lib.splitString "-" system)} "$out"
      '';
      meta.description = "The wheels of ${baseNameOf lock} for Python ${pythonVersion}";
    };

  environment =
    name: description: locks:
    stdenv.mkDerivation {
      name = "${name}-${pythonVersion}";
      nativeBuildInputs = [
        python313
        autoPatchelfHook
      ];
      # manylinux wheels count on these from the system; autoPatchelf writes where they are into the wheels' libraries.
      buildInputs = [
        stdenv.cc.cc.lib
        zlib
      ];
      dontUnpack = true;
      dontStrip = true;
      dontPatchELF = true;

      # Byte code is checked against nothing: files in the store cannot change, and their times say nothing. The
      # libraries' own tests, a quarter of all, are never loaded.
      installPhase = ''
        runHook preInstall
        ${interpreter} -m venv pip
        ${interpreter} -m venv --without-pip "$out"
        HOME=$PWD pip/bin/pip --python "$out/bin/python" install --quiet --disable-pip-version-check --no-deps --no-compile \
          --no-index ${
            lib.concatMapStringsSep " " (lock: "--find-links ${wheelsOf lock} --requirement ${lock}") locks
          }
        "$out/bin/python" -m compileall -q -x '/tests?/' --invalidation-mode unchecked-hash "$out/lib"
        runHook postInstall
      '';

      meta = {
        inherit description;
        mainProgram = "python";
        # Python's, and those of the wheels.
        license = [
          lib.licenses.psfl
          lib.licenses.asl20
          lib.licenses.bsd3
          lib.licenses.lgpl3Only
          lib.licenses.mit
        ];
      };
    };
  run = ../requirements.lock;
in
environment "pgbed-python" "Python ${pythonVersion} with everything that pgbed imports" [ run ]
// {
  dev =
    environment "pgbed-python-dev"
      "Python ${pythonVersion} with everything that pgbed and its tests import"
      [
        run
        ../requirements-dev.lock
      ];
}
