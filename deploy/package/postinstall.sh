#!/bin/sh
# After install and upgrade, deb and rpm alike. It starts nothing: there is no
# configuration yet. It restarts nothing: that ends every link, and the time for
# it is the operator's choice; a running gate stays the old one until then.
set -e

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers replgate.conf
elif ! getent passwd replgate >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin replgate
fi
chown root:replgate /etc/replgate
chmod 0750 /etc/replgate

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
