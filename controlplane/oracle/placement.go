package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func init() {
	register("placement", placement)
	register("placement_message", placementMessage)
	register("fit_error", fitError)
	register("kubelet_admission", kubeletAdmission)
}

// Scheduler metrics must exist before a framework runs, and may be registered only once.
var registerMetrics = sync.OnceFunc(metrics.Register)

// cluster is a set of nodes with the pods on them, and one pod that looks for a place.
type cluster struct {
	Nodes []struct {
		Node v1.Node  `json:"node"`
		Pods []v1.Pod `json:"pods"`
	} `json:"nodes"`
	Pod v1.Pod `json:"pod"`
}

// defaulted gives every pod what the API server would store, and puts assigned ones on their node.
func (c *cluster) defaulted() (nodes []*v1.Node, assigned []*v1.Pod) {
	corev1.SetObjectDefaults_Pod(&c.Pod)
	for i := range c.Nodes {
		node := &c.Nodes[i].Node
		nodes = append(nodes, node)
		for j := range c.Nodes[i].Pods {
			pod := &c.Nodes[i].Pods[j]
			corev1.SetObjectDefaults_Pod(pod)
			pod.Spec.NodeName = node.Name
			assigned = append(assigned, pod)
		}
	}
	return nodes, assigned
}

// devices is a cluster without devices in which some resource names belong to a device class.
type devices struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	names map[v1.ResourceName]bool
}

func (d devices) ResourceClaims() fwk.ResourceClaimTracker     { return d }
func (d devices) ResourceSlices() fwk.ResourceSliceLister      { return d }
func (d devices) DeviceClassResolver() fwk.DeviceClassResolver { return d }
func (d devices) List() ([]*resourceapi.ResourceClaim, error)  { return nil, nil }
func (d devices) GatherAllocatedState() (*structured.AllocatedState, error) {
	return &structured.AllocatedState{}, nil
}
func (d devices) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) { return nil, nil }
func (d devices) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	if !d.names[name] {
		return nil
	}
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "devices"}}
}

func devicesOf(names []string) devices {
	d := devices{names: map[v1.ResourceName]bool{}}
	for _, name := range names {
		d.names[v1.ResourceName(name)] = true
	}
	return d
}

type placementCase struct {
	cluster
	IgnoredResources      []string                 `json:"ignoredResources"`
	IgnoredResourceGroups []string                 `json:"ignoredResourceGroups"`
	DeviceResources       []string                 `json:"deviceResources"`
	Strategies            []config.ScoringStrategy `json:"strategies"`
	Balanced              []config.ResourceSpec    `json:"balanced"`
}

type vectorView struct {
	MilliCPU         int64                     `json:"milliCpu"`
	Memory           int64                     `json:"memory"`
	EphemeralStorage int64                     `json:"ephemeralStorage"`
	Pods             int64                     `json:"pods"`
	Scalars          map[v1.ResourceName]int64 `json:"scalars"`
}

func viewVector(r fwk.Resource) vectorView {
	view := vectorView{
		MilliCPU:         r.GetMilliCPU(),
		Memory:           r.GetMemory(),
		EphemeralStorage: r.GetEphemeralStorage(),
		Pods:             int64(r.GetAllowedPodNumber()),
		Scalars:          map[v1.ResourceName]int64{},
	}
	for name, amount := range r.GetScalarResources() {
		view.Scalars[name] = amount
	}
	return view
}

type placementView struct {
	Code         string                               `json:"code"`
	Reasons      []string                             `json:"reasons"`
	Insufficient []noderesources.InsufficientResource `json:"insufficient"`
	Allocatable  vectorView                           `json:"allocatable"`
	Requested    vectorView                           `json:"requested"`
	NonZero      vectorView                           `json:"nonZero"`
	Scores       []int64                              `json:"scores"`
	Balanced     *int64                               `json:"balanced"`
}

// placement filters and scores each node with the real plugins of the scheduler.
func placement(args json.RawMessage) (any, error) {
	var in struct {
		Cases []placementCase `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	registerMetrics()
	out := make([][]placementView, 0, len(in.Cases))
	for i := range in.Cases {
		views, err := place(&in.Cases[i])
		if err != nil {
			return nil, err
		}
		out = append(out, views)
	}
	return out, nil
}

func place(c *placementCase) ([]placementView, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nodes, assigned := c.defaulted()
	snapshot := cache.NewSnapshot(assigned, nodes)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedDRAManager(devicesOf(c.DeviceResources)))
	if err != nil {
		return nil, err
	}
	gates := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	views := make([]placementView, len(nodes))
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, node := range nodes {
		if infos[i], err = snapshot.Get(node.Name); err != nil {
			return nil, err
		}
		views[i].Allocatable = viewVector(infos[i].GetAllocatable())
		views[i].Requested = viewVector(infos[i].GetRequested())
		views[i].NonZero = viewVector(infos[i].GetNonZeroRequested())
		views[i].Insufficient = noderesources.Fits(&c.Pod, infos[i], nil, noderesources.ResourceRequestsOptions{
			EnablePodLevelResources:           gates.EnablePodLevelResources,
			EnableDRAExtendedResource:         gates.EnableDRAExtendedResource,
			EnableDRANodeAllocatableResources: gates.EnableDRANodeAllocatableResources,
		})
	}
	if err := filterNodes(ctx, c, handle, gates, infos, views); err != nil {
		return nil, err
	}
	for i := range c.Strategies {
		if err := scoreNodes(ctx, c, handle, gates, &c.Strategies[i], infos, views); err != nil {
			return nil, err
		}
	}
	return views, balanceNodes(ctx, c, handle, gates, infos, views)
}

func fitPlugin(ctx context.Context, c *placementCase, handle fwk.Handle, gates plfeature.Features, strategy *config.ScoringStrategy) (*noderesources.Fit, error) {
	plugin, err := noderesources.NewFit(ctx, &config.NodeResourcesFitArgs{
		IgnoredResources:      c.IgnoredResources,
		IgnoredResourceGroups: c.IgnoredResourceGroups,
		ScoringStrategy:       strategy,
	}, handle, gates)
	if err != nil {
		return nil, err
	}
	return plugin.(*noderesources.Fit), nil
}

func filterNodes(ctx context.Context, c *placementCase, handle fwk.Handle, gates plfeature.Features, infos []fwk.NodeInfo, views []placementView) error {
	fit, err := fitPlugin(ctx, c, handle, gates, &config.ScoringStrategy{Type: config.LeastAllocated})
	if err != nil {
		return err
	}
	state := framework.NewCycleState()
	if _, status := fit.PreFilter(ctx, state, &c.Pod, infos); !status.IsSuccess() {
		return status.AsError()
	}
	for i, info := range infos {
		status := fit.Filter(ctx, state, &c.Pod, info)
		views[i].Code = status.Code().String()
		if status != nil {
			views[i].Reasons = status.Reasons()
		}
	}
	return nil
}

func scoreNodes(ctx context.Context, c *placementCase, handle fwk.Handle, gates plfeature.Features, strategy *config.ScoringStrategy, infos []fwk.NodeInfo, views []placementView) error {
	fit, err := fitPlugin(ctx, c, handle, gates, strategy)
	if err != nil {
		return err
	}
	state := framework.NewCycleState()
	if status := fit.PreScore(ctx, state, &c.Pod, infos); !status.IsSuccess() {
		return status.AsError()
	}
	for i, info := range infos {
		score, status := fit.Score(ctx, state, &c.Pod, info)
		if !status.IsSuccess() {
			return status.AsError()
		}
		views[i].Scores = append(views[i].Scores, score)
	}
	return nil
}

// balanceNodes leaves the score out where the plugin skips the pod.
func balanceNodes(ctx context.Context, c *placementCase, handle fwk.Handle, gates plfeature.Features, infos []fwk.NodeInfo, views []placementView) error {
	plugin, err := noderesources.NewBalancedAllocation(ctx, &config.NodeResourcesBalancedAllocationArgs{Resources: c.Balanced}, handle, gates)
	if err != nil {
		return err
	}
	balanced := plugin.(*noderesources.BalancedAllocation)
	state := framework.NewCycleState()
	if status := balanced.PreScore(ctx, state, &c.Pod, infos); status.IsSkip() {
		return nil
	} else if !status.IsSuccess() {
		return status.AsError()
	}
	for i, info := range infos {
		score, status := balanced.Score(ctx, state, &c.Pod, info)
		if !status.IsSuccess() {
			return status.AsError()
		}
		views[i].Balanced = &score
	}
	return nil
}

// placementMessage runs one scheduling attempt with every plugin the scheduler has by default,
// up to and including preemption, and answers the text of the failure, or "" if a node fits.
func placementMessage(args json.RawMessage) (any, error) {
	var in struct {
		Cases []cluster `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	registerMetrics()
	out := make([]string, 0, len(in.Cases))
	for i := range in.Cases {
		text, err := attempt(&in.Cases[i])
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

func attempt(c *cluster) (string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nodes, assigned := c.defaulted()
	scheduler, infos, err := defaultFramework(ctx, c, nodes, assigned)
	if err != nil {
		return "", err
	}
	state := framework.NewCycleState()
	if _, status, _ := scheduler.RunPreFilterPlugins(ctx, state, &c.Pod); !status.IsSuccess() {
		return "", fmt.Errorf("prefilter: %s", status.Message())
	}
	failure := &framework.FitError{
		Pod:         &c.Pod,
		NumAllNodes: len(nodes),
		Diagnosis:   framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	}
	for _, info := range infos {
		status := scheduler.RunFilterPluginsWithNominatedPods(ctx, state, &c.Pod, info)
		if status.IsSuccess() {
			return "", nil
		}
		failure.Diagnosis.NodeToStatus.Set(info.Node().Name, status)
	}
	_, status := scheduler.RunPostFilterPlugins(ctx, state, &c.Pod, failure.Diagnosis.NodeToStatus)
	failure.Diagnosis.PostFilterMsg = status.Message()
	return failure.Error(), nil
}

// defaultFramework is the scheduler's default profile over a fixed set of objects. Victims are
// chosen but not deleted, since there is nobody to delete them from.
func defaultFramework(ctx context.Context, c *cluster, nodes []*v1.Node, assigned []*v1.Pod) (framework.Framework, []fwk.NodeInfo, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, nil, err
	}
	gates := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	registry := plugins.NewInTreeRegistry()
	registry[defaultpreemption.Name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := defaultpreemption.New(ctx, args, handle, gates)
		if err != nil {
			return nil, err
		}
		plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) error {
			return nil
		}
		return plugin, nil
	}
	client := fake.NewClientset()
	known := informers.NewSharedInformerFactory(client, 0)
	if err := known.Core().V1().Pods().Informer().GetStore().Add(&c.Pod); err != nil {
		return nil, nil, err
	}
	snapshot := cache.NewSnapshot(assigned, nodes)
	scheduler, err := frameworkruntime.NewFramework(ctx, registry, &defaults.Profiles[0],
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(known),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedDRAManager(devicesOf(nil)),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(known.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodNominator(internalqueue.NewSchedulingQueue(nil, known)),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		return nil, nil, err
	}
	infos, err := snapshot.NodeInfos().List()
	return scheduler, infos, err
}

// fitError renders the text of a failed attempt from the reasons of each node.
func fitError(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct {
			NodeCount  int                 `json:"nodeCount"`
			Nodes      map[string][]string `json:"nodes"`
			Absent     []string            `json:"absent"`
			PreFilter  string              `json:"preFilter"`
			PostFilter string              `json:"postFilter"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(in.Cases))
	for _, c := range in.Cases {
		statuses := map[string]*fwk.Status{}
		for name, reasons := range c.Nodes {
			statuses[name] = fwk.NewStatus(fwk.Unschedulable, reasons...)
		}
		failure := framework.FitError{
			NumAllNodes: c.NodeCount,
			Diagnosis: framework.Diagnosis{
				NodeToStatus:  framework.NewNodeToStatus(statuses, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.Absent...)),
				PreFilterMsg:  c.PreFilter,
				PostFilterMsg: c.PostFilter,
			},
		}
		out = append(out, failure.Error())
	}
	return out, nil
}

// resigned never makes room for a pod that was refused.
type resigned struct{}

func (resigned) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, reasons []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return reasons, nil
}

// kubeletAdmission asks the kubelet's own check whether the pod may start on the first node.
func kubeletAdmission(args json.RawMessage) (any, error) {
	var in struct {
		Cases []cluster `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, len(in.Cases))
	for i := range in.Cases {
		c := &in.Cases[i]
		nodes, assigned := c.defaulted()
		c.Pod.Spec.NodeName = nodes[0].Name
		handler := lifecycle.NewPredicateAdmitHandler(
			func(context.Context, bool) (*v1.Node, error) { return nodes[0], nil },
			resigned{},
			func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil },
		)
		result := handler.Admit(&lifecycle.PodAdmitAttributes{Pod: &c.Pod, OtherPods: assigned})
		out = append(out, map[string]any{"admit": result.Admit, "reason": result.Reason, "message": result.Message})
	}
	return out, nil
}
