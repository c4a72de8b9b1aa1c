package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/cri-client/pkg/util"
	apiv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	apiv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/kubernetes/pkg/kubelet/server"
)

const metricsPrefix = "kubelet_pod_resources_endpoint_"

// serve runs kubelet's server on a socket, as kubelet itself would start it.
//
// With -adjustable the same parts of kubelet are put together here instead, because upstream's
// function leaves no room for some things: another rate limit, calls that fail, fields that only a
// newer kubelet knows, and the name by which a client called the server.
func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	socket := flags.String("socket", "", "where to listen")
	adjustable := flags.Bool("adjustable", false, "allow another rate limit, failures and newer fields")
	qps := flags.Int("qps", podresources.DefaultQPS, "calls a second (adjustable)")
	burst := flags.Int("burst", podresources.DefaultBurstTokens, "calls at once (adjustable)")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *socket == "" {
		return errors.New("no -socket")
	}
	kubeletmetrics.Register()
	p := &providers{}
	p.now.Store(&contents{})
	p.authority.Store("")
	// What an earlier kubelet left behind would look like us while we wait below.
	if err := os.Remove(*socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	if *adjustable {
		go listenAndServe(*socket, p, int32(*qps), int32(*burst))
	} else {
		go server.ListenAndServePodResources(context.Background(), "unix://"+*socket, all(p))
	}
	if err := awaitListener(*socket); err != nil {
		return err
	}
	return talk(map[string]handler{
		"replace":   func(args json.RawMessage) (any, error) { return replace(p, args, *adjustable) },
		"requests":  requests,
		"authority": func(json.RawMessage) (any, error) { return p.authority.Load(), nil },
	})
}

func all(p *providers) podresources.PodResourcesProviders {
	return podresources.PodResourcesProviders{Pods: p, Devices: p, Cpus: p, Memory: p, DynamicResources: p}
}

func listenAndServe(socket string, p *providers, qps, burst int32) {
	ctx := context.Background()
	limiter := apisgrpc.WithRateLimiter(ctx, "podresources", qps, burst)
	bend := func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		if told := metadata.ValueFromIncomingContext(ctx, ":authority"); len(told) > 0 {
			p.authority.Store(told[0])
		}
		c := p.now.Load()
		if failed, is := c.Failures[path.Base(info.FullMethod)]; is {
			return nil, status.Error(codes.Code(failed.Code), failed.Message)
		}
		made, err := next(ctx, req)
		if message, is := made.(proto.Message); is && err == nil && len(c.NewerFields) > 0 {
			addUnknown(message.ProtoReflect(), c.NewerFields)
		}
		return made, err
	}
	s := grpc.NewServer(limiter, grpc.ChainUnaryInterceptor(bend))
	apiv1alpha1.RegisterPodResourcesListerServer(s, podresources.NewV1alpha1PodResourcesServer(all(p)))
	apiv1.RegisterPodResourcesListerServer(s, podresources.NewV1PodResourcesServer(ctx, all(p)))
	listener, err := util.CreateListener("unix://" + socket)
	if err == nil {
		err = s.Serve(listener)
	}
	fmt.Fprintln(os.Stderr, "podresources:", err)
	os.Exit(1)
}

// addUnknown puts fields of a newer API into a message and every message in it.
func addUnknown(message protoreflect.Message, fields []byte) {
	message.SetUnknown(fields)
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() != protoreflect.MessageKind {
			return true
		}
		if !field.IsList() {
			addUnknown(value.Message(), fields)
			return true
		}
		for i := range value.List().Len() {
			addUnknown(value.List().Get(i).Message(), fields)
		}
		return true
	})
}

func awaitListener(socket string) error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if connection, err := net.Dial("unix", socket); err == nil {
			return connection.Close()
		}
		time.Sleep(2 * time.Millisecond)
	}
	return fmt.Errorf("nobody listens at %s", socket)
}

func replace(p *providers, args json.RawMessage, adjustable bool) (any, error) {
	next := &contents{}
	if err := json.Unmarshal(args, next); err != nil {
		return nil, err
	}
	if !adjustable && (len(next.Failures) > 0 || len(next.NewerFields) > 0) {
		return nil, errors.New("failures and newer fields need -adjustable")
	}
	next.build()
	p.now.Store(next)
	return map[string]bool{"ok": true}, nil
}

// requests gives kubelet's own counters, by name and API version. Calls that the rate limiter
// rejects are in none of them.
func requests(json.RawMessage) (any, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, err
	}
	counted := map[string]map[string]int{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), metricsPrefix)
		if !ours {
			continue
		}
		counted[name] = map[string]int{}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				counted[name][label.GetValue()] = int(metric.GetCounter().GetValue())
			}
		}
	}
	return counted, nil
}
