package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
)

func init() {
	register("pods", pods)
}

// optionsIn mirrors resource.PodResourcesOptions, whose callback cannot be decoded.
type optionsIn struct {
	UseStatus         bool            `json:"useStatus"`
	UsePodLevelStatus bool            `json:"usePodLevelStatus"`
	ExcludeOverhead   bool            `json:"excludeOverhead"`
	NonMissing        v1.ResourceList `json:"nonMissing"`
	SkipPodLevel      bool            `json:"skipPodLevel"`
	SkipContainers    bool            `json:"skipContainers"`
}

func (in optionsIn) upstream() resource.PodResourcesOptions {
	return resource.PodResourcesOptions{
		UseStatusResources: in.UseStatus,
		InPlacePodLevelResourcesVerticalScalingEnabled: in.UsePodLevelStatus,
		ExcludeOverhead:             in.ExcludeOverhead,
		NonMissingContainerRequests: in.NonMissing,
		SkipPodLevelResources:       in.SkipPodLevel,
		SkipContainerLevelResources: in.SkipContainers,
	}
}

type resourcesView map[v1.ResourceName]quantityView

func viewResources(list v1.ResourceList) resourcesView {
	out := resourcesView{}
	for name, quantity := range list {
		out[name] = view(quantity)
	}
	return out
}

type requirementsView struct {
	Requests resourcesView `json:"requests"`
	Limits   resourcesView `json:"limits"`
}

func viewRequirements(r *v1.ResourceRequirements) *requirementsView {
	if r == nil {
		return nil
	}
	return &requirementsView{Requests: viewResources(r.Requests), Limits: viewResources(r.Limits)}
}

func viewContainers(containers []v1.Container) []*requirementsView {
	out := []*requirementsView{}
	for i := range containers {
		out = append(out, viewRequirements(&containers[i].Resources))
	}
	return out
}

type statusView struct {
	Resources *requirementsView `json:"resources"`
	Allocated resourcesView     `json:"allocated"`
}

func viewStatuses(statuses []v1.ContainerStatus) []statusView {
	out := []statusView{}
	for _, status := range statuses {
		out = append(out, statusView{
			Resources: viewRequirements(status.Resources),
			Allocated: viewResources(status.AllocatedResources),
		})
	}
	return out
}

// specView is every resource list of a pod's spec and status.
type specView struct {
	Containers      []*requirementsView `json:"containers"`
	InitContainers  []*requirementsView `json:"initContainers"`
	Ephemeral       []*requirementsView `json:"ephemeralContainers"`
	Resources       *requirementsView   `json:"resources"`
	Overhead        resourcesView       `json:"overhead"`
	Statuses        []statusView        `json:"containerStatuses"`
	InitStatuses    []statusView        `json:"initContainerStatuses"`
	StatusResources *requirementsView   `json:"statusResources"`
	StatusAllocated resourcesView       `json:"statusAllocated"`
}

func viewSpec(pod *v1.Pod) specView {
	out := specView{
		Containers:      viewContainers(pod.Spec.Containers),
		InitContainers:  viewContainers(pod.Spec.InitContainers),
		Ephemeral:       []*requirementsView{},
		Resources:       viewRequirements(pod.Spec.Resources),
		Overhead:        viewResources(pod.Spec.Overhead),
		Statuses:        viewStatuses(pod.Status.ContainerStatuses),
		InitStatuses:    viewStatuses(pod.Status.InitContainerStatuses),
		StatusResources: viewRequirements(pod.Status.Resources),
		StatusAllocated: viewResources(pod.Status.AllocatedResources),
	}
	for i := range pod.Spec.EphemeralContainers {
		resources := &pod.Spec.EphemeralContainers[i].EphemeralContainerCommon.Resources
		out.Ephemeral = append(out.Ephemeral, viewRequirements(resources))
	}
	return out
}

type demandView struct {
	Requests   resourcesView   `json:"requests"`
	Limits     resourcesView   `json:"limits"`
	LimitsSeen []resourcesView `json:"limitsSeen"`
}

// viewDemand copies the pod first: adding overhead may write into pod-level quantities.
func viewDemand(pod *v1.Pod, options optionsIn) demandView {
	opts := options.upstream()
	out := demandView{
		Requests:   viewResources(resource.PodRequests(pod.DeepCopy(), opts)),
		LimitsSeen: []resourcesView{},
	}
	opts.ContainerFn = func(list v1.ResourceList, _ resource.ContainerType) {
		out.LimitsSeen = append(out.LimitsSeen, viewResources(list))
	}
	out.Limits = viewResources(resource.PodLimits(pod.DeepCopy(), opts))
	return out
}

type podView struct {
	Spec   specView       `json:"spec"`
	QOS    v1.PodQOSClass `json:"qos"`
	Demand []demandView   `json:"demand"`
}

func viewPod(pod *v1.Pod, options []optionsIn) podView {
	out := podView{Spec: viewSpec(pod), QOS: qos.ComputePodQOS(pod.DeepCopy())}
	for _, o := range options {
		out.Demand = append(out.Demand, viewDemand(pod, o))
	}
	return out
}

// templated defaults the spec the way it is done inside a PodTemplate.
func templated(pod *v1.Pod) *v1.Pod {
	template := v1.PodTemplate{Template: v1.PodTemplateSpec{Spec: *pod.Spec.DeepCopy()}}
	corev1.SetObjectDefaults_PodTemplate(&template)
	return &v1.Pod{Spec: template.Template.Spec}
}

// pods shows each pod as written, as stored by the API server, and as stored in a template.
func pods(args json.RawMessage) (any, error) {
	var in struct {
		Pods    []v1.Pod    `json:"pods"`
		Options []optionsIn `json:"options"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := []map[string]any{}
	for i := range in.Pods {
		raw := &in.Pods[i]
		stored := raw.DeepCopy()
		corev1.SetObjectDefaults_Pod(stored)
		out = append(out, map[string]any{
			"raw":      viewPod(raw, in.Options),
			"stored":   viewPod(stored, in.Options),
			"template": viewSpec(templated(raw)),
		})
	}
	return out, nil
}
