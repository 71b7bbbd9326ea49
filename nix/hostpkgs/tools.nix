# Which of the machine's programs each package stands for. One that has none stands for libraries, which the machine's
# compiler and loader find by themselves.
{
  # What every build has, as nixpkgs' stdenv provides it.
  initialPath =
    "[ awk basename bash bunzip2 bzip2 cat chgrp chmod chown cmp comm cp cut date dd df diff"
    + " dirname du echo egrep env expand expr false fgrep find fold grep groups gunzip gzip head"
    + " id install join link ln ls make md5sum mkdir mkfifo mktemp mv nice nl nohup nproc od"
    + " paste patch printenv printf pwd readlink realpath rm rmdir sed seq sh sha256sum sleep"
    + " sort split stat stty sync tac tail tar tee test timeout touch tr true truncate tsort tty"
    + " uname uniq unlink unxz wc whoami xargs xz yes";
  apt = "apt-get";
  cc = "ar as c++ cc cpp g++ gcc ld nm objcopy objdump ranlib readelf size strings strip";
  bison = "bison";
  bpftrace = "bpftrace";
  cacert = "";
  ccache = "ccache";
  dpkg = "dpkg-deb";
  elfutils = "eu-stack";
  flex = "flex";
  glibc = "locale";
  icu = "";
  libsystemtap = "";
  liburing = "";
  lz4 = "";
  maven = "java mvn";
  meson = "meson";
  ninja = "ninja";
  nodejs = "node npm";
  numactl = "";
  patchelf = "patchelf";
  perl = "perl";
  pkg-config = "pkg-config";
  readline = "";
  rust = "cargo rustc";
  systemtap-sdt = "dtrace";
  tmux = "tmux";
  unzip = "unzip";
  xz = "xz";
  zlib = "";
  zstd = "";
}
