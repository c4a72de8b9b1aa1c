// kubelet-http is kubelet's HTTP server with no kubelet behind it: upstream's routes, its
// authentication (client certificates, token reviews) and its authorization (access reviews at a
// real API server). The pods are those of a file, a PodList, read anew for each request.
//
//	kubelet-http -pods pods.json -node node-0 -kubeconfig admin.kubeconfig -client-ca ca.crt \
//	    -certificate kubelet.crt -key kubelet.key -port 10250 -read-only-port 10255
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/server"
	"k8s.io/kubernetes/pkg/kubelet/server/stats"
)

const loopback = "127.0.0.1"

// host is what the server asks about the node. Only pods and health can be asked for: the rest of
// the interface is not there, and whoever calls it gets the answer of a server that panicked.
type host struct {
	server.HostInterface
	pods string
}

func (h host) GetPods() []*v1.Pod {
	text, err := os.ReadFile(h.pods)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-http:", err)
		return nil
	}
	var list v1.PodList
	if err := json.Unmarshal(text, &list); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-http:", err)
		return nil
	}
	pods := make([]*v1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods
}

func (h host) SyncLoopHealthCheck(*http.Request) error { return nil }

// nothing stands for the statistics that nobody here asks for.
type nothing struct{ stats.ResourceAnalyzer }

type settings struct {
	pods, node, kubeconfig, clientCA, certificate, key string
	port, readOnlyPort                                 int
	cache                                              time.Duration
}

func parse() settings {
	var s settings
	flag.StringVar(&s.pods, "pods", "", "the file with the pods of this node")
	flag.StringVar(&s.node, "node", "", "whose kubelet this is")
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "who is asked about tokens and rights")
	flag.StringVar(&s.clientCA, "client-ca", "", "who vouches for client certificates")
	flag.StringVar(&s.certificate, "certificate", "", "what we show")
	flag.StringVar(&s.key, "key", "", "its key")
	flag.IntVar(&s.port, "port", 10250, "for those who say who they are")
	flag.IntVar(&s.readOnlyPort, "read-only-port", 0, "for everybody; 0 for none")
	flag.DurationVar(&s.cache, "cache", time.Millisecond, "how long answers of the API server hold")
	flag.Parse()
	return s
}

// configure gives the defaults of a configuration file, where nobody is let in unknown.
func configure(s settings) (*kubeletconfig.KubeletConfiguration, error) {
	c, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	c.Address, c.Port = loopback, int32(s.port)
	c.EnableDebuggingHandlers = true
	c.Authentication.Anonymous.Enabled = false
	c.Authentication.Webhook.Enabled = true
	c.Authentication.Webhook.CacheTTL.Duration = s.cache
	c.Authentication.X509.ClientCAFile = s.clientCA
	c.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
	c.Authorization.Webhook.CacheAuthorizedTTL.Duration = s.cache
	c.Authorization.Webhook.CacheUnauthorizedTTL.Duration = s.cache
	return c, nil
}

// transport is kubelet's: client certificates are asked for, and judged by the authenticator.
func transport(s settings) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(s.certificate, s.key)
	if err != nil {
		return nil, err
	}
	authorities, err := cert.NewPool(s.clientCA)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequestClientCert,
		ClientCAs:    authorities,
	}, nil
}

func serve(s settings) error {
	if s.pods == "" || s.node == "" {
		return errors.New("-pods and -node are needed")
	}
	ctx := context.Background()
	h := host{pods: s.pods}
	c, err := configure(s)
	if err != nil {
		return err
	}
	access, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	// Without a cache each request asks the API server, which must not have to wait for its turn.
	access.QPS = -1
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	auth, follow, err := app.BuildAuth(types.NodeName(s.node), client, *c)
	if err != nil {
		return err
	}
	follow(ctx.Done())
	secure, err := transport(s)
	if err != nil {
		return err
	}
	tracer := noop.NewTracerProvider()
	if s.readOnlyPort != 0 {
		address, port := net.ParseIP(loopback), uint(s.readOnlyPort)
		go server.ListenAndServeKubeletReadOnlyServer(ctx, h, nothing{}, nil, nil, address, port, tracer)
	}
	server.ListenAndServeKubeletServer(ctx, h, nothing{}, nil, nil, c, secure, auth, tracer)
	return nil
}

func main() {
	if err := serve(parse()); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-http:", err)
		os.Exit(1)
	}
}
