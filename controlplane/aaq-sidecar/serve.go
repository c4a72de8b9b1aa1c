package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/rand"
	pb "kubevirt.io/application-aware-quota/pkg/util/net/generated"
)

const label = "label-app"

type server struct {
	modeFile, config string
}

func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	sockets := flags.String("sockets", "/var/run/aaq-sockets", "folder of the socket")
	mode := flags.String("mode", "", "file that says how to count")
	config := flags.String("config", "double", "how to count without such a file: double or triple")
	limit := flags.Int("max-message", 0, "bytes of a request; 0: gRPC's default, 4 MiB")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	path, err := freePath(*sockets)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	var options []grpc.ServerOption
	if *limit > 0 {
		options = append(options, grpc.MaxRecvMsgSize(*limit))
	}
	answering := grpc.NewServer(options...)
	pb.RegisterPodUsageServer(answering, &server{*mode, *config})
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		answering.Stop()
	}()
	fmt.Println(path)
	return answering.Serve(listener)
}

func freePath(folder string) (string, error) {
	for try := 0; try < 10; try++ {
		path := filepath.Join(folder, fmt.Sprintf("sidecar-%s.sock", rand.String(4)))
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: no free name", folder)
}

func (s *server) HealthCheck(
	context.Context, *pb.HealthCheckRequest,
) (*pb.HealthCheckResponse, error) {
	return &pb.HealthCheckResponse{Healthy: true}, nil
}

func (s *server) PodUsageFunc(
	call context.Context, request *pb.PodUsageRequest,
) (*pb.PodUsageResponse, error) {
	pod, existing, err := decode(request)
	if err != nil {
		return nil, err
	}
	mode := s.mode()
	answer := &pb.PodUsageResponse{Error: &pb.Error{}, ResourceList: &pb.ResourceList{}}
	answer.ResourceList.ResourceListJson = []byte("null")
	if _, matches := pod.Labels[label]; !matches && mode != "empty" {
		return answer, nil
	}
	answer.Match = true
	answer.ResourceList.ResourceListJson, err = json.Marshal(amounts(mode, pod, len(existing)))
	if err != nil {
		return nil, err
	}
	switch mode {
	case "slow":
		<-call.Done()
		return nil, call.Err()
	case "garbage":
		answer.ResourceList.ResourceListJson = []byte(`{"requests.memory": [not JSON`)
	case "huge":
		answer.ResourceList.ResourceListJson = bytes.Repeat([]byte("7"), 10<<20)
	case "empty":
		return &pb.PodUsageResponse{}, nil
	case "error":
		answer.Error = &pb.Error{Error: true, ErrorMessage: "the licence server is down"}
	case "crash":
		os.Exit(7)
	}
	return answer, nil
}

func (s *server) mode() string {
	text, err := os.ReadFile(s.modeFile)
	if err != nil {
		return s.config
	}
	return strings.TrimSpace(string(text))
}

func decode(request *pb.PodUsageRequest) (*corev1.Pod, []*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Pod.GetPodJson(), pod); err != nil {
		return nil, nil, err
	}
	var existing []*corev1.Pod
	for _, each := range request.GetPodsState() {
		other := &corev1.Pod{}
		if err := json.Unmarshal(each.GetPodJson(), other); err != nil {
			return nil, nil, err
		}
		existing = append(existing, other)
	}
	return pod, existing, nil
}

// amounts multiplies what the containers request, or charges the number of pods of the namespace.
func amounts(mode string, pod *corev1.Pod, existing int) corev1.ResourceList {
	factors := map[string]int64{"triple": 3, "negative": -2, "peers": 0}
	factor, known := factors[mode]
	if !known {
		factor = 2
	}
	total := corev1.ResourceList{}
	if mode == "peers" {
		total["instances/peers"] = *resource.NewQuantity(int64(existing), resource.DecimalSI)
		return total
	}
	for _, container := range pod.Spec.Containers {
		for name, amount := range container.Resources.Requests {
			sum := total["requests."+name]
			for times := int64(0); times < max(factor, -factor); times++ {
				if factor < 0 {
					sum.Sub(amount)
				} else {
					sum.Add(amount)
				}
			}
			total["requests."+name] = sum
		}
	}
	if mode == "absurd" {
		total["requests.memory"] = resource.MustParse("1e30")
	}
	return total
}
