# NixOS: a builder that takes the blocks of `bench farm`, and nothing beside one. See the options' descriptions.
{ config, lib, ... }:
let
  cfg = config.services.pgbed-farm-builder;
  machine = "pgbed-machine";
in
{
  options.services.pgbed-farm-builder = {
    enable = lib.mkEnableOption ''
      what makes this machine one of `bench farm`: Nix builds one thing at a time here, within its sandbox, and only what
      asks for {option}`services.pgbed-farm-builder.feature` or for no feature at all
    '';

    feature = lib.mkOption {
      type = lib.types.str;
      default = "benchmark";
      description = "The feature that this machine offers. Plans that ask for another one name it as `builder_feature`.";
    };

    name = lib.mkOption {
      type = lib.types.str;
      default = config.networking.hostName;
      defaultText = lib.literalExpression "config.networking.hostName";
      description = "Which machine it was, in records: blocks of one machine count as one in a comparison.";
    };

    authorizedKeys = lib.mkOption {
      type = lib.types.listOf lib.types.str;
      default = [ ];
      description = ''
        Public keys of ssh that may have blocks measured here, as the user `pgbed-farm`. Nix trusts that user, who could
        therefore become root: give them to those only who may.
      '';
    };

    cpus = lib.mkOption {
      type = lib.types.nullOr (
        lib.types.submodule {
          options = {
            measured = lib.mkOption {
              type = lib.types.str;
              example = "2-15";
              description = "CPUs on which blocks are measured.";
            };
            others = lib.mkOption {
              type = lib.types.str;
              example = "0-1";
              description = "CPUs of all other processes, and of interrupts.";
            };
          };
        }
      );
      default = null;
      example = {
        measured = "2-15";
        others = "0-1";
      };
      description = ''
        Which CPUs are set apart for blocks: Nix's daemon and what it builds have these to themselves, and the scheduler
        still balances among them, as it would not with `isolcpus`. Without it, blocks share all CPUs with the system.
      '';
    };
  };

  config = lib.mkIf cfg.enable (
    lib.mkMerge [
      {
        # A file, for Nix shows links to sandboxes as they are.
        environment.etc.${machine} = {
          text = cfg.name + "\n";
          mode = "0444";
        };
        nix.settings = {
          max-jobs = 1;
          sandbox = true;
          extra-sandbox-paths = [ "/etc/${machine}" ];
          system-features = [ cfg.feature ];
          trusted-users = [ "pgbed-farm" ];
        };
        services.openssh.enable = true;
        users.groups.pgbed-farm = { };
        users.users.pgbed-farm = {
          isSystemUser = true;
          group = "pgbed-farm";
          useDefaultShell = true;
          openssh.authorizedKeys.keys = cfg.authorizedKeys;
        };
      }

      (lib.mkIf (cfg.cpus != null) {
        boot.kernelParams = [ "irqaffinity=${cfg.cpus.others}" ];
        systemd.slices = {
          pgbed.sliceConfig.AllowedCPUs = cfg.cpus.measured;
        }
        // lib.genAttrs [ "system" "user" ] (_: {
          sliceConfig.AllowedCPUs = cfg.cpus.others;
        });
        # A slice beside the system's: within that one there are only the other CPUs.
        systemd.services.nix-daemon.serviceConfig.Slice = "pgbed.slice";
      })
    ]
  );
}
