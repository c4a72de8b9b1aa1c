package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	pb "kubevirt.io/application-aware-quota/pkg/util/net/generated"
	"kubevirt.io/application-aware-quota/pkg/util/net/grpc"
)

// input is what standard input holds: the pod to ask about and those of its namespace.
type input struct {
	Pod      *corev1.Pod   `json:"pod"`
	Existing []*corev1.Pod `json:"existing"`
}

type output struct {
	Healthy   bool                `json:"healthy"`
	Resources corev1.ResourceList `json:"resources"`
	Match     bool                `json:"match"`
	Error     string              `json:"error"`
	Bytes     int                 `json:"bytes"`
	Seconds   float64             `json:"seconds"`
}

func ask(arguments []string) error {
	flags := flag.NewFlagSet("ask", flag.ExitOnError)
	socket := flags.String("socket", "", "path of the socket")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	answer, err := evaluate(*socket, given)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// recount asks about the first pods of a namespace, each time on a new connection and with
// every pod encoded anew.
func recount(arguments []string) error {
	flags := flag.NewFlagSet("recount", flag.ExitOnError)
	socket := flags.String("socket", "", "path of the socket")
	calls := flags.Int("calls", 1, "pods to ask about")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	total := output{}
	for _, pod := range given.Existing[:*calls] {
		answer, err := evaluate(*socket, input{Pod: pod, Existing: given.Existing})
		if err != nil {
			return err
		}
		total.Bytes += answer.Bytes
		total.Seconds += answer.Seconds
	}
	return json.NewEncoder(os.Stdout).Encode(total)
}

func evaluate(socket string, given input) (*output, error) {
	began := time.Now()
	connection, err := grpc.DialSocketWithTimeout(socket, 1)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	call, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := pb.NewPodUsageClient(connection)
	pod, err := json.Marshal(given.Pod)
	if err != nil {
		return nil, err
	}
	request := &pb.PodUsageRequest{Pod: &pb.Pod{PodJson: pod}}
	size := len(pod)
	for _, each := range given.Existing {
		body, err := json.Marshal(each)
		if err != nil {
			return nil, err
		}
		size += len(body)
		request.PodsState = append(request.PodsState, &pb.Pod{PodJson: body})
	}
	answer, err := client.PodUsageFunc(call, request)
	if err != nil {
		return nil, err
	}
	if answer.ResourceList == nil || answer.Error == nil {
		return nil, fmt.Errorf("the answer lacks a message; AAQ's controller would crash")
	}
	found := &output{Match: answer.Match, Bytes: size}
	if err := json.Unmarshal(answer.ResourceList.ResourceListJson, &found.Resources); err != nil {
		return nil, err
	}
	if answer.Error.Error {
		found.Error = answer.Error.ErrorMessage
	}
	found.Seconds = time.Since(began).Seconds()
	health, err := client.HealthCheck(call, &pb.HealthCheckRequest{})
	if err != nil {
		return nil, err
	}
	found.Healthy = health.Healthy
	return found, nil
}
