# A package made of one wheel of the Python package registry: programs that somebody else compiled. null where there is no
# wheel for this system.
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
# `project` is its name there, `wheels` has { version, platform, hash } by system, and `metaOf` is given the version;
# `installPhase` finds the wheel as $src.
{
  pname,
  project,
  wheels,
  installPhase,
  metaOf,
}:
let
  inherit (wheels.${stdenv.hostPlatform.system}) version platform hash;
in
if !(wheels ? ${stdenv.hostPlatform.system}) then
  null
else
  stdenv.mkDerivation {
    inherit pname version installPhase;
    meta = metaOf version;
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
