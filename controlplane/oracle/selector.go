package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

func init() {
	register("label_selectors", labelSelectors)
	register("selector_texts", selectorTexts)
	register("requirements", requirements)
}

type selectorView struct {
	Text    string `json:"text"`
	Empty   bool   `json:"empty"`
	Matches []bool `json:"matches"`
	Error   string `json:"error,omitempty"`
}

func viewSelector(s labels.Selector, err error, sets []map[string]string) selectorView {
	if err != nil {
		return selectorView{Error: err.Error()}
	}
	view := selectorView{Text: s.String(), Empty: s.Empty(), Matches: []bool{}}
	for _, set := range sets {
		view.Matches = append(view.Matches, s.Matches(labels.Set(set)))
	}
	return view
}

// labelSelectors reads selectors as they stand in API objects; null is one too.
func labelSelectors(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct {
			Selector *metav1.LabelSelector `json:"selector"`
			Labels   []map[string]string   `json:"labels"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]selectorView, 0, len(in.Cases))
	for _, c := range in.Cases {
		selector, err := metav1.LabelSelectorAsSelector(c.Selector)
		out = append(out, viewSelector(selector, err, c.Labels))
	}
	return out, nil
}

// selectorTexts reads selectors as `kubectl -l` takes them.
func selectorTexts(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct {
			Text   string              `json:"text"`
			Labels []map[string]string `json:"labels"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]selectorView, 0, len(in.Cases))
	for _, c := range in.Cases {
		selector, err := labels.Parse(c.Text)
		out = append(out, viewSelector(selector, err, c.Labels))
	}
	return out, nil
}

// requirements builds single requirements with any operator, known or not.
func requirements(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct {
			Key      string              `json:"key"`
			Operator string              `json:"operator"`
			Values   []string            `json:"values"`
			Labels   []map[string]string `json:"labels"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]selectorView, 0, len(in.Cases))
	for _, c := range in.Cases {
		requirement, err := labels.NewRequirement(c.Key, selection.Operator(c.Operator), c.Values)
		if err != nil {
			out = append(out, selectorView{Error: err.Error()})
			continue
		}
		out = append(out, viewSelector(labels.NewSelector().Add(*requirement), nil, c.Labels))
	}
	return out, nil
}
