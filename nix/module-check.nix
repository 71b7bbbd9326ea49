# What the NixOS modules make of a system, without the rest of NixOS: `lib.evalModules` over the options that it sets.
{
  lib,
  stdenv,
  runCommand,
  bench,
  module,
  vmTest,
}:
let
  anything =
    default:
    lib.mkOption {
      type = lib.types.raw;
      inherit default;
    };

  # As NixOS declares them, but for their types.
  nixos = {
    options = {
      boot.kernelParams = anything [ ];
      environment.etc = anything { };
      environment.systemPackages = anything [ ];
      networking.hostName = anything "host";
      nix.settings = anything { };
      services.openssh.enable = anything false;
      assertions = anything [ ];
      environment.sessionVariables = anything { };
      security.sudo.enable = anything true;
      security.sudo.extraRules = anything [ ];
      security.sudo-rs.enable = anything false;
      security.sudo-rs.extraRules = anything [ ];
      security.wrapperDir = anything "/run/wrappers/bin";
      security.wrappers = anything { };
      users.groups = anything { };
      users.users = anything { };
      virtualisation = anything { };
      systemd.services = anything { };
      systemd.slices = anything { };
    };
  };

  evaluated = bpftrace: settings: evaluatedWith { } bpftrace settings;

  evaluatedWith =
    other: bpftrace: settings:
    systemOf bpftrace [
      module
      { programs.pgbed = settings; }
      other
    ];

  systemOf =
    bpftrace: modules:
    (lib.evalModules {
      modules = [ nixos ] ++ modules;
      specialArgs = {
        inherit lib;
        pkgs = {
          inherit stdenv;
          writeScript =
            name: text:
            runCommand name { inherit text; } ''
              printf '%s' "$text" > $out
              chmod +x $out
            '';
          bpftrace = {
            type = "derivation";
            name = "bpftrace";
            outPath = "/bpftrace";
            version = bpftrace;
          };
        };
      };
    }).config;

  virtual = evaluatedWith { options.virtualisation.qemu = anything { }; } "0.27.1" { enable = true; };
  off = evaluated "0.27.1" { };
  new = evaluated "0.27.1" { enable = true; };
  scheduler = evaluated "0.27.1" {
    enable = true;
    group = "dba";
    serverProbes = false;
  };
  old = evaluated "0.24.1" { enable = true; };
  sudoless = evaluatedWith { security.sudo.enable = false; } "0.24.1" { enable = true; };
  sudo-rs = evaluatedWith {
    security.sudo.enable = false;
    security.sudo-rs.enable = true;
  } "0.24.1" { enable = true; };
  wrapper = new.security.wrappers.pgbed-probe-helper;
  variables = new.environment.sessionVariables;
  inherit (lib.head old.security.sudo.extraRules) groups commands;
  holds = system: builtins.all (one: one.assertion) system.assertions;
  builderOf =
    settings:
    systemOf "0.27.1" [
      ./farm-builder.nix
      { services.pgbed-farm-builder = settings; }
    ];
  shared = builderOf {
    enable = true;
    feature = "nvme";
    authorizedKeys = [ "key" ];
  };

  # The machines of the test that wants a NixOS, and its script.
  inherit
    (vmTest {
      testers.runNixOSTest = test: test;
    })
    nodes
    testScript
    ;
  nodeOf = node: systemOf "0.27.1" (node.imports ++ [ (removeAttrs node [ "imports" ]) ]);
  desk = nodeOf nodes.desk;
  builder = nodeOf nodes.builder;

  always = "cap_bpf,cap_perfmon,cap_dac_read_search,cap_dac_override";
in
assert off.environment.systemPackages == [ ] && off.security.wrappers == { };
assert off.security.sudo.extraRules == [ ] && off.users.groups == { };

assert
  map toString new.environment.systemPackages == map toString [
    bench
    "/bpftrace"
  ];
assert toString (lib.head virtual.environment.systemPackages) == toString bench.selfContained;
assert new.users.groups ? pgbed && new.security.sudo.extraRules == [ ];
assert variables.PGBED_PROBE_HELPER == "/run/wrappers/bin/pgbed-probe-helper";
assert wrapper.capabilities == "${always},cap_sys_admin+ep";
assert wrapper.permissions == "u+rx,g+x" && wrapper.group == "pgbed";

assert scheduler.users.groups ? dba;
assert scheduler.security.wrappers.pgbed-probe-helper.capabilities == "${always}+ep";

assert
  old.security.wrappers == { } && old.security.sudo-rs == old.security.sudo // { enable = false; };
assert old.environment.sessionVariables.PGBED_PROBE_HELPER == (lib.head commands).command;
assert groups == [ "pgbed" ] && (lib.head commands).options == [ "NOPASSWD" ];
assert holds old && holds new && !holds sudoless && holds sudo-rs;

assert (builderOf { }).nix.settings == { } && (builderOf { }).users.users == { };
assert
  shared.nix.settings == {
    max-jobs = 1;
    sandbox = true;
    extra-sandbox-paths = [ "/etc/pgbed-machine" ];
    system-features = [ "nvme" ];
    trusted-users = [ "pgbed-farm" ];
  };
assert shared.environment.etc.pgbed-machine.text == "host\n" && shared.services.openssh.enable;
assert shared.users.users.pgbed-farm.openssh.authorizedKeys.keys == [ "key" ];
assert shared.boot.kernelParams == [ ] && shared.systemd.slices == { };
assert builder.boot.kernelParams == [ "irqaffinity=0" ];
assert builder.systemd.services.nix-daemon.serviceConfig.Slice == "pgbed.slice";
assert
  map (name: builder.systemd.slices.${name}.sliceConfig.AllowedCPUs) [
    "pgbed"
    "system"
    "user"
  ] == [
    "1"
    "0"
    "0"
  ];
assert builder.nix.settings.system-features == [ "benchmark" ];
assert
  holds desk
  && desk.security.sudo.extraRules != [ ]
  && desk.users.users.alice.extraGroups == [ "pgbed" ];

runCommand "pgbed-module"
  {
    meta = {
      description = "The NixOS module is one, and starts the helper";
      license = lib.licenses.postgresql;
    };
  }
  ''
    # By its path alone, as the wrapper and sudo start it, with this system's bpftrace. It says which arguments it lacks.
    for helper in "${wrapper.source}" "${(lib.head commands).command}"; do
      (unset PATH; exec $helper nonsense) > output 2>&1 || [ $? -eq 2 ]
      grep '^probes: helper: ' output
      grep -F '"/bpftrace/bin/bpftrace"' $helper
    done
    # What the rule permits is, word for word, what the engine asks sudo for.
    asked=$(PGBED_PROBE_HELPER=${old.environment.sessionVariables.PGBED_PROBE_HELPER} PYTHONPATH=${bench}/lib/pgbed \
      ${bench.python}/bin/python -P -c 'from probes.tracer import direct_command; print(*direct_command())')
    [ "$asked" = "${(lib.head commands).command}" ]
    ${bench.python}/bin/python -c 'import sys; compile(sys.argv[1], "testScript", "exec")' ${lib.escapeShellArg testScript}
    touch $out
  ''
