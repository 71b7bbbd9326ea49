# `nix develop`: the interpreter and tools of the checks, what the probes and the terminal's tests need, and servers for the
# tests. Nothing is compiled for it.
{
  mkShell,
  bpftrace,
  python,
  testServers,
  tmux,
}:
mkShell {
  packages = [
    python.dev
    bpftrace
    tmux
  ];
  PGBED_SERVERS = "${testServers.prebuilt}/servers";
  PGBED_CATALOG = "${testServers.prebuilt}/catalog.json";
  meta.description = "pgbed's Python with its test tools, bpftrace, and servers to test with";
}
