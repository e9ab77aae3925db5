package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/replgate/replgate/proxy"
)

// withHolder adds to a bind error who holds the address, where that can be known:
// most often a gate that was started twice.
func withHolder(err error) error {
	bind, ok := errors.AsType[*proxy.BindError](err)
	if !ok || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if who := holder(bind.Address); who != "" {
		return fmt.Errorf("%w; it is held by %s: stop that, or change the address", err, who)
	}
	return err
}
