// A sidecar and a client of AAQ's evaluator protocol, on upstream's generated code.
//
//	aaq-sidecar serve --sockets DIR --mode FILE   count pods with the label `label-app`
//	aaq-sidecar serve --config triple             the same, with the option of AAQ's example
//	aaq-sidecar ask --socket PATH                 ask about the pod on standard input, once
//	aaq-sidecar recount --socket PATH --calls N   ask as AAQ's controller does
//
// The sidecar behaves like one on libsidecar: the same names of sockets, server options and
// messages. The mode file says how it counts, or how it misbehaves; it is read for every call.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("serve, ask or recount is expected"))
	}
	commands := map[string]func([]string) error{"serve": serve, "ask": ask, "recount": recount}
	command, known := commands[os.Args[1]]
	if !known {
		fail(fmt.Errorf("unknown command %q", os.Args[1]))
	}
	if err := command(os.Args[2:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "aaq-sidecar:", err)
	os.Exit(1)
}
