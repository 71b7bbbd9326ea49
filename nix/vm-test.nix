# The NixOS modules in virtual machines: what nix/module-check.nix cannot see of them, for want of a NixOS. Where the package
# set has one (hostpkgs has none).
{
  testers,
  module,
  servers,
  python,
}:
testers.runNixOSTest {
  name = "pgbed-vm";

  nodes.desk = {
    imports = [ module ];
    programs.pgbed = {
      enable = true;
      privilege = "sudo"; # which every bpftrace can do with
    };
    users.users.alice = {
      isNormalUser = true;
      extraGroups = [ "pgbed" ];
    };
    users.users.bob.isNormalUser = true;
    virtualisation = {
      cores = 2;
      memorySize = 2048;
      diskSize = 4096;
      additionalPaths = [ servers ];
    };
  };

  nodes.builder = {
    imports = [ ./farm-builder.nix ];
    services.pgbed-farm-builder = {
      enable = true;
      name = "first";
      cpus = {
        measured = "1";
        others = "0";
      };
    };
    virtualisation.cores = 2;
  };

  testScript = ''
    start_all()
    desk.wait_for_unit("multi-user.target")

    def as_user(name, command):
        return f"su --login {name} --command '{command}'"

    with subtest("everybody has bench, and only the group its probes"):
        assert desk.succeed(as_user("bob", "bench --version")).startswith("bench ")
        ask = "sudo --non-interactive $PGBED_PROBE_HELPER nonsense 2>&1"
        assert "probes: helper: " in desk.fail(as_user("alice", ask))
        assert "probes: helper: " not in desk.fail(as_user("bob", ask))

    with subtest("a run of a member is probed, and compared"):
        words = "--interleave cells --repeats 1 --steps l.i0 --rows 2000 --set shared_buffers=32MB --probes sched --plain"
        desk.succeed(as_user("alice", f"bench run --pg a=${servers}/servers/16.3-prebuilt --aa {words} --out runs"))
        assert "l.i0" in desk.succeed(as_user("alice", "bench compare --out runs"))
        count = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(\"select count(*) from probe_frame\").fetchone())"
        assert int(desk.succeed(f"${python}/bin/python -c '{count}' /home/alice/runs/*/journal.db")) > 0

    builder.wait_for_unit("multi-user.target")

    with subtest("a builder builds what asks for its feature, by its name, on its CPUs, and nothing of other features"):
        build = (
            # root would otherwise build beside the daemon, and its slice
            "NIX_REMOTE=daemon nix-build --no-out-link --option substitute false --expr 'derivation { name = \"x\"; "
            "system = builtins.currentSystem; builder = \"/bin/sh\"; requiredSystemFeatures = [ \"FEATURE\" ]; "
            "args = [ \"-c\" \"read name < /etc/pgbed-machine; while read key value; do case $key in Cpus_allowed_list:) "
            "echo $name $value > $out;; esac; done < /proc/self/status\" ]; }'"
        )
        assert builder.succeed("cat $(" + build.replace("FEATURE", "benchmark") + ")") == "first 1\n"
        assert "big-parallel" in builder.fail(build.replace("FEATURE", "big-parallel") + " 2>&1")
        builder.succeed("grep -x 'max-jobs = 1' /etc/nix/nix.conf")
        assert builder.succeed("cat /sys/fs/cgroup/system.slice/cpuset.cpus.effective").strip() == "0"
  '';
}
