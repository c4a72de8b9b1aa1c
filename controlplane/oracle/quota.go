package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	clocktesting "k8s.io/utils/clock/testing"
)

func init() {
	register("quota_pods", quotaPods)
	register("quota_names", quotaNames)
	register("quota_sums", quotaSums)
	register("quota_checks", quotaChecks)
	register("validate_quotas", validateQuotas)
}

// listedPods lists pods in the order given. The format of a sum is that of its first part, and
// the caches of client-go have no order.
type listedPods []v1.Pod

func (pods listedPods) List(labels.Selector) ([]runtime.Object, error) {
	out := []runtime.Object{}
	for i := range pods {
		out = append(out, pods[i].DeepCopy())
	}
	return out, nil
}

func (pods listedPods) Get(name string) (runtime.Object, error) {
	return nil, fmt.Errorf("nobody gets single pods: %s", name)
}

func (pods listedPods) ByNamespace(string) cache.GenericNamespaceLister {
	return pods
}

func podEvaluator(now time.Time, pods []v1.Pod) quota.Evaluator {
	lister := func(schema.GroupVersionResource) (cache.GenericLister, error) {
		return listedPods(pods), nil
	}
	return quotacore.NewPodEvaluator(lister, clocktesting.NewFakeClock(now))
}

type scopeView struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty"`
}

type quotaPodView struct {
	Usage  resourcesView `json:"usage"`
	Error  string        `json:"error,omitempty"`
	Scopes []scopeView   `json:"scopes"`
}

// quotaPods says what each pod uses at that time, and which of the rules hold for it one by one.
func quotaPods(args json.RawMessage) (any, error) {
	var in struct {
		Pods  []v1.Pod                               `json:"pods"`
		Now   time.Time                              `json:"now"`
		Rules []v1.ScopedResourceSelectorRequirement `json:"rules"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	evaluator := podEvaluator(in.Now, nil)
	out := []quotaPodView{}
	for i := range in.Pods {
		view := quotaPodView{Scopes: []scopeView{}}
		usage, err := evaluator.Usage(in.Pods[i].DeepCopy())
		if err != nil {
			view.Error = err.Error()
		}
		view.Usage = viewResources(usage)
		for _, rule := range in.Rules {
			matched, err := evaluator.MatchingScopes(&in.Pods[i], []v1.ScopedResourceSelectorRequirement{rule})
			scope := scopeView{Matches: len(matched) == 1}
			if err != nil {
				scope.Error = err.Error()
			}
			view.Scopes = append(view.Scopes, scope)
		}
		out = append(out, view)
	}
	return out, nil
}

// quotaNames says of each name whether the evaluator of pods counts it.
func quotaNames(args json.RawMessage) (any, error) {
	var in struct {
		Names []v1.ResourceName `json:"names"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	evaluator := podEvaluator(time.Time{}, nil)
	out := []bool{}
	for _, name := range in.Names {
		out = append(out, len(evaluator.MatchingResources([]v1.ResourceName{name})) > 0)
	}
	return out, nil
}

type usedView struct {
	Used  resourcesView `json:"used"`
	Error string        `json:"error,omitempty"`
}

// quotaSums recounts each quota over all the pods, as the controller of quotas does.
func quotaSums(args json.RawMessage) (any, error) {
	var in struct {
		Pods   []v1.Pod               `json:"pods"`
		Now    time.Time              `json:"now"`
		Quotas []v1.ResourceQuotaSpec `json:"quotas"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	registry := generic.NewRegistry([]quota.Evaluator{podEvaluator(in.Now, in.Pods)})
	out := []usedView{}
	for _, spec := range in.Quotas {
		used, err := quota.CalculateUsage("any", spec.Scopes, spec.Hard, registry, spec.ScopeSelector)
		view := usedView{Used: viewResources(used)}
		if err != nil {
			view.Error = err.Error()
		}
		out = append(out, view)
	}
	return out, nil
}

// undemanding lets pods pass that say nothing about a resource the quota limits.
type undemanding struct {
	quota.Evaluator
}

func (undemanding) Constraints([]v1.ResourceName, runtime.Object) error {
	return nil
}

type checkView struct {
	// Used is what each quota has in use after the pod, in order; absent if it is refused.
	Used  []resourcesView `json:"used"`
	Error string          `json:"error,omitempty"`
}

// quotaChecks asks of each pod whether all its quotas have room for it, as at its creation.
func quotaChecks(args json.RawMessage) (any, error) {
	var in struct {
		Now   time.Time `json:"now"`
		Group string    `json:"group"`
		// Strict refuses pods that do not state the cpu or memory a quota limits.
		Strict bool `json:"strict"`
		Checks []struct {
			Pod    v1.Pod             `json:"pod"`
			Quotas []v1.ResourceQuota `json:"quotas"`
		} `json:"checks"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	evaluator := podEvaluator(in.Now, nil)
	if !in.Strict {
		evaluator = undemanding{evaluator}
	}
	out := []checkView{}
	for i := range in.Checks {
		pod := &in.Checks[i].Pod
		attributes := admission.NewAttributesRecord(
			pod, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, pod.Namespace, pod.Name,
			schema.GroupVersionResource{Group: in.Group, Version: "v1", Resource: "pods"}, "",
			admission.Create, nil, false, nil,
		)
		after, err := resourcequota.CheckRequest(in.Checks[i].Quotas, attributes, evaluator, nil)
		var view checkView
		if err != nil {
			view.Error = err.Error()
		} else {
			view.Used = []resourcesView{}
			for _, each := range after {
				view.Used = append(view.Used, viewResources(each.Status.Used))
			}
		}
		out = append(out, view)
	}
	return out, nil
}

// validateQuotas answers as for the creation of each quota. Upstream walks a map for its errors,
// so they are sorted here.
func validateQuotas(args json.RawMessage) (any, error) {
	var in struct {
		Quotas []v1.ResourceQuota `json:"quotas"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := []validationView{}
	for i := range in.Quotas {
		legacyscheme.Scheme.Default(&in.Quotas[i])
		var internal core.ResourceQuota
		if err := legacyscheme.Scheme.Convert(&in.Quotas[i], &internal, nil); err != nil {
			return nil, err
		}
		view := validated(func() (field.ErrorList, []string) {
			return corevalidation.ValidateResourceQuota(&internal), nil
		})
		slices.Sort(view.Errors)
		out = append(out, view)
	}
	return out, nil
}
