# shellcheck shell=bash
# fetch_wheels PIP LOCK PYTHON ARCHITECTURE FOLDER: the wheels that a lock names for one Python on one architecture.
# Both are spelled out, so that which wheel is taken does not depend on the pip or libc that fetch. Sourced.

fetch_wheels() {
  local pip=$1 lock=$2 python=$3 arch=$4 folder=$5 target abi glibc
  target=(--implementation cp --python-version "$python")
  for abi in "cp${python/./}" abi3 none; do target+=(--abi "$abi"); done
  for glibc in 2_28 2_27 2_26 2_24 2_17 2014; do
    case $glibc in
      2014) target+=(--platform "manylinux2014_$arch") ;;
      *) target+=(--platform "manylinux_${glibc}_$arch") ;;
    esac
  done
  "$pip" download --quiet --no-cache-dir --disable-pip-version-check --no-deps --only-binary=:all: \
    --require-hashes --requirement "$lock" "${target[@]}" --dest "$folder"
}
