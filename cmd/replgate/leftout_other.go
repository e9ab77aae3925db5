//go:build !linux

package main

import "runtime"

// leftOut says what this build does not do, because only Linux offers it.
func leftOut() []string {
	return []string{"this build for " + runtime.GOOS + " is for development: a peer that dies with data under way is noticed late, " +
		"since TCP_USER_TIMEOUT is Linux's; a stalled write has no figures of the kernel; errors do not name who holds a port"}
}
