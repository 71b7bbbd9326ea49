# The packages of one of Debian's servers and of the libraries that it was made for, which are newer than the machine's:
# one archive, fetched by apt from the mirror that this machine installs from. The hash says what is right; what Debian
# has replaced by newer packages since can no longer be fetched.
{
  lib,
  callPackage,
  apt,
}:
let
  registry = callPackage ../registry.nix { };

  # The C library among them: a server that is linked against a newer one does not start with the machine's.
  libraries = [
    "libaudit1"
    "libc6"
    "libcap-ng0"
    "libcom-err2"
    "libgcc-s1"
    "libgssapi-krb5-2"
    "libicu78"
    "libk5crypto3"
    "libkeyutils1"
    "libkrb5-3"
    "libkrb5support0"
    "libldap2"
    "liblz4-1"
    "libnuma1"
    "libpam0g"
    "libpq5"
    "libsasl2-2"
    "libssl3t64"
    "libstdc++6"
    "libsystemd0"
    "liburing2"
    "libxml2-16"
    "libxxhash0"
    "libzstd1"
    "zlib1g"
  ];
in
# `release` is Debian's version of the package, such as 19~rc1-1.
{
  version,
  release,
  hash,
}:
let
  package = "postgresql-${lib.head (lib.splitString "~" release)}";
  archive = registry.fetch {
    inherit hash;
    name = "postgresql-${version}-debian.tar";
    tool = apt;
    command = ''
      mirror=$(apt-get indextargets --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' 'Created-By: Packages' \
        | awk '$1 == "main" && $2 !~ /[-\/]/ && !found { print $3; found = 1 }')
      [ -n "$mirror" ] || { echo "apt has no package mirror here"; exit 1; }
      mkdir -p lists/partial cache/archives/partial fetched packages
      for suite in sid experimental; do echo "deb [trusted=yes] $mirror $suite main"; done > sources.list
      touch status
      own="-qq -o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$PWD/lists
        -o Dir::State::status=$PWD/status -o Dir::Cache=$PWD/cache -o APT::Sandbox::User= -o Acquire::Languages=none"
      apt-get $own update || { echo "the package mirror of this machine has no $package"; exit 1; }
      cd packages
      apt-get $own download ${package}=${release} ${toString libraries} \
        || { echo "Debian has another version than ${release} of ${package} by now"; exit 1; }
      tar --mtime=@1 --owner=0 --group=0 --numeric-owner --mode=644 -cf ../fetched/archive.tar *.deb
      cd ..
    '';
  };
in
archive
// {
  atHand =
    builtins ? currentSystem
    && builtins.pathExists (builtins.unsafeDiscardStringContext archive.outPath);
}
