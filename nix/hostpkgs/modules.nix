# Of NixOS's module system what nix/module.nix and its check use, with the same meaning, but without types and texts,
# which nobody asks for here: each option has a default, and no more than one definition in effect. With nixpkgs the
# same check evaluates the module by the real one.
let
  inherit (builtins) concatMap head mapAttrs;

  # What a definition says of the option at `path`: a list of none, one or more values. A condition is asked only where
  # there is something to it, since it will ask for options itself.
  valuesAt =
    path: definition:
    if definition ? mergeOf then
      concatMap (valuesAt path) definition.mergeOf
    else if definition ? onlyIf then
      let
        found = valuesAt path definition.content;
      in
      if found != [ ] && definition.onlyIf then found else [ ]
    else if path == [ ] then
      [ definition ]
    else if definition ? ${head path} then
      valuesAt (builtins.tail path) definition.${head path}
    else
      [ ];

  update =
    one: other:
    one // mapAttrs (name: value: if one ? ${name} then update one.${name} value else value) other;

  settle =
    path: definitions: options:
    if options ? default then
      let
        values = concatMap (valuesAt path) definitions;
      in
      assert builtins.length values < 2;
      head (values ++ [ options.default ])
    else
      mapAttrs (name: settle (path ++ [ name ]) definitions) options;
in
{
  mkOption = option: option;
  mkEnableOption = _: { default = false; };
  mkIf = onlyIf: content: { inherit onlyIf content; };
  mkMerge = mergeOf: { inherit mergeOf; };

  evalModules =
    { modules, specialArgs }:
    let
      load =
        module:
        if builtins.isAttrs module then module else module (specialArgs // { inherit config options; });
      loaded = map load modules;
      options = builtins.foldl' update { } (map (module: module.options or { }) loaded);
      definitions = map (module: module.config or (removeAttrs module [ "options" ])) loaded;
      config = settle [ ] definitions options;
    in
    {
      inherit config;
    };
}
