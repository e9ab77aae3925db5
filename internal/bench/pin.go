//go:build linux

package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

func ownPID() int { return os.Getpid() }

// onThread runs do on a thread of its own, and that on the one processor of pinned
// cells when pinned is set.
func onThread(pinned bool, do func() error) error {
	if !pinned {
		return do()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	processor, err := strconv.Atoi(pinnedTo)
	if err == nil {
		err = unix.SchedGetaffinity(0, &before)
	}
	if err != nil {
		return err
	}
	one.Set(processor)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	return errors.Join(do(), unix.SchedSetaffinity(0, &before))
}
