# Of NixOS's module system what nix/module.nix uses, with the same meaning, but without types: with nixpkgs the same
# check evaluates the module by the real one.
{ concatMap }:
let
  inherit (builtins)
    all
    foldl'
    head
    isAttrs
    isFunction
    isList
    mapAttrs
    tail
    ;

  # What a definition says of the option at `path`: a list of none, one or more values. A condition is asked only where
  # there is something to it, since it will ask for options itself.
  said =
    path: definition:
    if definition._type or null == "if" then
      let
        found = said path definition.content;
      in
      if found != [ ] && definition.condition then found else [ ]
    else if definition._type or null == "merge" then
      concatMap (said path) definition.contents
    else if path == [ ] then
      [ definition ]
    else if definition ? ${head path} then
      said (tail path) definition.${head path}
    else
      [ ];

  update =
    one: other:
    if isAttrs one && isAttrs other && !(one ? outPath) then
      one // mapAttrs (name: value: if one ? ${name} then update one.${name} value else value) other
    else
      other;

  combined =
    values:
    if all isList values then builtins.concatLists values else foldl' update (head values) (tail values);

  settle =
    path: definitions: options:
    if options._type or null == "option" then
      let
        values = concatMap (said path) definitions;
      in
      if values == [ ] then options.default else combined values
    else
      mapAttrs (name: settle (path ++ [ name ]) definitions) options;
in
{
  mkOption = option: option // { _type = "option"; };
  mkEnableOption = _: {
    _type = "option";
    default = false;
  };
  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkMerge = contents: {
    _type = "merge";
    inherit contents;
  };
  literalExpression = text: text;
  types = {
    attrsOf = _: null;
    bool = null;
    enum = _: null;
    listOf = _: null;
    package = null;
    raw = null;
    str = null;
  };

  evalModules =
    { modules, specialArgs }:
    let
      load = module: if isFunction module then module (specialArgs // { inherit config; }) else module;
      loaded = map load modules;
      options = foldl' update { } (map (module: module.options or { }) loaded);
      definitions = map (module: module.config or (removeAttrs module [ "options" ])) loaded;
      config = settle [ ] definitions options;
    in
    {
      inherit config options;
    };
}
