# What draws flame graphs in the browser: the library d3-flame-graph in the version that nixpkgs' perf uses, and the one
# function of D3 that it wants beside it. Their text goes into the pages that bench writes.
{ stdenv, callPackage }:
let
  registry = callPackage ./registry.nix { };
  archives = {
    flameGraph = registry.npm {
      package = "d3-flame-graph";
      version = "4.1.3";
      hash = "sha256-W5/Vh5jarXUV224aIiTB2TnBFYT3naEIcG2945QjY8Q=";
    };
    selection = registry.npm {
      package = "d3-selection";
      version = "3.0.0";
      hash = "sha256-ofhy8w3KI7dt6JyunogvVsMlQz5/Ou6HuV+oMNEnifM=";
    };
  };
in
stdenv.mkDerivation {
  pname = "pgbed-flamegraph";
  version = "4.1.3";

  dontUnpack = true;
  installPhase = ''
    runHook preInstall
    mkdir -p "$out"
    tar -xzf ${archives.flameGraph} --one-top-level=flame-graph
    tar -xzf ${archives.selection} --one-top-level=selection
    cp flame-graph/package/dist/d3-flamegraph.min.js flame-graph/package/dist/d3-flamegraph-colorMapper.min.js \
      flame-graph/package/dist/d3-flamegraph.css selection/package/dist/d3-selection.min.js "$out"
    cp flame-graph/package/LICENSE "$out/LICENSE.d3-flame-graph"
    cp selection/package/LICENSE "$out/LICENSE.d3-selection"
    runHook postInstall
  '';

  meta = {
    description = "The scripts by which pages with flame graphs draw themselves";
    homepage = "https://github.com/spiermar/d3-flame-graph";
  };
}
