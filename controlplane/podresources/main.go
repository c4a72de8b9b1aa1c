// podresources speaks kubelet's PodResources API from both ends, with upstream's own code.
//
//	podresources serve -socket /tmp/x/kubelet.sock   kubelet's server, with contents made up by tests
//	podresources ask                                 the clients that read such a socket
//
// Both hold a dialogue of one JSON object per line and end when their input ends:
//
//	in:  {"op": "replace", "args": {...}}
//	out: {"result": {...}}  or  {"error": "..."}
//
// "error" means the question itself was not understood. What a server says about a call is part
// of "result".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type handler func(args json.RawMessage) (any, error)

type question struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"`
}

type answer struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// talk answers questions until there are no more. It greets first: the other side may begin.
func talk(handlers map[string]handler) error {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(answer{Result: "ready"}); err != nil {
		return err
	}
	for {
		line, ending := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := out.Encode(reply(handlers, line)); err != nil {
				return err
			}
		}
		if ending == io.EOF {
			return nil
		}
		if ending != nil {
			return ending
		}
	}
}

func reply(handlers map[string]handler, line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	handle, known := handlers[asked.Op]
	if !known {
		return answer{Error: "unknown operation: " + asked.Op}
	}
	result, err := handle(asked.Args)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Result: result}
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "podresources: serve or ask?")
		os.Exit(2)
	}
	var err error
	switch os.Args[1] {
	case "serve":
		err = serve(os.Args[2:])
	case "ask":
		err = talk(questions)
	default:
		err = fmt.Errorf("neither serve nor ask: %s", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podresources:", err)
		os.Exit(1)
	}
}
