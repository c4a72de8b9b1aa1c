// The oracle answers questions with upstream Kubernetes code, one JSON object per line.
//
//	in:  {"op": "quantity", "args": {"text": "1.5Gi"}}
//	out: {"result": {...}}  or  {"error": "..."}
//
// "error" means the question itself was not understood. What upstream says about a bad
// quantity or pod is part of "result". Each question lives in a file of its own.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type handler func(args json.RawMessage) (any, error)

var handlers = map[string]handler{}

// register makes an operation known under its name; each file does so for its own in init.
func register(op string, h handler) {
	if _, taken := handlers[op]; taken {
		panic("operation registered twice: " + op)
	}
	handlers[op] = h
}

type request struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// answer never panics: upstream code that does is itself an answer worth comparing.
func answer(line []byte) (out response) {
	defer func() {
		if p := recover(); p != nil {
			out = response{Error: fmt.Sprintf("panic: %v", p)}
		}
	}()
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return response{Error: err.Error()}
	}
	h, ok := handlers[req.Op]
	if !ok {
		return response{Error: "unknown operation: " + req.Op}
	}
	result, err := h(req.Args)
	if err != nil {
		return response{Error: err.Error()}
	}
	return response{Result: result}
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := enc.Encode(answer(line)); err != nil {
				fmt.Fprintln(os.Stderr, "oracle:", err)
				os.Exit(1)
			}
			// One flush per question keeps the dialogue simple; callers batch inside args.
			if err := out.Flush(); err != nil {
				os.Exit(1)
			}
		}
		if err != nil {
			return
		}
	}
}
