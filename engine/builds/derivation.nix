# A derivation made of another one that is in the store: with another source, further patches, other flags. The recipe,
# its compiler and libraries are those of the first one, to the byte; neither the flake nor nixpkgs is evaluated.
# `request` is a file that engine/builds/derivation.py writes.
{ request }:
let
  given = builtins.fromJSON (builtins.readFile request);

  # The source: a folder, of which only `files` count where they are named, or a released tarball.
  folderOf =
    { path, files }:
    let
      skipped = builtins.stringLength path + 1;
    in
    builtins.path {
      name = "source";
      path = /. + path;
      filter = file: _: files == null || files ? ${builtins.substring skipped (-1) file};
    };
  src =
    if given.folder != null then
      { src = folderOf given.folder; }
    else if given.tarball != null then
      { src = builtins.fetchurl given.tarball; }
    else
      { };

  added = map (
    patch:
    builtins.path {
      inherit (patch) name;
      path = /. + patch.path;
    }
  ) given.patches;
  patches =
    if added == [ ] then
      { }
    else
      { patches = builtins.concatStringsSep " " ([ given.env.patches ] ++ added); };
in
derivation (
  given.env
  // {
    inherit (given) args;
    # One string that knows what the others mention is enough: see the manual on string contexts.
    builder = builtins.appendContext given.env.builder given.context;
  }
  // src
  // patches
)
