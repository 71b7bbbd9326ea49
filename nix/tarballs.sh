# shellcheck shell=bash
# For ./check over hostpkgs: puts the source of one server into the Nix store, for test-servers.nix to build. Sourced
# after machine.sh.
#
# Debian's source packages hold the released tarballs byte for byte. Where one of the pinned versions can be had from
# this machine's own package mirror it is taken from there, by a configuration of apt's that lives in a temporary
# folder; the machine's own is read and left alone. The hash in versions.nix decides what is used.

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The release of Debian whose PostgreSQL is of that version's major.
debian_release() {
  case $1 in
    13.*) echo bullseye ;;
    15.*) echo bookworm ;;
    17.*) echo trixie ;;
    18.*) echo forky ;;
    19*) echo experimental ;;
    *) return 1 ;;
  esac
}

# The mirror that this machine installs from.
package_mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' 'Created-By: Packages' \
    | awk '$1 == "main" && $2 !~ /[-\/]/ && !found { print $3; found = 1 }'
}

# debian_tarball VERSION FOLDER: leaves postgresql-VERSION.tar.bz2 in the folder, or fails with the reason in $why.
debian_tarball() {
  local version=$1 folder=$2 release mirror private name signed= upstream
  # As Debian spells it, so that 19~rc1 comes before 19.0.
  upstream=$(sed -E 's/(alpha|beta|rc)/~&/' <<< "$version")
  name=postgresql-${upstream%%[.~]*}
  release=$(debian_release "$version") || { why="no release of Debian has PostgreSQL $version"; return 1; }
  command -v apt-get > /dev/null || { why="there is no apt-get here"; return 1; }
  mirror=$(package_mirror)
  [ -n "$mirror" ] || { why="apt has no package mirror here"; return 1; }
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  [ ! -e "$debian_keyring" ] || signed="[signed-by=$debian_keyring] "
  printf 'deb-src %s%s %s main\n' "$signed" "$mirror" "$release" > "$folder/sources.list"
  private=(-qq -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache"
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2 -o APT::Update::Error-Mode=any)
  apt-get "${private[@]}" update > "$folder/apt.log" 2>&1 \
    || { why="the package mirror of this machine has no sources of Debian's $release"; return 1; }
  # Asked first, so that no other version is fetched in vain.
  (cd "$folder" && apt-get "${private[@]}" source --print-uris --tar-only "$name" 2>&1) > "$folder/uris" || true
  grep -F "/${name}_${upstream//\~/%7e}.orig.tar.bz2'" "$folder/uris" > /dev/null \
    || { why="Debian's $release has another minor version than $version by now"; return 1; }
  (cd "$folder" && apt-get "${private[@]}" source --download-only --tar-only "$name") > "$folder/apt.log" 2>&1 \
    || { why="PostgreSQL $version could not be fetched from the package mirror of this machine"; return 1; }
  mv "$folder/${name}_$upstream.orig.tar.bz2" "$folder/postgresql-$version.tar.bz2"
}

# at_hand VERSION PATH: puts the tarball into the store from BENCH_TARBALLS or from Debian, unless it is there.
at_hand() {
  local version=$1 path=$2 file=${BENCH_TARBALLS:-/nonexistent}/postgresql-$1.tar.bz2 folder added
  [ ! -e "$path" ] || return 0
  folder=$(mktemp -d)
  if [ ! -e "$file" ]; then
    say "fetching the source of PostgreSQL $version from Debian, for a server that is compiled here"
    file=$folder/postgresql-$version.tar.bz2
    debian_tarball "$version" "$folder" || { rm -r "$folder"; return 1; }
  fi
  added=$(nix-store --add-fixed sha256 "$file")
  rm -r "$folder"
  [ "$added" = "$path" ] || { why="$file is not the file that versions.nix pins"; return 1; }
  # A link of before, without this server, would be taken for up to date.
  rm -f "$root"/.bench/*/test-servers
}

# need_source_server: sees to it that one of the sources that test-servers.nix asks for is in the store. Where none can
# be had the tests do without, and $no_source says why.
need_source_server() {
  local wanted=() reasons=() line why
  no_source=
  [ "$PGBED_PACKAGE_SET" = hostpkgs ] || return 0 # nixpkgs fetches by itself
  mapfile -t wanted < <(nix eval "${nix_options[@]}" --quiet --quiet --quiet --raw "$flake#test-servers.tarballs")
  for line in "${wanted[@]}"; do
    why=
    at_hand "${line%% *}" "${line#* }" && return 0
    reasons+=("$why")
  done
  no_source=$(IFS=';' && echo "${reasons[*]:-the flake could not be asked which}")
}

# need_newest_server: the server of the next major version, which no language registry has yet, from Debian. Where it
# cannot be had the tests do without, and $no_newest says so.
need_newest_server() {
  no_newest=
  [ "$PGBED_PACKAGE_SET" = hostpkgs ] || return 0
  # Its packages, too, which may have been removed from the store: the test servers look whether they are there.
  nix build "${nix_options[@]}" --quiet --quiet --quiet --no-link "$flake#postgresql-19rc1-prebuilt"{,.src} 2> /dev/null \
    || no_newest="Debian's packages of it cannot be fetched"
}
