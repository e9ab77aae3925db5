// Package deploy is what brings the program to a host: the script that makes a
// release, the systemd unit, packages, the container file. It has no code, only
// tests that hold flags, ports, paths, exit codes, metrics and environment names in
// those files against the program.
package deploy
