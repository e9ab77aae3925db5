package configs

import (
	"bytes"
	_ "embed"
)

//go:embed replgate.toml
var example []byte

// Example returns the annotated example configuration, replgate.toml.
func Example() []byte { return bytes.Clone(example) }
