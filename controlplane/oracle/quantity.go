package main

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

func init() {
	register("quantities", quantities)
	register("arithmetic", arithmetic)
	register("json_quantities", jsonQuantities)
}

type quantityView struct {
	Text       string `json:"text"`
	Canonical  string `json:"canonical"`
	Format     string `json:"format"`
	Value      int64  `json:"value"`
	MilliValue int64  `json:"milliValue"`
	Int64      *int64 `json:"int64"`
	Sign       int    `json:"sign"`
	Milli      string `json:"milli"`
	MilliExact bool   `json:"milliExact"`
	Error      string `json:"error,omitempty"`
}

func canonical(q resource.Quantity) string {
	q = q.DeepCopy()
	number, suffix := q.CanonicalizeBytes(make([]byte, 0, 32))
	return string(number) + string(suffix)
}

func view(q resource.Quantity) quantityView {
	v := quantityView{
		Text:       q.String(),
		Canonical:  canonical(q),
		Format:     string(q.Format),
		Value:      q.Value(),
		MilliValue: q.MilliValue(),
		Sign:       q.Sign(),
	}
	if n, ok := q.AsInt64(); ok {
		v.Int64 = &n
	}
	rounded := q.DeepCopy()
	v.MilliExact = rounded.RoundUp(resource.Milli)
	v.Milli = rounded.String()
	return v
}

// quantities parses each text the way the API server does.
func quantities(args json.RawMessage) (any, error) {
	var in struct {
		Texts []string `json:"texts"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]quantityView, 0, len(in.Texts))
	for _, text := range in.Texts {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			out = append(out, quantityView{Error: err.Error()})
			continue
		}
		out = append(out, view(q))
	}
	return out, nil
}

// jsonQuantities decodes raw JSON values (strings, numbers, null) as a Quantity field would be.
func jsonQuantities(args json.RawMessage) (any, error) {
	var in struct {
		Values []string `json:"values"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]quantityView, 0, len(in.Values))
	for _, raw := range in.Values {
		var q resource.Quantity
		if err := q.UnmarshalJSON([]byte(raw)); err != nil {
			out = append(out, quantityView{Error: err.Error()})
			continue
		}
		out = append(out, view(q))
	}
	return out, nil
}

type arithmeticView struct {
	Sum        quantityView `json:"sum"`
	Difference quantityView `json:"difference"`
	Negative   quantityView `json:"negative"`
	Product    quantityView `json:"product"`
	ProductOK  bool         `json:"productOk"`
	Compare    int          `json:"compare"`
	Total      quantityView `json:"total"`
	Rounded    []string     `json:"rounded"`
}

// arithmetic takes triples "a b factor" and a list to sum from zero.
func arithmetic(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct {
			A, B   string
			Factor int64
			Scales []int32
		} `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]arithmeticView, 0, len(in.Cases))
	for _, c := range in.Cases {
		a, err := resource.ParseQuantity(c.A)
		if err != nil {
			return nil, err
		}
		b, err := resource.ParseQuantity(c.B)
		if err != nil {
			return nil, err
		}
		var v arithmeticView
		sum := a.DeepCopy()
		sum.Add(b.DeepCopy())
		v.Sum = view(sum)
		difference := a.DeepCopy()
		difference.Sub(b.DeepCopy())
		v.Difference = view(difference)
		negative := a.DeepCopy()
		negative.Neg()
		v.Negative = view(negative)
		product := a.DeepCopy()
		v.ProductOK = product.Mul(c.Factor)
		v.Product = view(product)
		left, right := a.DeepCopy(), b.DeepCopy()
		v.Compare = left.Cmp(right)
		var total resource.Quantity
		total.Add(a.DeepCopy())
		total.Add(b.DeepCopy())
		total.Add(a.DeepCopy())
		v.Total = view(total)
		for _, scale := range c.Scales {
			r := a.DeepCopy()
			exact := r.RoundUp(resource.Scale(scale))
			v.Rounded = append(v.Rounded, strings.Join([]string{r.String(), map[bool]string{true: "exact", false: "rounded"}[exact]}, " "))
		}
		out = append(out, v)
	}
	return out, nil
}
