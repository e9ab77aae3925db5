#!/bin/sh
# Before removal, not before an upgrade: deb says "upgrade" then, rpm says 1.
set -e

case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now replgate.service
	fi
	;;
esac
