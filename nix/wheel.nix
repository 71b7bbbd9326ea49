# A package made of one wheel of the Python package registry: programs that somebody else compiled.
{
  stdenv,
  callPackage,
  cacert,
  python3,
  unzip,
}:
let
  registry = callPackage ./registry.nix { };
in
# `project` is its name there; `installPhase` finds the wheel as $src.
{
  pname,
  version,
  project,
  platform,
  hash,
  installPhase,
  meta,
}:
stdenv.mkDerivation {
  inherit
    pname
    version
    installPhase
    meta
    ;
  src = registry.fetch {
    inherit hash;
    name = "${builtins.replaceStrings [ "-" ] [ "_" ] project}-${version}-${platform}.whl";
    tool = python3;
    command = ''
      ${python3.interpreter} -m venv pip
      pip/bin/pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --only-binary=:all: \
        --platform ${platform} --dest fetched ${project}==${version}
    '';
  };
  nativeBuildInputs = [
    cacert
    unzip
  ];
  dontUnpack = true;
  # As they came: they find their libraries from where they lie.
  dontStrip = true;
  dontPatchELF = true;
}
