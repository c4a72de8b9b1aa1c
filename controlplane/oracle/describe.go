package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubectl/pkg/describe"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

func init() {
	register("describe_node", describeNode)
	register("tabwriter", tabwriterTexts)
	register("human_duration", humanDurations)
}

type describedNode struct {
	Text string `json:"text"`
	// Ages are counted from a moment between these two.
	Before time.Time `json:"before"`
	After  time.Time `json:"after"`
}

// describeNode gives kubectl's text for a node, with times in a zone so many seconds east of UTC.
func describeNode(args json.RawMessage) (any, error) {
	var in struct {
		Zone  int                   `json:"zone"`
		Node  json.RawMessage       `json:"node"`
		Pods  json.RawMessage       `json:"pods"`
		Event *corev1.Event         `json:"event"`
		Lease *coordinationv1.Lease `json:"lease"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	// Decoding an object's times already brings them into the local zone.
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = time.FixedZone("", in.Zone)
	var node corev1.Node
	if err := json.Unmarshal(in.Node, &node); err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	if err := json.Unmarshal(in.Pods, &pods); err != nil {
		return nil, err
	}
	corev1defaults.SetDefaults_NodeStatus(&node.Status)

	objects := []runtime.Object{&node}
	if in.Event != nil {
		objects = append(objects, in.Event)
	}
	if in.Lease != nil {
		objects = append(objects, in.Lease)
	}
	client := fake.NewSimpleClientset(objects...)
	client.PrependReactor("list", "pods", podsLikeAServer(pods))
	describer := describe.NodeDescriber{Interface: client}
	before := time.Now()
	text, err := describer.Describe("", node.Name, describe.DescriberSettings{ShowEvents: true})
	if err != nil {
		return nil, err
	}
	return describedNode{Text: text, Before: before.UTC(), After: time.Now().UTC()}, nil
}

// podsLikeAServer does what the fake client does not: it obeys the field selector, and gives
// the pods in the order of their keys in etcd.
func podsLikeAServer(pods []corev1.Pod) clienttesting.ReactionFunc {
	key := func(pod corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
	sort.SliceStable(pods, func(i, j int) bool { return key(pods[i]) < key(pods[j]) })
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, ok := action.(clienttesting.ListAction)
		if !ok {
			return true, nil, fmt.Errorf("not a list: %v", action)
		}
		selector := list.GetListRestrictions().Fields
		found := &corev1.PodList{}
		for _, pod := range pods {
			if selector.Matches(fields.Set{"spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase)}) {
				found.Items = append(found.Items, pod)
			}
		}
		return true, found, nil
	}
}

// tabwriterTexts writes each text through kubectl's prefix writer into a tabwriter with the
// settings kubectl uses to describe things.
func tabwriterTexts(args json.RawMessage) (any, error) {
	var in struct {
		Texts []string `json:"texts"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(in.Texts))
	for _, text := range in.Texts {
		var written strings.Builder
		tabs := new(tabwriter.Writer).Init(&written, 0, 8, 2, ' ', 0)
		describe.NewPrefixWriter(tabs).Write(describe.LEVEL_0, "%s", text)
		if err := tabs.Flush(); err != nil {
			return nil, err
		}
		out = append(out, written.String())
	}
	return out, nil
}

// humanDurations takes durations in microseconds.
func humanDurations(args json.RawMessage) (any, error) {
	var in struct {
		Micros []int64 `json:"micros"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(in.Micros))
	for _, micros := range in.Micros {
		out = append(out, duration.HumanDuration(time.Duration(micros)*time.Microsecond))
	}
	return out, nil
}
