package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

func init() {
	register("cel", celExpressions)
}

type celView struct {
	// Problem is what the type checker says; empty if the expression compiles.
	Problem string `json:"problem,omitempty"`
	// Type is what the type checker expects of the result.
	Type string `json:"type,omitempty"`
	// Error is why there is no value.
	Error string `json:"error,omitempty"`
	Value any    `json:"value,omitempty"`
}

// celExpressions evaluates expressions as a ValidatingAdmissionPolicy would, with the variables of
// a CountingPolicy.
func celExpressions(args json.RawMessage) (any, error) {
	var in struct {
		Expressions []string          `json:"expressions"`
		Object      json.RawMessage   `json:"object"`
		Native      map[string]string `json:"native"`
		Now         string            `json:"now"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	object, err := withIntegers(in.Object)
	if err != nil {
		return nil, err
	}
	now, err := time.Parse(time.RFC3339, in.Now)
	if err != nil {
		return nil, err
	}
	native := map[string]ref.Val{}
	for name, text := range in.Native {
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, err
		}
		native[name] = apiservercel.Quantity{Quantity: &amount}
	}
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType),
			cel.Variable("namespaceObject", cel.DynType),
			cel.Variable("native", cel.MapType(cel.StringType, apiservercel.QuantityType)),
			cel.Variable("now", cel.TimestampType),
		},
	})
	if err != nil {
		return nil, err
	}
	env := set.NewExpressionsEnv()
	values := map[string]any{
		"object": object, "namespaceObject": object, "native": native, "now": now,
	}
	out := make([]celView, 0, len(in.Expressions))
	for _, text := range in.Expressions {
		out = append(out, evaluated(env, text, values))
	}
	return out, nil
}

func evaluated(env *cel.Env, text string, values map[string]any) celView {
	ast, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		return celView{Problem: issues.String()}
	}
	view := celView{Type: ast.OutputType().String()}
	program, err := env.Program(ast)
	if err != nil {
		view.Error = err.Error()
		return view
	}
	value, _, err := program.Eval(values)
	if err != nil {
		view.Error = err.Error()
		return view
	}
	view.Value = typed(value)
	return view
}

// typed names the type beside the value, because JSON has fewer types.
func typed(value ref.Val) any {
	switch v := value.(type) {
	case types.Null:
		return map[string]any{"null": nil}
	case types.Bool:
		return map[string]any{"bool": bool(v)}
	case types.Int:
		return map[string]any{"int": int64(v)}
	case types.String:
		return map[string]any{"string": string(v)}
	case types.Timestamp:
		return map[string]any{"timestamp": []int64{v.Unix(), int64(v.Nanosecond())}}
	case types.Duration:
		return map[string]any{"duration": []int64{int64(v.Duration) / 1e9, int64(v.Duration) % 1e9}}
	case *types.Type:
		return map[string]any{"type": v.TypeName()}
	case apiservercel.Quantity:
		return map[string]any{"quantity": v.Quantity.String()}
	case *apiservercel.Quantity:
		return map[string]any{"quantity": v.Quantity.String()}
	case *types.Optional:
		if !v.HasValue() {
			return map[string]any{"none": true}
		}
		return map[string]any{"optional": typed(v.GetValue())}
	case traits.Mapper:
		entries := [][]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, []any{typed(key), typed(v.Get(key))})
		}
		return map[string]any{"map": entries}
	case traits.Lister:
		values := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			values = append(values, typed(it.Next()))
		}
		return map[string]any{"list": values}
	}
	return map[string]any{"other": fmt.Sprint(value.Type().TypeName())}
}

// withIntegers decodes whole numbers as the API server does for objects of any kind.
func withIntegers(body json.RawMessage) (any, error) {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	return integers(object), nil
}

func integers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, each := range v {
			v[key] = integers(each)
		}
	case []any:
		for i, each := range v {
			v[i] = integers(each)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}
