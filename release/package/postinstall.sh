#!/bin/sh
# After an install or an upgrade, of the deb and of the rpm. The daemon is neither
# started nor restarted: when that happens, node by node, is for the operator to say.
set -e
systemd-sysusers consul-hds.conf
if command -v systemctl >/dev/null; then
  systemctl daemon-reload || true # systemd may not run here, as in a container
fi
