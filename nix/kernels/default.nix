# Every kernel of versions.nix that this nixpkgs has, as packages and as the catalogue that the application reads, and the
# programs that guests need. hostpkgs has neither: there the engine takes those of the machine's distribution.
#
#   packages   { kernel-6_12 = folder; guest-tools = folder; … }; a kernel's folder holds bzImage, lib/modules/RELEASE,
#              config and kernel.json
#   catalog    [ { label, version, provenance, drv, out } … ], JSON-able; `drv` and `out` as in postgres/default.nix
#   tools      the derivation of the programs; null over hostpkgs
{
  lib,
  runCommand,
  stdenv,
  linuxKernel ? null,
  qemu_kvm ? null,
  pkgsStatic ? null,
  e2fsprogs ? null,
  erofs-utils ? null,
}:
let
  available = linuxKernel != null && stdenv.hostPlatform.isx86_64;
  # A kernel that nixpkgs has removed is not there, or an error.
  isThere =
    attribute:
    (builtins.tryEval (
      linuxKernel.kernels ? ${attribute} && linuxKernel.kernels.${attribute} ? version
    )).value;
  versions = lib.filterAttrs (_: entry: available && isThere entry.attribute) (import ./versions.nix);
  # Of the platform, until it was the kernel's.
  imageOf = kernel: kernel.target or stdenv.hostPlatform.linux-kernel.target;

  folder =
    _: entry:
    let
      kernel = linuxKernel.kernels.${entry.attribute};
      # An output of its own since 2025; before, part of the only one.
      modules = lib.getOutput "modules" kernel;
      record = {
        package = "${entry.attribute} ${kernel.version}";
        inherit (entry) scheduler;
      };
    in
    runCommand "pgbed-kernel-${kernel.version}"
      {
        passthru = {
          inherit kernel;
          noProgram = true;
        };
        meta = {
          description = "Linux ${kernel.version} and its modules, for guests";
          license = lib.licenses.gpl2Only;
        };
      }
      ''
        mkdir -p $out/lib
        ln -s ${kernel}/${imageOf kernel} $out/bzImage
        ln -s ${modules}/lib/modules $out/lib/modules
        ln -s ${kernel.configfile} $out/config
        printf '%s' ${lib.escapeShellArg (builtins.toJSON record)} > $out/kernel.json
      '';
  kernels = lib.mapAttrs folder versions;
  attrOf = label: "kernel-" + builtins.replaceStrings [ "." ] [ "_" ] label;

  tools =
    if available then
      runCommand "pgbed-guest-tools"
        {
          meta = {
            description = "The programs that guests are made with";
            license = lib.licenses.gpl2Plus;
            mainProgram = "qemu-system-x86_64";
          };
        }
        ''
          mkdir -p $out/bin
          ln -s ${qemu_kvm}/bin/qemu-system-x86_64 ${pkgsStatic.busybox}/bin/busybox \
            ${lib.getBin e2fsprogs}/bin/mkfs.ext4 ${erofs-utils}/bin/mkfs.erofs $out/bin
        ''
    else
      null;
in
{
  inherit tools;
  packages =
    lib.listToAttrs (lib.mapAttrsToList (label: lib.nameValuePair (attrOf label)) kernels)
    // lib.optionalAttrs available { guest-tools = tools; };
  catalog = map (label: {
    inherit label;
    inherit (kernels.${label}.kernel) version;
    provenance = "nixpkgs";
    drv = builtins.unsafeDiscardOutputDependency kernels.${label}.drvPath;
    out = builtins.unsafeDiscardStringContext kernels.${label}.outPath;
  }) (lib.sort (one: other: builtins.compareVersions one other < 0) (builtins.attrNames kernels));
}
