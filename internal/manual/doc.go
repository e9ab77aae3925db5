// Package manual writes docs/CONFIGURATION.md, the page of the manual that lists
// every key. Names, types and defaults come from the schema of package configs,
// meanings from the comments of its annotated example: neither is written twice.
//
// It never loads a configuration, never writes a file, and knows no rule: rules are
// handed in as configs knows them. It stands beside cmd, which calls it for
// `replgate docs`; nothing on the way of a byte knows it.
package manual
