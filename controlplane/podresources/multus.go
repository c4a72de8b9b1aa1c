package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"google.golang.org/grpc/status"
	apiv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	multusLimit      = 16 << 20
	kubeletsOwnTable = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
)

type multusQuestion struct {
	connection
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Networks are the resource names of the pod's networks, in the order they are attached.
	Networks   []string `json:"networks"`
	Checkpoint string   `json:"checkpoint"`
}

type multusAnswer struct {
	// Source is "socket", or "checkpoint" where there is no socket: that file knows only kubelet's devices.
	Source    string              `json:"source"`
	Code      uint32              `json:"code"`
	Error     string              `json:"error,omitempty"`
	Resources map[string][]string `json:"resources"`
	// Networks has the device of each network, "" where the devices ran out.
	Networks []string `json:"networks"`
}

// multus reads a socket as Multus does before it attaches a pod's networks. Any error it tells
// of would fail the start of the pod.
func multus(args json.RawMessage) (any, error) {
	asked := multusQuestion{Checkpoint: kubeletsOwnTable}
	if err := json.Unmarshal(args, &asked); err != nil {
		return nil, err
	}
	asked.Max = multusLimit
	if _, err := os.Stat(asked.Socket); err != nil {
		told := multusAnswer{Source: "checkpoint"}
		if _, err := os.ReadFile(asked.Checkpoint); err != nil {
			told.Error = fmt.Sprintf("getPodEntries: error reading file %s: %v", asked.Checkpoint, err)
		}
		return told, nil
	}
	told := multusAnswer{Source: "socket"}
	listed, code, failed := listOnce(asked.connection)
	told.Code, told.Error = code, failed
	if failed != "" {
		return told, nil
	}
	if asked.Name == "" || asked.Namespace == "" {
		told.Error = "GetPodResourceMap: Pod name or namespace cannot be empty"
		return told, nil
	}
	told.Resources = byResource(listed, asked.Namespace, asked.Name)
	given := map[string]int{}
	for _, resource := range asked.Networks {
		id := ""
		if ids := told.Resources[resource]; given[resource] < len(ids) {
			id = ids[given[resource]]
		}
		given[resource]++
		told.Networks = append(told.Networks, id)
	}
	return told, nil
}

// listOnce opens a connection for a single List with ten seconds to answer.
func listOnce(where connection) (*apiv1.ListPodResourcesResponse, uint32, string) {
	conn, err := where.open()
	if err != nil {
		return nil, 0, err.Error()
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	listed, err := apiv1.NewPodResourcesListerClient(conn).List(ctx, &apiv1.ListPodResourcesRequest{})
	if err != nil {
		return nil, uint32(status.Code(err)), err.Error()
	}
	return listed, 0, ""
}

// byResource joins what all containers of a pod have, whatever the container.
func byResource(listed *apiv1.ListPodResourcesResponse, namespace, name string) map[string][]string {
	joined := map[string][]string{}
	for _, pod := range listed.GetPodResources() {
		if pod.GetName() != name || pod.GetNamespace() != namespace {
			continue
		}
		for _, container := range pod.GetContainers() {
			for _, entry := range container.GetDevices() {
				resource := entry.GetResourceName()
				joined[resource] = append(joined[resource], entry.GetDeviceIds()...)
			}
		}
	}
	for _, ids := range joined {
		slices.Sort(ids)
	}
	return joined
}
