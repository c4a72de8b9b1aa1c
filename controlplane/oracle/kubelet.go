package main

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corev1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	corev1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubeletqos "k8s.io/kubernetes/pkg/kubelet/qos"
)

func init() {
	register("percents", percents)
	register("floats", floats)
	register("cpu_numbers", cpuNumbers)
	register("cpu_weights", cpuWeights)
	register("page_sizes", pageSizes)
	register("cgroup_names", cgroupNames)
	register("pod_cgroups", podCgroups)
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
	Int64 int64  `json:"int64"`
	Root  uint64 `json:"root"`
}

// floats takes float64 values by their bits and converts each to int64 and to its root.
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
			Int64: int64(x),
			Root:  math.Float64bits(math.Sqrt(math.Abs(x))),
		})
	}
	return out, nil
}

type cpuView struct {
	Shares uint64 `json:"shares"`
	Quota  int64  `json:"quota"`
}

func cpuNumbers(args json.RawMessage) (any, error) {
	var in struct {
		Cases []struct{ Milli, Period int64 } `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]cpuView, 0, len(in.Cases))
	for _, c := range in.Cases {
		out = append(out, cpuView{
			Shares: cm.MilliCPUToShares(c.Milli),
			Quota:  cm.MilliCPUToQuota(c.Milli, c.Period),
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
