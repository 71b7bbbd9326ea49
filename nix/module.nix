# NixOS: `bench` for all, and for the members of one group the probes, without root. See the options' descriptions.
{ benchOf }:
{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  cfg = config.programs.pgbed;
  name = "pgbed-probe-helper";

  # With this system's bpftrace in it, which no caller can change.
  helper = pkgs.writeScript name (cfg.package.probeHelper cfg.package "${cfg.bpftrace}/bin/bpftrace");

  # What the arguments may be, the helper judges.
  rules = [
    {
      groups = [ cfg.group ];
      runAs = "root";
      commands = [
        {
          command = "${helper}";
          options = [ "NOPASSWD" ];
        }
      ];
    }
  ];

  capabilities = [
    "cap_bpf"
    "cap_perfmon"
    # To read the tracing file system, which is root's; bpftrace asks for both.
    "cap_dac_read_search"
    "cap_dac_override"
  ]
  ++ lib.optional cfg.serverProbes "cap_sys_admin";
in
{
  options.programs.pgbed = {
    enable = lib.mkEnableOption ''
      pgbed, which compares PostgreSQL servers. Every user gets `bench`. Members of the group
      {option}`programs.pgbed.group` may watch their own servers with its probes: they may start the probe helper,
      which runs bpftrace with pgbed's own scripts, over processes of the caller's, and nothing else
    '';

    package = lib.mkOption {
      type = lib.types.package;
      default =
        let
          bench = benchOf pkgs.stdenv.hostPlatform.system;
        in
        # A virtual machine's store is packed: what a derivation makes would have to be there, too.
        if options.virtualisation ? qemu then bench.selfContained else bench;
      defaultText = lib.literalExpression "the package `bench` of pgbed's flake, in virtual machines `bench.selfContained`";
      description = ''
        The application. Images, and all else that packs the closure of a system, take `bench.selfContained`: it compares
        servers that are there, and builds none.
      '';
    };

    bpftrace = lib.mkOption {
      type = lib.types.package;
      default = pkgs.bpftrace;
      defaultText = lib.literalExpression "pkgs.bpftrace";
      description = "The bpftrace that runs the probes.";
    };

    group = lib.mkOption {
      type = lib.types.str;
      default = "pgbed";
      description = "Who may use the probes. The group is made.";
    };

    privilege = lib.mkOption {
      type = lib.types.enum [
        "capabilities"
        "sudo"
      ];
      default = if lib.versionAtLeast cfg.bpftrace.version "0.25" then "capabilities" else "sudo";
      defaultText = lib.literalExpression "what the version of bpftrace can do: capabilities from 0.25 on";
      description = ''
        How the probe helper comes by its privilege. `capabilities`: a wrapper gives it a few capabilities, which
        bpftrace inherits; neither is ever root. `sudo`: a rule lets the group run exactly the helper as root without a
        password; older versions of bpftrace want that.
      '';
    };

    serverProbes = lib.mkOption {
      type = lib.types.bool;
      default = true;
      description = ''
        Whether the capabilities are to include CAP_SYS_ADMIN. Kernels since 6.16, and older ones with the fixes of
        July 2025, ask for it to attach to the functions of a server: planner, phases and endpoint. The probes of the
        scheduler and of stacks do without.
      '';
    };
  };

  config = lib.mkIf cfg.enable (
    lib.mkMerge [
      {
        environment.systemPackages = [
          cfg.package
          cfg.bpftrace
        ];
        users.groups.${cfg.group} = { };
      }

      (lib.mkIf (cfg.privilege == "capabilities") {
        security.wrappers.${name} = {
          owner = "root";
          inherit (cfg) group;
          permissions = "u+rx,g+x";
          capabilities = lib.concatStringsSep "," capabilities + "+ep";
          source = "${helper}";
        };
        environment.sessionVariables.PGBED_PROBE_HELPER = "${config.security.wrapperDir}/${name}";
      })

      (lib.mkIf (cfg.privilege == "sudo") {
        assertions = [
          {
            assertion = config.security.sudo.enable || config.security.sudo-rs.enable;
            message = ''
              programs.pgbed.privilege is "sudo", which bpftrace ${cfg.bpftrace.version} needs, but neither
              security.sudo nor security.sudo-rs is enabled: enable one, or use a bpftrace of 0.25 or later.
            '';
          }
        ];
        # Each of the two reads only its own.
        security.sudo.extraRules = rules;
        security.sudo-rs.extraRules = rules;
        environment.sessionVariables.PGBED_PROBE_HELPER = "${helper}";
      })
    ]
  );
}
