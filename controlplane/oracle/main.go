package main

import (
	_ "github.com/opencontainers/cgroups"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/api/resource"
	_ "k8s.io/apimachinery/pkg/labels"
	_ "k8s.io/client-go/kubernetes/fake"
	_ "k8s.io/component-helpers/resource"
	_ "k8s.io/kubectl/pkg/describe"
	_ "k8s.io/kubernetes/pkg/api/pod"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/core/v1"
	_ "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	_ "k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/kubelet/cm"
	_ "k8s.io/kubernetes/pkg/kubelet/nodestatus"
	_ "k8s.io/kubernetes/pkg/kubelet/qos"
	_ "k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

func main() {}
