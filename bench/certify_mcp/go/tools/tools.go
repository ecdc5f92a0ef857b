// Package tools has what the servers' two tools do. They read their arguments as most servers in Go do: with
// encoding/json, into a struct.
package tools

import (
	"encoding/json"
	"os"
)

// Named says each tool's name and description.
var Named = map[string]string{
	"echo":      "Gives back its text and path.",
	"forbidden": "A tool that the tests' policy does not permit.",
}

type arguments struct {
	Text    string            `json:"text"`
	Path    string            `json:"path"`
	Env     map[string]string `json:"env"`
	Options struct {
		Path string `json:"path"`
	} `json:"options"`
}

// Run writes what ran, and with which arguments, to the file that is the first argument of the process.
func Run(name string, raw []byte) (string, error) {
	var read arguments
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &read); err != nil {
			return "", err
		}
	}
	line, err := json.Marshal(map[string]any{"ran": name, "arguments": read})
	if err != nil {
		return "", err
	}
	file, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return read.Text + " " + read.Path, err
}

// Schema is the input schema of both tools: the second argument of the process.
func Schema() json.RawMessage { return json.RawMessage(os.Args[2]) }
