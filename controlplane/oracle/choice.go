package main

import (
	"context"
	"encoding/json"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func init() {
	register("choice", choice)
}

type choiceView struct {
	Scores  map[string]int64    `json:"scores"`
	Reasons map[string][]string `json:"reasons"`
	Message string              `json:"message"`
}

// choice runs one scheduling attempt with every plugin the scheduler has by default: the score of
// each node that fits, the reasons of each that does not, and the message if none does.
func choice(args json.RawMessage) (any, error) {
	var in struct {
		Cases []cluster `json:"cases"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	registerMetrics()
	out := make([]*choiceView, 0, len(in.Cases))
	for i := range in.Cases {
		view, err := choose(&in.Cases[i])
		if err != nil {
			return nil, err
		}
		out = append(out, view)
	}
	return out, nil
}

func choose(c *cluster) (*choiceView, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nodes, assigned := c.defaulted()
	scheduler, infos, err := defaultFramework(ctx, c, nodes, assigned)
	if err != nil {
		return nil, err
	}
	view := &choiceView{Scores: map[string]int64{}, Reasons: map[string][]string{}}
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	named, status, plugins := scheduler.RunPreFilterPlugins(ctx, state, &c.Pod)
	var fitting []fwk.NodeInfo
	if status.IsSuccess() {
		fitting = filtered(ctx, c, scheduler, state, infos, named, plugins.UnsortedList(), &diagnosis, view)
	} else if status.IsRejected() {
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
	} else {
		return nil, status.AsError()
	}
	if len(fitting) > 0 {
		return view, score(ctx, c, scheduler, state, fitting, view)
	}
	_, status = scheduler.RunPostFilterPlugins(ctx, state, &c.Pod, diagnosis.NodeToStatus)
	diagnosis.PostFilterMsg = status.Message()
	failure := &framework.FitError{Pod: &c.Pod, NumAllNodes: len(nodes), Diagnosis: diagnosis}
	view.Message = failure.Error()
	return view, nil
}

// filtered asks only the nodes that the pod's affinity names, where it does.
func filtered(ctx context.Context, c *cluster, scheduler framework.Framework, state fwk.CycleState, infos []fwk.NodeInfo, named *fwk.PreFilterResult, plugins []string, diagnosis *framework.Diagnosis, view *choiceView) (fitting []fwk.NodeInfo) {
	if !named.AllNodes() {
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy plugin(s) ["+plugins[0]+"]"))
	}
	for _, info := range infos {
		name := info.Node().Name
		if !named.AllNodes() && !named.NodeNames.Has(name) {
			continue
		}
		status := scheduler.RunFilterPluginsWithNominatedPods(ctx, state, &c.Pod, info)
		if status.IsSuccess() {
			fitting = append(fitting, info)
			continue
		}
		diagnosis.NodeToStatus.Set(name, status)
		view.Reasons[name] = status.Reasons()
	}
	return fitting
}

func score(ctx context.Context, c *cluster, scheduler framework.Framework, state fwk.CycleState, fitting []fwk.NodeInfo, view *choiceView) error {
	if status := scheduler.RunPreScorePlugins(ctx, state, &c.Pod, fitting); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := scheduler.RunScorePlugins(ctx, state, &c.Pod, fitting)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for _, node := range scores {
		view.Scores[node.Name] = node.TotalScore
	}
	return nil
}
