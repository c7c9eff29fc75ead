// Conformance: evaluates pods with kube-scheduler's own plugins, for comparison with Muster.
//
// Reads one JSON object a line, {"cluster": {...}, "pods": [...]}, and answers each with one line,
// {"results": [...]}, one result per pod in the same order; the pods do not see each other. The plugins are
// kube-scheduler's, with its default profile and feature gates. Preemption and binding are left out.
// A line {"devices": {...}} asks kube-scheduler's allocator of devices instead, and is answered with
// {"allocations": [...]}, one for each node.
// A test tool: nothing of the product uses it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	kjson "sigs.k8s.io/json"
)

// Answer is the answer to one line: results, or why there are none.
type Answer struct {
	Results     []Result     `json:"results"`
	Allocations []Allocation `json:"allocations,omitempty"`
	Error       string       `json:"error,omitempty"`
}

func main() {
	klog.SetLogger(klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	metrics.Register()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	answers := json.NewEncoder(writer)
	answers.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			if err := answers.Encode(answer(line)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func answer(line []byte) Answer {
	var question Question
	strict, err := kjson.UnmarshalStrict(line, &question)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	// Without this check, an unknown field would be dropped without an error, and two different pods compared.
	if len(strict) > 0 {
		return Answer{Error: strict[0].Error()}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if question.Devices != nil {
		allocations, err := question.Devices.allocate(ctx)
		if err != nil {
			return Answer{Error: err.Error()}
		}
		return Answer{Allocations: allocations}
	}
	bench, err := newBench(ctx, &question.Cluster)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	results := make([]Result, len(question.Pods))
	for i := range question.Pods {
		results[i] = bench.evaluate(ctx, &question.Pods[i])
	}
	return Answer{Results: results}
}
