# Store copies of just those files that a derivation reads, so that an edit elsewhere does not rebuild it.
# (lib.fileset would say this better; Nix 2.8 is too old for it.)
#
#   sources { name = "pgbed-application"; keep = [ "engine" "workloads" ]; }
#
# `leave` lists paths within them that are left out.
{ lib }:
{
  name,
  keep,
  leave ? [ ],
}:
let
  root = toString ../.;
  within = path: builtins.substring (builtins.stringLength root + 1) (-1) path;
  topOf = path: lib.head (lib.splitString "/" (within path));
in
builtins.path {
  inherit name;
  path = ../.;
  filter =
    path: _:
    lib.elem (topOf (toString path)) keep
    && !(lib.elem (within (toString path)) leave)
    && baseNameOf path != "__pycache__";
}
