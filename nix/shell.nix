# `nix develop`: the interpreter and tools of the checks, and servers for the tests.
{
  mkShell,
  python,
  testServers,
}:
mkShell {
  packages = [ python ];
  PGBED_SERVERS = "${testServers}/servers";
  PGBED_CATALOG = "${testServers}/catalog.json";
  shellHook = ''
    export PATH=${python}/bin:$PATH
  '';
  meta.description = "pgbed's Python with its test tools, and servers to test with";
}
