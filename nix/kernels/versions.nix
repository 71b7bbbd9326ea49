# The kernels that guests can be booted with: label -> attribute of nixpkgs' linuxKernel.kernels, for each series that the
# pinned nixpkgs holds. The minor version is nixpkgs', and is part of every result: never write it here.
#
# `scheduler` is that of ordinary tasks, CFS to 6.5 and EEVDF from 6.6; `tunables` are what `--sched` can set of it. Both
# are for people who read this: the engine derives them from the release that it boots (engine/host/scheduler.py).
let
  cfs = [
    "latency_ns"
    "min_granularity_ns"
    "wakeup_granularity_ns"
    "migration_cost_ns"
    "nr_migrate"
    "autogroup_enabled"
  ];
  eevdf = [
    "base_slice_ns"
    "migration_cost_ns"
    "nr_migrate"
    "autogroup_enabled"
  ];
  of = scheduler: tunables: attribute: { inherit attribute scheduler tunables; };
in
{
  "5.10" = of "CFS" cfs "linux_5_10";
  "5.15" = of "CFS" cfs "linux_5_15";
  "6.1" = of "CFS" cfs "linux_6_1";
  "6.6" = of "EEVDF" eevdf "linux_6_6";
  "6.12" = of "EEVDF" eevdf "linux_6_12";
  "6.18" = of "EEVDF" eevdf "linux_6_18";
}
