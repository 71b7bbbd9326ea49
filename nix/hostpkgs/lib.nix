# The functions of nixpkgs' lib that the flake uses, with the same meaning.
rec {
  inherit (builtins)
    concatMap
    concatStringsSep
    elem
    filter
    head
    listToAttrs
    mapAttrs
    sort
    ;

  nameValuePair = name: value: { inherit name value; };
  genAttrs = names: f: listToAttrs (map (name: nameValuePair name (f name)) names);
  mapAttrsToList = f: attrs: map (name: f name attrs.${name}) (builtins.attrNames attrs);
  filterAttrs =
    keep: attrs: removeAttrs attrs (filter (name: !keep name attrs.${name}) (builtins.attrNames attrs));

  optional = condition: item: if condition then [ item ] else [ ];
  optionalAttrs = condition: attrs: if condition then attrs else { };

  versionAtLeast = version: other: builtins.compareVersions version other >= 0;

  removeSuffix =
    suffix: string:
    let
      length = builtins.stringLength string - builtins.stringLength suffix;
    in
    if length >= 0 && builtins.substring length (-1) string == suffix then
      builtins.substring 0 length string
    else
      string;

  removePrefix =
    prefix: string:
    let
      length = builtins.stringLength prefix;
    in
    if builtins.substring 0 length string == prefix then
      builtins.substring length (-1) string
    else
      string;

  escapeShellArg = arg: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString arg)}'";

  getExe = package: "${package}/bin/${package.meta.mainProgram}";

  fetchers.proxyImpureEnvVars = [
    "http_proxy"
    "https_proxy"
    "no_proxy"
  ];

  inherit (import ./modules.nix { inherit concatMap; })
    evalModules
    literalExpression
    mkEnableOption
    mkIf
    mkMerge
    mkOption
    types
    ;

  licenses.postgresql.spdxId = "PostgreSQL";
  sourceTypes.binaryNativeCode.isSource = false;
}
