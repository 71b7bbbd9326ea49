# The Python environment: a virtual environment with exactly what requirements.lock names, the same versions over
# nixpkgs and over hostpkgs. Wheels come through pip (so the user's mirror and certificates apply) as one
# fixed-output derivation, and are installed from there without the network.
{
  lib,
  stdenv,
  python3,
  autoPatchelfHook,
  cacert,
  zlib,
}:
let
  inherit (python3) pythonVersion;
  inherit (stdenv.hostPlatform) system;
  lock = ../requirements.lock;

  # The lock holds the hash of each wheel; these are of the folder of wheels that one Python on one system takes.
  wheelHashes = {
    x86_64-linux = {
      "3.11" = "sha256-QYwns5OTom1/xhEma77nJtGbk23GHQGA7BaUjactVXM=";
      "3.12" = "sha256-849ovn3hufWqIxg9XgACHsTDL2n+gvHPUrEahpDUNIc=";
      "3.13" = "sha256-LEAQL82fOsVEFcW0CccaJak4vyEVtAMlNwXSS/MzMlw=";
    };
    aarch64-linux = {
      "3.11" = "sha256-L3w4gybGBJmpSQOuQ9+zNytCKlCigtlV7zvvZ/bL7dg=";
      "3.12" = "sha256-0hlBEjc46WKkZWAp3qVrGixC3BSlkL96ZVzEWipcXag=";
      "3.13" = "sha256-uQuCBNcrMWBZrxbsOLir514KmTEKjvbBvZud7+NhYqo=";
    };
  };

  # Platform and Python are spelled out, so that which wheel is taken does not depend on the pip or libc that fetch.
  arch =
    {
      x86_64-linux = "x86_64";
      aarch64-linux = "aarch64";
    }
    .${system};
  target = lib.concatStringsSep " " (
    [
      "--python-version ${pythonVersion}"
      "--implementation cp"
    ]
    ++ map (abi: "--abi ${abi}") [
      "cp${builtins.replaceStrings [ "." ] [ "" ] pythonVersion}"
      "abi3"
      "none"
    ]
    ++ map (platform: "--platform ${platform}_${arch}") [
      "manylinux_2_28"
      "manylinux_2_27"
      "manylinux_2_26"
      "manylinux_2_24"
      "manylinux_2_17"
      "manylinux2014"
    ]
  );

  wheels = stdenv.mkDerivation {
    name = "pgbed-wheels-py${pythonVersion}";
    outputHashMode = "recursive";
    outputHash = wheelHashes.${system}.${pythonVersion};
    impureEnvVars = lib.fetchers.proxyImpureEnvVars ++ [
      "PIP_CERT"
      "PIP_INDEX_URL"
    ];
    nativeBuildInputs = [
      python3
      cacert
    ];
    dontUnpack = true;
    dontFixup = true;
    installPhase = ''
      ${python3.interpreter} -m venv pip
      HOME=$PWD pip/bin/pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps \
        --only-binary=:all: --require-hashes --requirement ${lock} ${target} --dest "$out"
    '';
    meta.description = "The wheels of requirements.lock for Python ${pythonVersion}";
  };
in
stdenv.mkDerivation {
  name = "pgbed-python-${pythonVersion}";

  nativeBuildInputs = [
    python3
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

  # Byte code is checked against nothing: files in the store cannot change, and their times say nothing.
  installPhase = ''
    runHook preInstall
    ${python3.interpreter} -m venv pip
    ${python3.interpreter} -m venv --without-pip "$out"
    HOME=$PWD pip/bin/pip --python "$out/bin/python" install --quiet --disable-pip-version-check --no-deps --no-compile \
      --no-index --find-links ${wheels} --requirement ${lock}
    "$out/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$out/lib"
    runHook postInstall
  '';

  passthru = {
    inherit wheels pythonVersion;
  };
  meta = {
    description = "Python ${pythonVersion} with everything that pgbed and its tests import";
    mainProgram = "python";
  };
}
