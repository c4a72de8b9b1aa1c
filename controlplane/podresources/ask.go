package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	apiv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	apiv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

const (
	defaultTimeout = 10 * time.Second
	grpcsOwnLimit  = 4 << 20
)

var questions = map[string]handler{
	"call":   call,
	"multus": multus,
	"dcgm":   dcgm,
}

// connection is how a client reaches a socket.
type connection struct {
	Socket string `json:"socket"`
	// Dial is "kubelet" for upstream's own way, which copies of it in other projects share: it sends
	// the percent-encoded path as :authority. "unix" is grpc-go's scheme, which sends "localhost".
	Dial string `json:"dial"`
	// Max is the largest reply taken, in bytes.
	Max int `json:"max"`
}

func (c connection) open() (*grpc.ClientConn, error) {
	if c.Max == 0 {
		c.Max = grpcsOwnLimit
	}
	endpoint := c.Socket
	if !strings.Contains(endpoint, "://") {
		endpoint = "unix://" + endpoint
	}
	switch c.Dial {
	case "", "kubelet":
		_, conn, err := podresources.GetV1Client(endpoint, defaultTimeout, c.Max)
		return conn, err
	case "unix":
		return grpc.NewClient(endpoint,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.Max)))
	}
	return nil, fmt.Errorf("unknown way to dial: %s", c.Dial)
}

// calls says what to call, how often, and what to tell of the answers.
type calls struct {
	connection
	Version   string `json:"version"`
	Method    string `json:"method"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Request is sent as it is, to Path, when one is given: for methods and fields unknown here.
	Path    string `json:"path"`
	Request []byte `json:"request"`

	TimeoutMillis int `json:"timeout_ms"`
	// CancelMillis is when the client loses interest, without a deadline that the server is told of.
	CancelMillis int `json:"cancel_ms"`
	// Parallel callers make Times calls each, and wait PaceMillis before each but the first.
	Times      int `json:"times"`
	Parallel   int `json:"parallel"`
	PaceMillis int `json:"pace_ms"`
	// Reconnect opens a connection for each call, as clients do that call seldom.
	Reconnect bool `json:"reconnect"`
	// Quiet leaves the messages out, for replies that are only counted.
	Quiet bool `json:"quiet"`
}

type outcome struct {
	Code    uint32          `json:"code"`
	Error   string          `json:"error,omitempty"`
	Micros  int64           `json:"micros"`
	Size    int             `json:"size"`
	Message json.RawMessage `json:"message,omitempty"`
	Raw     []byte          `json:"raw,omitempty"`
}

func call(args json.RawMessage) (any, error) {
	asked := calls{Version: "v1", Method: "List", Times: 1, Parallel: 1}
	if err := json.Unmarshal(args, &asked); err != nil {
		return nil, err
	}
	perform, err := asked.method()
	if err != nil {
		return nil, err
	}
	outcomes := make([]outcome, asked.Parallel*asked.Times)
	failures := make([]error, asked.Parallel)
	var all sync.WaitGroup
	for caller := range asked.Parallel {
		all.Go(func() {
			mine := outcomes[caller*asked.Times : (caller+1)*asked.Times]
			failures[caller] = asked.run(perform, mine)
		})
	}
	all.Wait()
	for _, failed := range failures {
		if failed != nil {
			return nil, failed
		}
	}
	return outcomes, nil
}

type performer func(context.Context, *grpc.ClientConn) (proto.Message, []byte, error)

// method is a call of a generated client, or of bytes without one.
func (c *calls) method() (performer, error) {
	if c.Path != "" {
		return func(ctx context.Context, conn *grpc.ClientConn) (proto.Message, []byte, error) {
			var reply []byte
			err := conn.Invoke(ctx, c.Path, &c.Request, &reply, grpc.ForceCodec(asIs{}))
			return nil, reply, err
		}, nil
	}
	switch c.Version + "." + c.Method {
	case "v1.List":
		return func(ctx context.Context, conn *grpc.ClientConn) (proto.Message, []byte, error) {
			m, err := apiv1.NewPodResourcesListerClient(conn).List(ctx, &apiv1.ListPodResourcesRequest{})
			return m, nil, err
		}, nil
	case "v1.Get":
		asked := &apiv1.GetPodResourcesRequest{PodNamespace: c.Namespace, PodName: c.Name}
		return func(ctx context.Context, conn *grpc.ClientConn) (proto.Message, []byte, error) {
			m, err := apiv1.NewPodResourcesListerClient(conn).Get(ctx, asked)
			return m, nil, err
		}, nil
	case "v1.GetAllocatableResources":
		asked := &apiv1.AllocatableResourcesRequest{}
		return func(ctx context.Context, conn *grpc.ClientConn) (proto.Message, []byte, error) {
			m, err := apiv1.NewPodResourcesListerClient(conn).GetAllocatableResources(ctx, asked)
			return m, nil, err
		}, nil
	case "v1alpha1.List":
		asked := &apiv1alpha1.ListPodResourcesRequest{}
		return func(ctx context.Context, conn *grpc.ClientConn) (proto.Message, []byte, error) {
			m, err := apiv1alpha1.NewPodResourcesListerClient(conn).List(ctx, asked)
			return m, nil, err
		}, nil
	}
	return nil, fmt.Errorf("no method %s of %s", c.Method, c.Version)
}

// run makes the calls of one caller.
func (c *calls) run(perform performer, outcomes []outcome) error {
	conn, err := c.open()
	if err != nil {
		return err
	}
	defer func() { conn.Close() }()
	for i := range outcomes {
		if i > 0 {
			time.Sleep(time.Duration(c.PaceMillis) * time.Millisecond)
		}
		if i > 0 && c.Reconnect {
			conn.Close()
			if conn, err = c.open(); err != nil {
				return err
			}
		}
		if outcomes[i], err = c.once(perform, conn); err != nil {
			return err
		}
	}
	return nil
}

func (c *calls) once(perform performer, conn *grpc.ClientConn) (outcome, error) {
	timeout := defaultTimeout
	if c.TimeoutMillis > 0 {
		timeout = time.Duration(c.TimeoutMillis) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if c.CancelMillis > 0 {
		time.AfterFunc(time.Duration(c.CancelMillis)*time.Millisecond, cancel)
	}
	started := time.Now()
	message, raw, failed := perform(ctx, conn)
	told := outcome{Micros: time.Since(started).Microseconds()}
	if failed != nil {
		told.Code = uint32(status.Code(failed))
		told.Error = status.Convert(failed).Message()
		return told, nil
	}
	return told, told.tell(message, raw, c.Quiet)
}

func (o *outcome) tell(message proto.Message, raw []byte, quiet bool) (err error) {
	o.Size = len(raw)
	if message != nil {
		o.Size = proto.Size(message)
	}
	switch {
	case quiet:
	case message != nil:
		o.Message, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	default:
		o.Raw = raw
	}
	return err
}

// asIs leaves bytes alone: what the server sent is what is compared.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (asIs) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
