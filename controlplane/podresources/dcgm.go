package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	apiv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	nvidiaResource  = "nvidia.com/gpu"
	nvidiaMigPrefix = "nvidia.com/mig-"
	nvidiaDriver    = "gpu.nvidia.com"
	migPrefix       = "MIG-"
	vgpuMark        = "/vgpu"
	shareMark       = "::"
)

var instanceID = regexp.MustCompile(`^nvidia([0-9]+)/gi([0-9]+)(?:/vgpu[0-9]+)?$`)

// dcgmQuestion has the exporter's settings, and the hardware it would find.
type dcgmQuestion struct {
	connection
	ResourceNames []string `json:"resource_names"`
	// IDType is "uid" or "device-name": what a GPU is looked up by.
	IDType string `json:"id_type"`
	// VirtualGPUs gives every pod on a device its own series; without it the last one listed wins.
	VirtualGPUs bool `json:"virtual_gpus"`
	// PerProcess is for the two metrics that NVML tells by process. With virtual GPUs, a device in use
	// keeps its own series of these beside those of its pods.
	PerProcess bool  `json:"per_process"`
	DRA        bool  `json:"dra"`
	GPUs       []gpu `json:"gpus"`
	// Instances is what NVML tells: MIG device to "<gpu index>-<gpu instance>".
	Instances map[string]string `json:"instances"`
	// Claimable is what the API server tells: "<pool>/<device>" of the GPU driver to the device.
	Claimable map[string]claimable `json:"claimable"`
}

type gpu struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	// Device is its name, "nvidia<index>" where none is given.
	Device string `json:"device"`
	// Instance is set for the part of a GPU that MIG cut off.
	Instance *int `json:"instance"`
}

type claimable struct {
	UUID string `json:"uuid"`
	// MIG is set for a part of the GPU with that UUID.
	MIG *part `json:"mig"`
}

type part struct {
	UUID    string `json:"uuid"`
	Profile string `json:"profile"`
}

type user struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	VGPU      string `json:"vgpu,omitempty"`
	// Claim is set where the device came by one.
	Claim *claimed `json:"claim,omitempty"`
}

type claimed struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Driver    string `json:"driver"`
	Pool      string `json:"pool"`
	Device    string `json:"device"`
	MIG       *part  `json:"mig,omitempty"`
}

type series struct {
	UUID string `json:"uuid"`
	// User is absent where the metric gets no labels.
	User *user `json:"user,omitempty"`
}

type dcgmAnswer struct {
	// Socket is false where there is none: metrics go out without labels, and nobody is told.
	Socket  bool              `json:"socket"`
	Code    uint32            `json:"code"`
	Error   string            `json:"error,omitempty"`
	Mapping map[string][]user `json:"mapping"`
	// Claimed has all who share a device by claims, for there the last one listed does not win.
	Claimed map[string][]user `json:"claimed"`
	Series  []series          `json:"series"`
}

// dcgm reads a socket as dcgm-exporter does at every scrape, and labels the metrics of the GPUs.
func dcgm(args json.RawMessage) (any, error) {
	asked := dcgmQuestion{IDType: "uid"}
	if err := json.Unmarshal(args, &asked); err != nil {
		return nil, err
	}
	told := dcgmAnswer{Mapping: map[string][]user{}, Claimed: map[string][]user{}}
	if _, err := os.Stat(asked.Socket); err == nil {
		told.Socket = true
		listed, code, failed := listOnce(asked.connection)
		told.Code, told.Error = code, failed
		asked.read(listed, &told)
	}
	for _, one := range asked.GPUs {
		users := told.Claimed[asked.key(one)]
		if len(users) == 0 {
			users = told.Mapping[asked.key(one)]
		}
		if len(users) == 0 || asked.PerProcess && asked.VirtualGPUs {
			told.Series = append(told.Series, series{UUID: one.UUID})
		}
		for _, of := range users {
			told.Series = append(told.Series, series{UUID: one.UUID, User: &of})
		}
	}
	return told, nil
}

// key is what the metrics of a GPU are looked up by.
func (q *dcgmQuestion) key(one gpu) string {
	if one.Instance != nil {
		return fmt.Sprintf("%d-%d", one.Index, *one.Instance)
	}
	switch {
	case q.IDType != "device-name":
		return one.UUID
	case one.Device != "":
		return one.Device
	}
	return fmt.Sprintf("nvidia%d", one.Index)
}

func (q *dcgmQuestion) read(listed *apiv1.ListPodResourcesResponse, told *dcgmAnswer) {
	for _, pod := range listed.GetPodResources() {
		for _, container := range pod.GetContainers() {
			of := user{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: container.GetName()}
			for _, entry := range container.GetDevices() {
				if q.wants(entry.GetResourceName()) {
					q.note(told.Mapping, entry.GetDeviceIds(), of)
				}
			}
			// Who has virtual GPUs told apart is told nothing of claims.
			if q.DRA && !q.VirtualGPUs {
				q.noteClaims(told.Claimed, container.GetDynamicResources(), of)
			}
		}
	}
}

func (q *dcgmQuestion) wants(resource string) bool {
	return resource == nvidiaResource || strings.HasPrefix(resource, nvidiaMigPrefix) ||
		slices.Contains(q.ResourceNames, resource)
}

func (q *dcgmQuestion) note(mapping map[string][]user, ids []string, of user) {
	for _, id := range ids {
		// The mark of a share is only read where shares are told apart, and stays for the IDs after it.
		if share, is := shareOf(id); is && q.VirtualGPUs {
			of.VGPU = share
		}
		for _, name := range q.names(id) {
			if !q.VirtualGPUs {
				mapping[name] = nil
			}
			mapping[name] = append(mapping[name], of)
		}
	}
}

func (q *dcgmQuestion) noteClaims(mapping map[string][]user, claims []*apiv1.DynamicResource, of user) {
	noted := map[string]bool{}
	for _, claim := range claims {
		for _, one := range claim.GetClaimResources() {
			device := q.Claimable[one.GetPoolName()+"/"+one.GetDeviceName()]
			key := q.claimKey(device)
			if one.GetDriverName() != nvidiaDriver || key == "" || noted[key] {
				continue
			}
			noted[key] = true
			of.Claim = &claimed{
				Namespace: claim.GetClaimNamespace(), Name: claim.GetClaimName(), MIG: device.MIG,
				Driver: one.GetDriverName(), Pool: one.GetPoolName(), Device: one.GetDeviceName(),
			}
			mapping[key] = append(mapping[key], of)
		}
	}
}

// claimKey is empty for a device that is not known, and for a part whose instance is not.
func (q *dcgmQuestion) claimKey(device claimable) string {
	if device.MIG != nil {
		return q.Instances[device.MIG.UUID]
	}
	return device.UUID
}

func shareOf(id string) (string, bool) {
	for _, mark := range []string{vgpuMark, shareMark} {
		if _, share, is := strings.Cut(id, mark); is {
			return share, true
		}
	}
	return "", false
}

// names are the keys under which a device is found: its own ID, and what the ID is a part of.
func (q *dcgmQuestion) names(id string) []string {
	whole, _, _ := strings.Cut(id, shareMark)
	switch parts := instanceID.FindStringSubmatch(id); {
	case strings.HasPrefix(id, migPrefix):
		names := []string{strings.TrimPrefix(whole, migPrefix), id}
		if instance, known := q.Instances[whole]; known {
			names = append(names, instance)
		}
		return names
	case parts != nil:
		return []string{parts[1] + "-" + parts[2], id}
	case strings.Contains(id, vgpuMark):
		whole, _, _ = strings.Cut(id, vgpuMark)
		return []string{whole, id}
	case whole != id:
		return []string{whole, id}
	}
	return []string{id}
}
