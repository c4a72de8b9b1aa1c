package main

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

func init() {
	register("names", resourceNames)
	register("problems", renderProblems)
	register("validate_pods", validatePods)
	register("validate_nodes", validateNodes)
	register("validate_resizes", validateResizes)
	register("validate_updates", validateUpdates)
}

type nameView struct {
	Native            bool     `json:"native"`
	PrefixedNative    bool     `json:"prefixedNative"`
	Extended          bool     `json:"extended"`
	HugePages         bool     `json:"hugePages"`
	AttachableVolume  bool     `json:"attachableVolume"`
	Integer           bool     `json:"integer"`
	OvercommitAllowed bool     `json:"overcommitAllowed"`
	Scalar            bool     `json:"scalar"`
	PodLevel          bool     `json:"podLevel"`
	Standard          bool     `json:"standard"`
	StandardContainer bool     `json:"standardContainer"`
	QualifiedErrors   []string `json:"qualifiedErrors"`
	LabelErrors       []string `json:"labelErrors"`
}

// resourceNames classifies each name with the functions validation, scheduler and kubelet call.
func resourceNames(args json.RawMessage) (any, error) {
	var in struct {
		Names []string `json:"names"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]nameView, 0, len(in.Names))
	for _, name := range in.Names {
		external, internal := v1.ResourceName(name), core.ResourceName(name)
		if v1helper.IsNativeResource(external) != helper.IsNativeResource(internal) ||
			v1helper.IsExtendedResourceName(external) != helper.IsExtendedResourceName(internal) {
			return nil, fmt.Errorf("upstream's two helper packages disagree about %q", name)
		}
		out = append(out, nameView{
			Native:            v1helper.IsNativeResource(external),
			PrefixedNative:    v1helper.IsPrefixedNativeResource(external),
			Extended:          v1helper.IsExtendedResourceName(external),
			HugePages:         v1helper.IsHugePageResourceName(external),
			AttachableVolume:  v1helper.IsAttachableVolumeResourceName(external),
			Integer:           helper.IsIntegerResourceName(internal),
			OvercommitAllowed: v1helper.IsOvercommitAllowed(external),
			Scalar:            schedutil.IsScalarResourceName(external),
			PodLevel:          resourcehelper.IsSupportedPodLevelResource(external),
			Standard:          helper.IsStandardResourceName(internal),
			StandardContainer: helper.IsStandardContainerResourceName(internal),
			QualifiedErrors:   append([]string{}, validation.IsQualifiedName(name)...),
			LabelErrors:       append([]string{}, validation.IsDNS1123Label(name)...),
		})
	}
	return out, nil
}

// renderProblems prints, for each text, an error about it as a plain string and as a resource
// name, one about all texts, one about each amount, and the whole as the answer to a client.
func renderProblems(args json.RawMessage) (any, error) {
	var in struct {
		Name    string   `json:"name"`
		Texts   []string `json:"texts"`
		Amounts []string `json:"amounts"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	path := field.NewPath("spec").Child("list")
	for _, text := range in.Texts {
		errs = append(errs,
			field.Invalid(path.Key(text), text, "bad"),
			field.NotFound(path, v1.ResourceName(text)),
			field.NotSupported(path, v1.ResourceName(text), []string{text, "b"}),
			field.Duplicate(path, text),
			field.Required(path, text),
			field.Forbidden(path.Index(0), text),
			field.Invalid(path, int64(len(text)), ""),
		)
	}
	errs = append(errs, field.Invalid(path, append([]string(nil), in.Texts...), "bad"))
	for _, amount := range in.Amounts {
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, err
		}
		errs = append(errs, field.Invalid(path, quantity, "bad"))
	}
	texts := make([]string, 0, len(errs))
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	whole := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, in.Name, errs)
	return map[string]any{"texts": texts, "whole": whole.Error()}, nil
}

type validationView struct {
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`
	Panic    string   `json:"panic,omitempty"`
}

// validated runs one validation; a panic becomes part of the view, as it is upstream's answer.
func validated(validate func() (field.ErrorList, []string)) (view validationView) {
	view = validationView{Errors: []string{}, Warnings: []string{}}
	defer func() {
		if p := recover(); p != nil {
			view.Panic = fmt.Sprint(p)
		}
	}()
	errs, warnings := validate()
	for _, err := range errs {
		view.Errors = append(view.Errors, err.Error())
	}
	view.Warnings = append(view.Warnings, warnings...)
	return view
}

// storedPod decodes a pod as the API server does: defaults, then the internal type.
func storedPod(raw json.RawMessage) (*core.Pod, error) {
	var external v1.Pod
	if err := json.Unmarshal(raw, &external); err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(&external)
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(&external, &internal, nil); err != nil {
		return nil, err
	}
	// An update without a version is refused before its resources are looked at.
	internal.ResourceVersion = "1"
	return &internal, nil
}

// podValidationOptions are those of the API server's storage strategies with default gates.
func podValidationOptions(newPod, oldPod *core.Pod) corevalidation.PodValidationOptions {
	var oldSpec *core.PodSpec
	var oldMeta *metav1.ObjectMeta
	if oldPod != nil {
		oldSpec, oldMeta = &oldPod.Spec, &oldPod.ObjectMeta
	}
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&newPod.Spec, oldSpec, &newPod.ObjectMeta, oldMeta)
	options.ResourceIsPod = true
	return options
}

// validatePods answers as for the creation of each pod.
func validatePods(args json.RawMessage) (any, error) {
	var in struct {
		Pods []json.RawMessage `json:"pods"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	ctx := context.Background()
	out := make([]validationView, 0, len(in.Pods))
	for _, raw := range in.Pods {
		pod, err := storedPod(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, validated(func() (field.ErrorList, []string) {
			options := podValidationOptions(pod, nil)
			return corevalidation.ValidatePodCreate(pod, options), podutil.GetWarningsForPod(ctx, pod, nil)
		}))
	}
	return out, nil
}

// validateNodes answers as for the creation of each node.
func validateNodes(args json.RawMessage) (any, error) {
	var in struct {
		Nodes []v1.Node `json:"nodes"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]validationView, 0, len(in.Nodes))
	for i := range in.Nodes {
		legacyscheme.Scheme.Default(&in.Nodes[i])
		var node core.Node
		if err := legacyscheme.Scheme.Convert(&in.Nodes[i], &node, nil); err != nil {
			return nil, err
		}
		out = append(out, validated(func() (field.ErrorList, []string) {
			return corevalidation.ValidateNode(&node), nil
		}))
	}
	return out, nil
}

type podPairs struct {
	Pairs []struct {
		Old json.RawMessage `json:"old"`
		New json.RawMessage `json:"new"`
	} `json:"pairs"`
}

func validatePairs(args json.RawMessage, validate func(newPod, oldPod *core.Pod) field.ErrorList) (any, error) {
	var in podPairs
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]validationView, 0, len(in.Pairs))
	for _, pair := range in.Pairs {
		oldPod, err := storedPod(pair.Old)
		if err != nil {
			return nil, err
		}
		newPod, err := storedPod(pair.New)
		if err != nil {
			return nil, err
		}
		out = append(out, validated(func() (field.ErrorList, []string) {
			return validate(newPod, oldPod), nil
		}))
	}
	return out, nil
}

// validateResizes answers as for an update of the resize subresource. Its storage strategy keeps
// the old status and metadata unless containers were added or removed; the rest of it restores
// fields in which the pairs asked about here do not differ.
func validateResizes(args json.RawMessage) (any, error) {
	return validatePairs(args, func(newPod, oldPod *core.Pod) field.ErrorList {
		if len(newPod.Spec.Containers) == len(oldPod.Spec.Containers) &&
			len(newPod.Spec.InitContainers) == len(oldPod.Spec.InitContainers) {
			newPod.Status = oldPod.Status
			newPod.ObjectMeta = oldPod.ObjectMeta
		}
		return corevalidation.ValidatePodResize(newPod, oldPod, podValidationOptions(newPod, oldPod))
	})
}

// validateUpdates answers as for an ordinary update of the pod.
func validateUpdates(args json.RawMessage) (any, error) {
	return validatePairs(args, func(newPod, oldPod *core.Pod) field.ErrorList {
		newPod.Status = oldPod.Status
		return corevalidation.ValidatePodUpdate(newPod, oldPod, podValidationOptions(newPod, oldPod))
	})
}
