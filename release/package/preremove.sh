#!/bin/sh
# Before a removal, which dpkg calls "remove" and rpm 0; not before an upgrade.
set -e
case "$1" in
remove | 0)
  if command -v systemctl >/dev/null; then
    systemctl --no-reload disable --now consul-hds.service || true # systemd may not run here
  fi
  ;;
esac
