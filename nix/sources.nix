# Store copies of just those files that a derivation reads, so that an edit elsewhere does not rebuild it.
# (lib.fileset would say this better; Nix 2.8 is too old for it.)
#
#   sources { name = "pgbed-application"; keep = [ "engine" "workloads" ]; }
{ lib }:
{ name, keep }:
let
  root = toString ../.;
  topOf =
    path:
    lib.head (lib.splitString "/" (builtins.substring (builtins.stringLength root + 1) (-1) path));
in
builtins.path {
  inherit name;
  path = ../.;
  filter = path: _: lib.elem (topOf (toString path)) keep && baseNameOf path != "__pycache__";
}
