package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func init() {
	register("yaml", yamlToJSON)
	register("manifest_streams", manifestStreams)
}

// yamlView holds JSON as text, so that the spelling of numbers can be compared too.
type yamlView struct {
	JSON   string `json:"json"`
	Error  string `json:"error,omitempty"`
	Strict string `json:"strict,omitempty"`
}

// yamlToJSON converts each text as one YAML document. "strict" is set to the complaint of the
// variant that refuses duplicate keys.
func yamlToJSON(args json.RawMessage) (any, error) {
	var in struct {
		Texts []string `json:"texts"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]yamlView, 0, len(in.Texts))
	for _, text := range in.Texts {
		var v yamlView
		converted, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			v.Error = err.Error()
		} else {
			v.JSON = string(converted)
		}
		if _, err := yaml.YAMLToJSONStrict([]byte(text)); err != nil {
			v.Strict = err.Error()
		}
		out = append(out, v)
	}
	return out, nil
}

type streamView struct {
	Documents []string `json:"documents"`
	Error     string   `json:"error,omitempty"`
}

// manifestStreams splits each text into documents as `kubectl -f` does and skips the empty ones.
func manifestStreams(args json.RawMessage) (any, error) {
	var in struct {
		Texts []string `json:"texts"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]streamView, 0, len(in.Texts))
	for _, text := range in.Texts {
		out = append(out, readStream(text))
	}
	return out, nil
}

func readStream(text string) streamView {
	v := streamView{Documents: []string{}}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return v
		}
		if err != nil {
			v.Error = err.Error()
			return v
		}
		raw := bytes.TrimSpace(document.Raw)
		if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
			v.Documents = append(v.Documents, string(raw))
		}
	}
}
