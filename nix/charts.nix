# What draws the charts of reports in the browser: Observable Plot, and D3, which it is made of. Their text goes into the
# pages that bench writes.
{ stdenv, callPackage }:
let
  registry = callPackage ./registry.nix { };
  archives = {
    d3 = registry.npm {
      package = "d3";
      version = "7.9.2";
      hash = "sha256-8MHSwkeZB6bjJlNw0P1xX3rvD1Yc3StBXfOFun350ao=";
    };
    plot = registry.npm {
      package = "@observablehq/plot";
      version = "0.6.17";
      hash = "sha256-Tcyfev0Qyu6LIoPAB1pXZWEM+79tfZPNsVOztdNQGvw=";
    };
  };
in
stdenv.mkDerivation {
  pname = "pgbed-charts";
  version = "0.6.17";

  dontUnpack = true;
  installPhase = ''
    runHook preInstall
    mkdir -p "$out"
    tar -xzf ${archives.d3} --one-top-level=d3
    tar -xzf ${archives.plot} --one-top-level=plot
    cp d3/package/dist/d3.min.js plot/package/dist/plot.umd.min.js "$out"
    cp d3/package/LICENSE "$out/LICENSE.d3"
    cp plot/package/LICENSE "$out/LICENSE.plot"
    runHook postInstall
  '';

  meta = {
    description = "The scripts by which reports draw their charts";
    homepage = "https://observablehq.com/plot";
  };
}
