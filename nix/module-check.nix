# What the NixOS module makes of a system, without the rest of NixOS: `lib.evalModules` over the options that it sets.
{
  lib,
  stdenv,
  runCommand,
  bench,
  module,
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
      environment.systemPackages = anything [ ];
      assertions = anything [ ];
      environment.sessionVariables = anything { };
      security.sudo.enable = anything true;
      security.sudo.extraRules = anything [ ];
      security.sudo-rs.enable = anything false;
      security.sudo-rs.extraRules = anything [ ];
      security.wrapperDir = anything "/run/wrappers/bin";
      security.wrappers = anything { };
      users.groups = anything { };
      virtualisation.containers.enable = anything false;
    };
  };

  evaluated = evaluatedWith { };

  evaluatedWith =
    other: bpftrace: settings:
    (lib.evalModules {
      modules = [
        nixos
        module
        { programs.pgbed = settings; }
        other
      ];
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
    touch $out
  ''
