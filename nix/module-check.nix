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
      environment.systemPackages = lib.mkOption {
        type = lib.types.listOf lib.types.raw;
        default = [ ];
      };
      environment.sessionVariables = anything { };
      security.sudo.extraRules = anything [ ];
      security.wrapperDir = anything "/run/wrappers/bin";
      security.wrappers = anything { };
      users.groups = anything { };
    };
  };

  evaluated =
    bpftrace: settings:
    (lib.evalModules {
      modules = [
        module
        nixos
        { programs.pgbed = settings; }
      ];
      specialArgs = {
        inherit lib;
        pkgs = {
          inherit stdenv;
          bpftrace = {
            type = "derivation";
            name = "bpftrace";
            outPath = "/bpftrace";
            version = bpftrace;
          };
        };
      };
    }).config;

  off = evaluated "0.27.1" { };
  new = evaluated "0.27.1" { enable = true; };
  scheduler = evaluated "0.27.1" {
    enable = true;
    group = "dba";
    serverProbes = false;
  };
  old = evaluated "0.24.1" { enable = true; };
  wrapper = new.security.wrappers.pgbed-probe-helper;
  variables = new.environment.sessionVariables;
  inherit (lib.head old.security.sudo.extraRules) groups commands;
  always = "cap_bpf,cap_perfmon,cap_dac_read_search,cap_dac_override";
in
assert off.environment.systemPackages == [ ] && off.security.wrappers == { };
assert off.security.sudo.extraRules == [ ] && off.users.groups == { };

assert map toString new.environment.systemPackages == map toString [ bench "/bpftrace" ];
assert new.users.groups ? pgbed && new.security.sudo.extraRules == [ ];
assert variables.PGBED_PROBE_HELPER == "/run/wrappers/bin/pgbed-probe-helper";
assert wrapper.capabilities == "${always},cap_sys_admin+ep";
assert wrapper.permissions == "u+rx,g+x" && wrapper.group == "pgbed";

assert scheduler.users.groups ? dba;
assert scheduler.security.wrappers.pgbed-probe-helper.capabilities == "${always}+ep";

assert old.security.wrappers == { } && old.environment.sessionVariables == { };
assert groups == [ "pgbed" ] && (lib.head commands).options == [ "NOPASSWD" ];

runCommand "pgbed-module" { meta.description = "The NixOS module is one, and starts the helper"; } ''
  # By its path alone, as the wrapper starts it, and as the engine asks sudo to. It says which arguments it lacks.
  for helper in "${wrapper.source}" "${lib.removeSuffix " *" (lib.head commands).command}"; do
    (unset PATH; exec $helper nonsense) > said 2>&1 || [ $? -eq 2 ]
    grep '^probes: helper: ' said
  done
  # What the rule permits is, word for word, what the engine asks sudo for.
  asked=$(PYTHONPATH=${bench}/lib/pgbed ${bench.python}/bin/python -P -c \
    'from probes.tracer import direct_command; print(*direct_command())')
  [ "$asked *" = "${(lib.head commands).command}" ]
  touch $out
''
