# The functions of nixpkgs' lib that the flake uses, with the same meaning.
rec {
  inherit (builtins)
    any
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

  concatMapStringsSep =
    separator: f: list:
    concatStringsSep separator (map f list);
  splitString = separator: string: filter builtins.isString (builtins.split separator string);

  optional = condition: item: if condition then [ item ] else [ ];
  optionalString = condition: text: if condition then text else "";
  optionals = condition: items: if condition then items else [ ];
  optionalAttrs = condition: attrs: if condition then attrs else { };

  versionAtLeast = version: other: builtins.compareVersions version other >= 0;

  escapeShellArg = arg: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString arg)}'";

  makeBinPath = packages: concatStringsSep ":" (map (package: "${package}/bin") packages);
  getBin = package: package;
  getDev = package: package;
  getExe = package: "${package}/bin/${package.meta.mainProgram}";

  fetchers.proxyImpureEnvVars = [
    "http_proxy"
    "https_proxy"
    "no_proxy"
  ];

  licenses = mapAttrs (_: spdxId: { inherit spdxId; }) {
    asl20 = "Apache-2.0";
    bsd3 = "BSD-3-Clause";
    gpl2Only = "GPL-2.0-only";
    gpl2Plus = "GPL-2.0-or-later";
    isc = "ISC";
    lgpl3Only = "LGPL-3.0-only";
    mit = "MIT";
    postgresql = "PostgreSQL";
    psfl = "Python-2.0";
  };
  sourceTypes.binaryNativeCode.isSource = false;
}
// import ./modules.nix
