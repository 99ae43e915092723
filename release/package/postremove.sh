#!/bin/sh
# After a removal or an upgrade. The user stays, as files may still belong to it.
set -e
if command -v systemctl >/dev/null; then
  systemctl daemon-reload || true # systemd may not run here
fi
