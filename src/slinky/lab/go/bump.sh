#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes go.mod and go.sum for the versions named here.
# To take a new version: change it, run this, build, commit.
set -eu
cd "$(dirname "$0")"
export GOTOOLCHAIN=local GOFLAGS=-mod=mod

kubernetes=v1.36.4
storage_lib=v13.0.0 # its major version is also in the import path
coredns=v1.14.2 # what kubeadm of this Kubernetes deploys
jobset=v0.12.0
lws=v0.9.0
scheduler_plugins=v0.34.7
kwok=v0.8.0

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The modules whose packages go into Kubernetes' commands, each with the version in force.
used() {
  go list -deps -tags grpcnotrace \
    -f '{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}' \
    $(go list tool | grep '^k8s.io/kubernetes/') | sort -u
}

# Writes the replace lines anew.
replace() {
  awk '/^replace \(/ { skip = 1 } !skip { print } /^\)/ { skip = 0 }' go.mod |
    grep -v -e '^// Kubernetes asks for' -e '^// Held at' >"$tmp/go.mod"
  {
    cat "$tmp/go.mod"
    echo '// Kubernetes asks for its own libraries at v0.0.0, which nobody serves: v1.M.P pairs with v0.M.P.'
    echo 'replace ('
    awk -v version="v0${kubernetes#v1}" '{ print "\t" $1 " => " $1 " " version }' "$tmp/libraries"
    echo ')'
    echo '// Held at what Kubernetes was released with, though others ask for newer ones.'
    echo 'replace ('
    awk '{ print "\t" $1 " => " $1 " " $2 }' "$tmp/held"
    echo ')'
  } >go.mod
  go mod edit -fmt
}

gomod=$(go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/^\t"GoMod": "\(.*\)",/\1/p')
sed -n 's|^\t\([^ ]*\) v0.0.0$|\1|p' "$gomod" | sort -u >"$tmp/libraries"
sed -n 's|^\t\([^ ]*\) \(v[^ ]*\).*|\1 \2|p' "$gomod" | grep -v ' v0.0.0$' | sort -u >"$tmp/released"

go mod edit \
  -require="k8s.io/kubernetes@$kubernetes" \
  -require="sigs.k8s.io/sig-storage-lib-external-provisioner/v13@$storage_lib" \
  -require="github.com/coredns/coredns@$coredns" \
  -require="sigs.k8s.io/jobset@$jobset" \
  -require="sigs.k8s.io/lws@$lws" \
  -require="sigs.k8s.io/scheduler-plugins@$scheduler_plugins" \
  -require="sigs.k8s.io/kwok@$kwok"
: >"$tmp/held"
replace
for _ in 1 2; do # a held module may ask for others
  go mod tidy
  used >"$tmp/used"
  join "$tmp/released" "$tmp/used" | awk '$2 != $3 { print $1, $2 }' | sort -u - "$tmp/held" -o "$tmp/held"
  replace
done
go mod tidy
