# Archives from language registries, each by the registry's own client, so that the user's mirror and certificates
# apply; the hash says what is right.
{
  lib,
  stdenv,
  cacert,
  nodejs,
}:
let
  fetch =
    {
      name,
      hash,
      tool,
      command,
    }:
    stdenv.mkDerivation {
      inherit name;
      outputHash = hash;
      outputHashMode = "flat";
      nativeBuildInputs = [
        tool
        cacert
      ];
      impureEnvVars = lib.fetchers.proxyImpureEnvVars ++ [
        "MAVEN_ARGS"
        "MAVEN_OPTS"
        "NPM_CONFIG_REGISTRY"
        "PIP_CERT"
        "PIP_INDEX_URL"
      ];
      dontUnpack = true;
      dontFixup = true;
      # The clients want a home; the user's is not theirs inside a build.
      installPhase = ''
        export HOME=$PWD
        ${command}
        mv fetched/* "$out"
      '';
      meta.description = "The archive ${name} from its registry";
    };
in
{
  inherit fetch;

  # `@scope/name` becomes scope-name-VERSION.tgz, as npm calls the file.
  npm =
    {
      package,
      version,
      hash,
    }:
    fetch {
      inherit hash;
      name = "${builtins.replaceStrings [ "@" "/" ] [ "" "-" ] package}-${version}.tgz";
      tool = nodejs;
      command = ''
        mkdir fetched
        npm pack --loglevel=error --cache "$HOME/cache" --pack-destination fetched ${package}@${version}
      '';
    };
}
