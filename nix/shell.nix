# `nix develop`: the interpreter and tools of the checks, what the probes and the terminal's tests need, and servers for the
# tests. Nothing is compiled for it.
{
  lib,
  mkShell,
  bpftrace,
  python,
  testServers,
  tmux,
  packageSetName ? "nixpkgs",
}:
mkShell {
  # Over hostpkgs these are the machine's, if it has them: ./check installs them, and a shell does without.
  packages = [
    python.dev
  ]
  ++ lib.optionals (packageSetName == "nixpkgs") [
    bpftrace
    tmux
  ];
  PGBED_SERVERS = "${testServers.prebuilt}/servers";
  PGBED_CATALOG = "${testServers.prebuilt}/catalog.json";
  meta.description = "pgbed's Python with its test tools, bpftrace, and servers to test with";
}
