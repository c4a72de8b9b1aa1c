// This oracle answers with AAQ's own calculator what launcher pods of VMs cost, one JSON object per line.
//
//	in:  {"op": "vmi-usage", "args": {"cases": [{"mode": "...", "pod": {...}, "pods": [...], ...}]}}
//	out: {"result": [{"usage": {...}, "match": true, "error": "", "panic": ""}]}
//
// It is a module of its own, because AAQ pins another version of Kubernetes.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	virtv1 "kubevirt.io/api/core/v1"
	calculators "kubevirt.io/application-aware-quota/pkg/aaq-controller/built-in-usage-calculators"
	"kubevirt.io/application-aware-quota/pkg/log"
	"kubevirt.io/application-aware-quota/staging/src/kubevirt.io/application-aware-quota-api/pkg/apis/core/v1alpha1"
)

type usageCase struct {
	Mode       v1alpha1.VmiCalcConfigName               `json:"mode"`
	Pod        *corev1.Pod                              `json:"pod"`
	Pods       []*corev1.Pod                            `json:"pods"`
	Vmis       []virtv1.VirtualMachineInstance          `json:"vmis"`
	Migrations []virtv1.VirtualMachineInstanceMigration `json:"migrations"`
	Kubevirts  []virtv1.KubeVirt                        `json:"kubevirts"`
}

type usageAnswer struct {
	Usage corev1.ResourceList `json:"usage"`
	Match bool                `json:"match"`
	Error string              `json:"error"`
	Panic string              `json:"panic"`
}

type request struct {
	Op   string `json:"op"`
	Args struct {
		Cases []usageCase `json:"cases"`
	} `json:"args"`
}

type response struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// informerOf holds objects as an informer does that has listed them. It is never started.
func informerOf(example runtime.Object, objects []runtime.Object) cache.SharedIndexInformer {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, byNamespace)
	for _, each := range objects {
		if err := informer.GetIndexer().Add(each); err != nil {
			panic(err)
		}
	}
	return informer
}

func usageOf(asked *usageCase) (out usageAnswer) {
	defer func() {
		if p := recover(); p != nil {
			out = usageAnswer{Panic: fmt.Sprint(p)}
		}
	}()
	var vmis, migrations, kubevirts []runtime.Object
	for i := range asked.Vmis {
		vmis = append(vmis, &asked.Vmis[i])
	}
	for i := range asked.Migrations {
		migrations = append(migrations, &asked.Migrations[i])
	}
	for i := range asked.Kubevirts {
		kubevirts = append(kubevirts, &asked.Kubevirts[i])
	}
	calculator := calculators.NewVirtLauncherCalculator(
		informerOf(&virtv1.KubeVirt{}, kubevirts),
		informerOf(&virtv1.VirtualMachineInstance{}, vmis),
		informerOf(&virtv1.VirtualMachineInstanceMigration{}, migrations),
		asked.Mode,
	)
	usage, err, match := calculator.PodUsageFunc(asked.Pod, asked.Pods)
	out = usageAnswer{Usage: usage, Match: match}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

func answer(line []byte) response {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return response{Error: err.Error()}
	}
	if asked.Op != "vmi-usage" {
		return response{Error: "unknown operation: " + asked.Op}
	}
	answers := make([]usageAnswer, 0, len(asked.Args.Cases))
	for i := range asked.Args.Cases {
		answers = append(answers, usageOf(&asked.Args.Cases[i]))
	}
	return response{Result: answers}
}

func main() {
	// AAQ logs each VM without memory or CPU as an error.
	log.Log.SetIOWriter(io.Discard)
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := out.Encode(answer(line)); err != nil {
				fmt.Fprintln(os.Stderr, "vmi-oracle:", err)
				os.Exit(1)
			}
		}
		if err != nil {
			return
		}
	}
}
