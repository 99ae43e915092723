#!/usr/bin/env bash
# Runs the Connect sidecar of a service of the local Consul agent, with HDS: it
# takes the bootstrap that Consul makes and adds the daemon to it. The daemon
# knows the sidecar by its registration; hds.node_ids need not name it.
#
#   sidecar.sh web-1
#
# Change: add `-admin-bind 127.0.0.1:PORT` to `consul` for a second sidecar on one
# machine, and `-hds-addr` to `consul-hds` if the socket is not
# /run/consul-hds/hds.sock. Where the daemon has hds.auth = "consul", add
# `-reuse-token` to `consul-hds`: the token that `consul` takes from
# CONSUL_HTTP_TOKEN then goes to the daemon as well.
#
# Each run leaves a bootstrap in $TMPDIR, unless a unit with RuntimeDirectory= runs it.
set -euo pipefail
service=${1:?usage: sidecar.sh SERVICE-ID}

umask 077 # the bootstrap holds the ACL token
bootstrap=${RUNTIME_DIRECTORY:-$(mktemp -d)}/envoy.json
consul connect envoy -sidecar-for "$service" -bootstrap | consul-hds bootstrap >"$bootstrap"
exec envoy -c "$bootstrap" --use-dynamic-base-id
