package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Result is what kube-scheduler finds for one pod. Message is empty if some node is left. Error: it could not say,
// and tries again later.
type Result struct {
	PreFilter *Refusal                    `json:"preFilter,omitempty"`
	Nodes     map[string]*Refusal         `json:"nodes"`
	Message   string                      `json:"message,omitempty"`
	Error     string                      `json:"error,omitempty"`
	Scores    map[string]map[string]int64 `json:"scores,omitempty"`
	Totals    map[string]int64            `json:"totals,omitempty"`
}

// Refusal is the status of the first plugin that refuses, null where none does. Resolvable: preemption might help.
type Refusal struct {
	Plugin     string   `json:"plugin,omitempty"`
	Resolvable bool     `json:"resolvable"`
	Reasons    []string `json:"reasons"`
}

func refusal(status *fwk.Status) *Refusal {
	return &Refusal{Plugin: status.Plugin(), Resolvable: status.Code() == fwk.Unschedulable, Reasons: status.Reasons()}
}

func (b *bench) evaluate(ctx context.Context, pod *corev1.Pod) Result {
	result := Result{Nodes: make(map[string]*Refusal, len(b.nodes))}
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	state := framework.NewCycleState()
	eligible, status, unsatisfied := b.framework.RunPreFilterPlugins(ctx, state, pod)
	var left []fwk.NodeInfo
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return Result{Error: status.AsError().Error()}
		}
		result.PreFilter = refusal(status)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		for _, node := range b.nodes {
			result.Nodes[node.Node().Name] = result.PreFilter
		}
	} else {
		// As findNodesThatFitPod says of the nodes that PreFilter leaves out.
		absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(unsatisfied)))
		if !eligible.AllNodes() {
			diagnosis.NodeToStatus.SetAbsentNodesStatus(absent)
		}
		for _, node := range b.nodes {
			name := node.Node().Name
			if !eligible.AllNodes() && !eligible.NodeNames.Has(name) {
				result.Nodes[name] = refusal(absent)
				continue
			}
			status := b.framework.RunFilterPlugins(ctx, state, pod, node)
			switch {
			case status.IsSuccess():
				result.Nodes[name] = nil
				left = append(left, node)
			case status.IsRejected():
				result.Nodes[name] = refusal(status)
				diagnosis.NodeToStatus.Set(name, status)
			default:
				return Result{Error: status.AsError().Error()}
			}
		}
	}
	if len(left) == 0 {
		result.Message = (&framework.FitError{Pod: pod, NumAllNodes: len(b.nodes), Diagnosis: diagnosis}).Error()
		return result
	}
	if err := b.score(ctx, state, pod, left, &result); err != nil {
		return Result{Error: err.Error()}
	}
	return result
}

// score keeps what each plugin gives, weighted, and the sum that decides.
func (b *bench) score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, result *Result) error {
	if status := b.framework.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		return fmt.Errorf("prescore: %w", status.AsError())
	}
	found, status := b.framework.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return fmt.Errorf("score: %w", status.AsError())
	}
	result.Scores = make(map[string]map[string]int64, len(found))
	result.Totals = make(map[string]int64, len(found))
	for _, node := range found {
		each := make(map[string]int64, len(node.Scores))
		for _, score := range node.Scores {
			each[score.Name] = score.Score
		}
		result.Scores[node.Name] = each
		result.Totals[node.Name] = node.TotalScore
	}
	return nil
}
