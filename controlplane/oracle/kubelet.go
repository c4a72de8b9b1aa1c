package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corev1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	corev1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/nodestatus"
	kubeletqos "k8s.io/kubernetes/pkg/kubelet/qos"
)

func init() {
	register("percents", percents)
	register("floats", floats)
	register("cpu_numbers", cpuNumbers)
	register("cpu_weights", cpuWeights)
	register("shares_from_weights", sharesFromWeights)
	register("page_sizes", pageSizes)
	register("cgroup_names", cgroupNames)
	register("pod_cgroups", podCgroups)
	register("eviction_thresholds", evictionThresholds)
	register("default_eviction_hard", defaultEvictionHard)
	register("node_status", nodeStatus)
	register("quantity_structs", quantityStructs)
}

// percents divides pairs of int64 the way kubectl describes a node.
func percents(args json.RawMessage) (any, error) {
	var in struct {
		Pairs [][2]int64 `json:"pairs"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]int64, 0, len(in.Pairs))
	for _, pair := range in.Pairs {
		out = append(out, int64(float64(pair[0])/float64(pair[1])*100))
	}
	return out, nil
}

type floatView struct {
	Int64  int64  `json:"int64"`
	Single uint32 `json:"single"`
	Root   uint64 `json:"root"`
}

// floats takes float64 values by their bits and converts each to int64, to float32 and to its root.
func floats(args json.RawMessage) (any, error) {
	var in struct {
		Bits []uint64 `json:"bits"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]floatView, 0, len(in.Bits))
	for _, bits := range in.Bits {
		x := math.Float64frombits(bits)
		out = append(out, floatView{
			Int64:  int64(x),
			Single: math.Float32bits(float32(x)),
			Root:   math.Float64bits(math.Sqrt(math.Abs(x))),
		})
	}
	return out, nil
}

type cpuView struct {
	Shares          uint64 `json:"shares"`
	Quota           int64  `json:"quota"`
	MilliFromShares int64  `json:"milliFromShares"`
	MilliFromQuota  int64  `json:"milliFromQuota"`
}

func cpuNumbers(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct{ Milli, Period, Shares, Quota int64 } `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]cpuView, 0, len(in.Cases))
	for _, c := range in.Cases {
		out = append(out, cpuView{
			Shares:          cm.MilliCPUToShares(c.Milli),
			Quota:           cm.MilliCPUToQuota(c.Milli, c.Period),
			MilliFromShares: cm.SharesToMilliCPU(c.Shares),
			MilliFromQuota:  cm.QuotaToMilliCPU(c.Quota, c.Period),
		})
	}
	return out, nil
}

// cpuWeights answers with the weight of every number of shares below the given one.
func cpuWeights(args json.RawMessage) (any, error) {
	var in struct {
		Below uint64 `json:"below"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]uint64, 0, in.Below)
	for shares := uint64(0); shares < in.Below; shares++ {
		out = append(out, cgroups.ConvertCPUSharesToCgroupV2Value(shares))
	}
	return out, nil
}

// sharesFromWeights lets the kubelet read weights back from the files of a made-up cgroup.
func sharesFromWeights(args json.RawMessage) (any, error) {
	var in struct {
		Weights []uint64 `json:"weights"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "oracle-cgroup-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	cgroups.TestMode = true
	defer func() { cgroups.TestMode = false }()
	if err := os.WriteFile(filepath.Join(folder, "cpu.max"), []byte("max 100000\n"), 0o600); err != nil {
		return nil, err
	}
	subsystems := &cm.CgroupSubsystems{MountPoints: map[string]string{"cpu": folder}}
	manager := cm.NewCgroupV2Manager(klog.Background(), subsystems, "cgroupfs")
	out := make([]uint64, 0, len(in.Weights))
	for _, weight := range in.Weights {
		text := strconv.FormatUint(weight, 10) + "\n"
		if err := os.WriteFile(filepath.Join(folder, "cpu.weight"), []byte(text), 0o600); err != nil {
			return nil, err
		}
		config, err := manager.GetCgroupConfig(cm.RootCgroupName, corev1.ResourceCPU)
		if err != nil {
			return nil, err
		}
		out = append(out, *config.CPUShares)
	}
	return out, nil
}

// textOrError is what upstream says, or why it says nothing.
type textOrError struct {
	Text  string `json:"text"`
	Error string `json:"error"`
}

func pageSizes(args json.RawMessage) (any, error) {
	var in struct {
		Sizes []int64 `json:"sizes"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]textOrError, 0, len(in.Sizes))
	for _, size := range in.Sizes {
		text, err := corev1helper.HugePageUnitSizeFromByteSize(size)
		if err != nil {
			out = append(out, textOrError{Error: err.Error()})
			continue
		}
		out = append(out, textOrError{Text: text})
	}
	return out, nil
}

type cgroupNameView struct {
	Cgroupfs string `json:"cgroupfs"`
	Systemd  string `json:"systemd"`
}

func cgroupNames(args json.RawMessage) (any, error) {
	var in struct {
		Names [][]string `json:"names"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]cgroupNameView, 0, len(in.Names))
	for _, parts := range in.Names {
		name := cm.NewCgroupName(cm.RootCgroupName, parts...)
		out = append(out, cgroupNameView{Cgroupfs: name.ToCgroupfs(), Systemd: name.ToSystemd()})
	}
	return out, nil
}

type podCgroupView struct {
	QOS       string           `json:"qos"`
	Suffix    string           `json:"suffix"`
	CPUShares *uint64          `json:"cpuShares"`
	CPUQuota  *int64           `json:"cpuQuota"`
	CPUPeriod *uint64          `json:"cpuPeriod"`
	Memory    *int64           `json:"memory"`
	HugePages map[string]int64 `json:"hugePages"`
	OOMScores map[string]int   `json:"oomScores"`
}

// podCgroups defaults each pod as the API server does and asks the kubelet's code about it.
func podCgroups(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct {
			Pod            corev1.Pod
			CFSQuota       bool
			Period         uint64
			MemoryCapacity int64
		} `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]podCgroupView, 0, len(in.Cases))
	for _, c := range in.Cases {
		pod := &c.Pod
		corev1defaults.SetObjectDefaults_Pod(pod)
		// On a copy: summing up with overhead changes the pod where it holds huge quantities.
		config := cm.ResourceConfigForPod(pod.DeepCopy(), c.CFSQuota, c.Period, false, kubeletconfig.NoneMemoryReservationPolicy)
		view := podCgroupView{
			QOS:       string(corev1qos.GetPodQOS(pod)),
			Suffix:    cm.GetPodCgroupNameSuffix(pod.UID),
			CPUShares: config.CPUShares,
			CPUQuota:  config.CPUQuota,
			CPUPeriod: config.CPUPeriod,
			Memory:    config.Memory,
			HugePages: map[string]int64{},
			OOMScores: map[string]int{},
		}
		for size, limit := range config.HugePageLimit {
			view.HugePages[strconv.FormatInt(size, 10)] = limit
		}
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				score := kubeletqos.GetContainerOOMScoreAdjust(pod, &containers[i], c.MemoryCapacity)
				view.OOMScores[containers[i].Name] = score
			}
		}
		out = append(out, view)
	}
	return out, nil
}

func defaultEvictionHard(json.RawMessage) (any, error) {
	return eviction.DefaultEvictionHard, nil
}

// evictionThresholds parses one signal per case and applies it to a capacity.
func evictionThresholds(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct {
			Signal, Text string
			Capacity     resource.Quantity
		} `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]textOrError, 0, len(in.Cases))
	for _, c := range in.Cases {
		settings := map[string]string{c.Signal: c.Text}
		thresholds, err := eviction.ParseThresholdConfig(nil, settings, nil, nil, nil)
		switch {
		case err != nil:
			out = append(out, textOrError{Error: err.Error()})
		case len(thresholds) == 0:
			out = append(out, textOrError{Text: "off"})
		default:
			amount := evictionapi.GetThresholdQuantity(thresholds[0].Value, &c.Capacity)
			out = append(out, textOrError{Text: amount.String()})
		}
	}
	return out, nil
}

type machine struct {
	Cores       int
	Memory      uint64
	HugePages   map[uint64]uint64
	Ephemeral   *int64
	MaxPods     int
	PodsPerCore int
}

type nodeCase struct {
	Machine           machine
	KubeReserved      corev1.ResourceList
	SystemReserved    corev1.ResourceList
	EvictionHard      map[string]string
	Advertised        corev1.ResourceList
	Before            corev1.ResourceList
	DeviceCapacity    corev1.ResourceList
	DeviceAllocatable corev1.ResourceList
	RemovedDevices    []string
}

type nodeView struct {
	Capacity    map[string]quantityView `json:"capacity"`
	Allocatable map[string]quantityView `json:"allocatable"`
}

// nodeStatus runs the kubelet's setter for capacity and allocatable on a made-up machine.
func nodeStatus(args json.RawMessage) (any, error) {
	var in struct {
		Cases []nodeCase `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]nodeView, 0, len(in.Cases))
	for _, c := range in.Cases {
		view, err := nodeStatusOf(c)
		if err != nil {
			return nil, err
		}
		out = append(out, view)
	}
	return out, nil
}

func nodeStatusOf(c nodeCase) (nodeView, error) {
	info := &cadvisorapi.MachineInfo{NumCores: c.Machine.Cores, MemoryCapacity: c.Machine.Memory}
	for size, count := range c.Machine.HugePages {
		info.HugePages = append(info.HugePages, cadvisorapi.HugePagesInfo{PageSize: size / 1024, NumPages: count})
	}
	storage := corev1.ResourceList{}
	if c.Machine.Ephemeral != nil {
		storage[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(*c.Machine.Ephemeral, resource.BinarySI)
	}
	thresholds, err := eviction.ParseThresholdConfig(nil, c.EvictionHard, nil, nil, nil)
	if err != nil {
		return nodeView{}, err
	}
	node := &corev1.Node{}
	node.Status.Capacity, node.Status.Allocatable = c.Advertised, c.Before
	set := nodestatus.MachineInfo("node", c.Machine.MaxPods, c.Machine.PodsPerCore,
		func() (*cadvisorapi.MachineInfo, error) { return info, nil },
		func(bool) corev1.ResourceList { return storage },
		func() (corev1.ResourceList, corev1.ResourceList, []string) {
			return c.DeviceCapacity, c.DeviceAllocatable, c.RemovedDevices
		},
		func() corev1.ResourceList { return reservationOf(c, thresholds, node.Status.Capacity) },
		func(string, string, string) {},
		true,
	)
	if err := set(context.Background(), node); err != nil {
		return nodeView{}, err
	}
	return nodeView{Capacity: viewAll(node.Status.Capacity), Allocatable: viewAll(node.Status.Allocatable)}, nil
}

// reservationOf adds up with upstream's quantities; the kubelet's own sum is not exported.
func reservationOf(c nodeCase, thresholds []evictionapi.Threshold, capacity corev1.ResourceList) corev1.ResourceList {
	evicted := corev1.ResourceList{}
	for _, threshold := range thresholds {
		name := map[evictionapi.Signal]corev1.ResourceName{
			evictionapi.SignalMemoryAvailable: corev1.ResourceMemory,
			evictionapi.SignalNodeFsAvailable: corev1.ResourceEphemeralStorage,
		}[threshold.Signal]
		total := capacity[name]
		evicted[name] = *evictionapi.GetThresholdQuantity(threshold.Value, &total)
	}
	reserved := corev1.ResourceList{}
	for name := range capacity {
		sum := resource.NewQuantity(0, resource.DecimalSI)
		sum.Add(c.SystemReserved[name])
		sum.Add(c.KubeReserved[name])
		sum.Add(evicted[name])
		if !sum.IsZero() {
			reserved[name] = *sum
		}
	}
	return reserved
}

func viewAll(amounts corev1.ResourceList) map[string]quantityView {
	out := map[string]quantityView{}
	for name, amount := range amounts {
		out[string(name)] = view(amount)
	}
	return out
}

// quantityStructs prints sums of quantities the way fmt prints the bare struct.
func quantityStructs(args json.RawMessage) (any, error) {
	var in struct {
		Texts []string `json:"texts"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(in.Texts))
	for _, text := range in.Texts {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, errors.New("not a quantity: " + text)
		}
		out = append(out, fmt.Sprintf("%v", q))
	}
	return out, nil
}
