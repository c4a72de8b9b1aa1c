package main

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// contents is what kubelet's managers would know. One line of input replaces all of it.
type contents struct {
	Pods        []pod    `json:"pods"`
	Allocatable assigned `json:"allocatable"`
	// Unordered gives pods in a new order each time, as a kubelet does that keeps them in a map.
	Unordered bool `json:"unordered"`
	// DelayMillis is how long a kubelet that is busy takes to look at its pods.
	DelayMillis int `json:"delay_ms"`
	// Failures and NewerFields need a server that stands between (see serve.go).
	Failures    map[string]failure `json:"failures"`
	NewerFields []byte             `json:"newer_fields"`

	built   []*corev1.Pod
	managed map[containerKey]assigned
}

type pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Terminal pods are known to kubelet but no longer active.
	Terminal bool `json:"terminal"`
	// Init holds plain init containers and sidecars in the order of the pod's spec.
	Init       []container `json:"init"`
	Containers []container `json:"containers"`
}

type container struct {
	Name        string `json:"name"`
	Restartable bool   `json:"restartable"`
	assigned
}

// assigned is what the managers gave to a container, or what the node has to give.
type assigned struct {
	Devices []device `json:"devices"`
	CPUs    []int64  `json:"cpus"`
	Memory  []memory `json:"memory"`
	Claims  []claim  `json:"claims"`
}

type device struct {
	Resource string  `json:"resource"`
	ID       string  `json:"id"`
	NUMA     []int64 `json:"numa"`
}

type memory struct {
	Type string  `json:"type"`
	Size uint64  `json:"size"`
	NUMA []int64 `json:"numa"`
}

type claim struct {
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Devices   []claimDevice `json:"devices"`
}

type claimDevice struct {
	Driver string   `json:"driver"`
	Pool   string   `json:"pool"`
	Device string   `json:"device"`
	Share  *string  `json:"share"`
	CDI    []string `json:"cdi"`
}

type failure struct {
	Code    uint32 `json:"code"`
	Message string `json:"message"`
}

type containerKey struct{ pod, container string }

// build makes of the notation what the server looks up at every call.
func (c *contents) build() {
	c.managed = map[containerKey]assigned{}
	for _, given := range c.Pods {
		made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: given.Namespace, Name: given.Name, UID: types.UID(given.UID),
		}}
		if given.Terminal {
			made.Status.Phase = corev1.PodSucceeded
		}
		made.Spec.InitContainers = c.specs(given.UID, given.Init)
		made.Spec.Containers = c.specs(given.UID, given.Containers)
		c.built = append(c.built, made)
	}
}

func (c *contents) specs(uid string, given []container) []corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	var specs []corev1.Container
	for _, one := range given {
		spec := corev1.Container{Name: one.Name}
		if one.Restartable {
			spec.RestartPolicy = &always
		}
		specs = append(specs, spec)
		c.managed[containerKey{uid, one.Name}] = one.assigned
	}
	return specs
}

// providers is the interface to kubelet's managers, over contents that can be replaced at any time.
type providers struct {
	now atomic.Pointer[contents]
	// authority is what the last client took for the server's name (adjustable servers only).
	authority atomic.Value
}

func (p *providers) GetPods() []*corev1.Pod {
	c := p.now.Load()
	time.Sleep(time.Duration(c.DelayMillis) * time.Millisecond)
	pods := append([]*corev1.Pod(nil), c.built...)
	if c.Unordered {
		rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	}
	return pods
}

func (p *providers) GetActivePods() []*corev1.Pod {
	var active []*corev1.Pod
	for _, one := range p.GetPods() {
		if one.Status.Phase != corev1.PodSucceeded {
			active = append(active, one)
		}
	}
	return active
}

func (p *providers) GetPodByName(namespace, name string) (*corev1.Pod, bool) {
	for _, one := range p.GetActivePods() {
		if one.Namespace == namespace && one.Name == name {
			return one, true
		}
	}
	return nil, false
}

func (p *providers) of(uid, container string) assigned {
	return p.now.Load().managed[containerKey{uid, container}]
}

func (p *providers) UpdateAllocatedDevices() {}

func (p *providers) GetDevices(uid, container string) []*api.ContainerDevices {
	return devices(p.of(uid, container).Devices)
}

func (p *providers) GetAllocatableDevices() []*api.ContainerDevices {
	return devices(p.now.Load().Allocatable.Devices)
}

func (p *providers) GetCPUs(uid, container string) []int64 { return p.of(uid, container).CPUs }

func (p *providers) GetAllocatableCPUs() []int64 { return p.now.Load().Allocatable.CPUs }

func (p *providers) GetMemory(uid, container string) []*api.ContainerMemory {
	return memoryBlocks(p.of(uid, container).Memory)
}

func (p *providers) GetAllocatableMemory() []*api.ContainerMemory {
	return memoryBlocks(p.now.Load().Allocatable.Memory)
}

func (p *providers) GetDynamicResources(owner *corev1.Pod, container *corev1.Container) []*api.DynamicResource {
	var claims []*api.DynamicResource
	for _, given := range p.of(string(owner.UID), container.Name).Claims {
		made := &api.DynamicResource{ClaimName: given.Name, ClaimNamespace: given.Namespace}
		for _, part := range given.Devices {
			resource := &api.ClaimResource{
				DriverName: part.Driver, PoolName: part.Pool, DeviceName: part.Device, ShareId: part.Share,
			}
			for _, name := range part.CDI {
				resource.CdiDevices = append(resource.CdiDevices, &api.CDIDevice{Name: name})
			}
			made.ClaimResources = append(made.ClaimResources, resource)
		}
		claims = append(claims, made)
	}
	return claims
}

// devices has kubelet's form: one entry for each ID and NUMA node, no topology where none is known.
func devices(given []device) []*api.ContainerDevices {
	var entries []*api.ContainerDevices
	for _, one := range given {
		if len(one.NUMA) == 0 {
			entries = append(entries, &api.ContainerDevices{
				ResourceName: one.Resource, DeviceIds: []string{one.ID},
			})
		}
		for _, node := range one.NUMA {
			entries = append(entries, &api.ContainerDevices{
				ResourceName: one.Resource, DeviceIds: []string{one.ID}, Topology: topology(node),
			})
		}
	}
	return entries
}

func memoryBlocks(given []memory) []*api.ContainerMemory {
	var blocks []*api.ContainerMemory
	for _, one := range given {
		blocks = append(blocks, &api.ContainerMemory{
			MemoryType: one.Type, Size: one.Size, Topology: topology(one.NUMA...),
		})
	}
	return blocks
}

func topology(nodes ...int64) *api.TopologyInfo {
	info := &api.TopologyInfo{}
	for _, node := range nodes {
		info.Nodes = append(info.Nodes, &api.NUMANode{ID: node})
	}
	return info
}
