# shellcheck shell=bash
# Shared by the scripts beside it: source it, it runs nothing by itself.
set -euo pipefail

# The comment that a script begins with is its help, where it tells the usage.
help=$(sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0")
if [[ ${1:-} == --help && $help == *usage:* ]]; then
  printf '%s\n' "$help"
  exit
fi

unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Names that Debian 12 and 13 and Ubuntu 24.04 have in common. OpenCL is there because libdnnl-dev's
# CMake files look for it.
build_packages=(g++ cmake ninja-build ccache libdnnl-dev ocl-icd-opencl-dev libfmt-dev
  nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libjpeg-dev libpng-dev zlib1g-dev libbz2-dev libarchive-dev
  libprotobuf-dev protobuf-compiler libisal-dev libcurl4-openssl-dev libssl-dev libhwloc-dev pkgconf libgtest-dev)

mpi_packages=(openmpi-bin libopenmpi-dev)

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Installs those of the named packages that are missing; asks nothing, and touches apt only if one is.
install_packages() {
  command -v apt-get dpkg-query >/dev/null || {
    say "No apt-get here: going on in the hope that these are installed: $*"
    return
  }
  local missing=() package
  for package in "$@"; do is_installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0

  local as_root=(env)
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "run it as root, or install sudo: missing are ${missing[*]}"
    as_root=(sudo env)
  fi
  local apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  say "Installing ${missing[*]}"
  "${apt[@]}" update || say "The package lists could not all be renewed: trying with those at hand"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null ||
    die "apt-get could not install ${missing[*]}: its message above says why"
}

# install_wheels WHAT FOLDER PACKAGE...: from PyPI into a virtual environment, unless these are there.
# One that was interrupted begins anew.
install_wheels() {
  local what=$1 folder=$2
  shift 2
  [ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ] || return 0
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3 python3-venv ca-certificates
  say "Fetching $what from PyPI into $folder"
  python3 -m venv --clear "$folder" && "$folder/bin/pip" install -q "$@" ||
    die "pip could not fetch $what: its message above says why"
  echo "$*" > "$folder/installed"
}

# configure PRESET: unless it was since the presets or the system's packages changed. What CMake did not
# find may be there since, such as MPI.
configure() {
  local made=build/$1/build.ninja
  [[ ! ($made -nt CMakePresets.json && $made -nt /var/lib/dpkg/status) ]] || return 0
  say "Configuring the preset $1"
  cmake --preset "$1" >/dev/null || die "CMake could not configure the preset $1: its message above says why"
}

# build PRESET [ARGUMENT...]: configures, then compiles what changed; the arguments go to
# `cmake --build`.
build() {
  local preset=$1
  shift
  configure "$preset"
  say "Building in build/$preset"
  cmake --build --preset "$preset" "$@" || die "the build of the preset $preset failed: the compiler's message above says why"
}
