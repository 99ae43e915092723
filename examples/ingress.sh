#!/usr/bin/env bash
# Registers and runs an ingress gateway that is a node Envoy as well: it probes
# for all instances of its node that have no sidecar. hds.node_ids of the daemon
# has to name it:
#
#   hds {
#     node_ids = ["ingress-gateway"]
#   }
#
#   ingress.sh 10.0.0.5:8888
#
# The address is that at which Consul checks the gateway. Which services it
# serves is said by its ingress-gateway config entry.
#
# Change: the name of the gateway, which is its node id too; `-hds-addr` of
# `consul-hds` if the socket is not /run/consul-hds/hds.sock. Where the daemon has
# hds.auth = "consul", add `-token-file FILE` to `consul-hds`, with a token that has
# service:write on all that is probed; or `-reuse-token`, if that of `consul` has it.
#
# Each run leaves a bootstrap in $TMPDIR, unless a unit with RuntimeDirectory= runs it.
set -euo pipefail
address=${1:?usage: ingress.sh IP:PORT}

umask 077 # the bootstrap holds the ACL token
bootstrap=${RUNTIME_DIRECTORY:-$(mktemp -d)}/envoy.json
consul connect envoy -gateway ingress -register -service ingress-gateway -address "$address" -bootstrap |
  consul-hds bootstrap >"$bootstrap"
exec envoy -c "$bootstrap" --use-dynamic-base-id
