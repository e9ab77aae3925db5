#!/bin/sh
# After removal and upgrade. The user stays, as users of services do: files of it
# may be left.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
