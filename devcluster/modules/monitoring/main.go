// Monitoring: checks dashboards and alert rules with the libraries of Grafana and Prometheus.
//
// "monitoring FILE..." reads dashboards (.json) and Prometheus rule files (.yaml), prints each problem on a line, and
// ends with status 1 if there is one. Dashboards are decoded strictly into Grafana's own types, so that unknown fields
// and values of another type are problems, and their queries are parsed as PromQL. A test tool.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// Grafana replaces its variables before it sends a query.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h", "${", "", "$", "", "}", "}")

func main() {
	plugins.RegisterDefaultPlugins()
	failed := false
	for _, file := range os.Args[1:] {
		for _, problem := range problems(file) {
			fmt.Printf("%s: %v\n", file, problem)
			failed = true
		}
	}
	if failed || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func problems(file string) []error {
	content, err := os.ReadFile(file)
	if err != nil {
		return []error{err}
	}
	if filepath.Ext(file) == ".json" {
		return dashboardProblems(content)
	}
	_, errs := rulefmt.Parse(content, false, model.UTF8Validation)
	return errs
}

func dashboardProblems(content []byte) []error {
	var found dashboard.Dashboard
	errs := []error{found.UnmarshalJSONStrict(content), found.Validate()}
	var raw struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	errs = append(errs, json.Unmarshal(content, &raw))
	queries := 0
	for _, panel := range raw.Panels {
		for _, target := range panel.Targets {
			queries++
			if _, err := parser.ParseExpr(variables.Replace(target.Expr)); err != nil {
				errs = append(errs, fmt.Errorf("panel %q: %w", panel.Title, err))
			}
		}
	}
	if queries == 0 {
		errs = append(errs, errors.New("no panel has a query"))
	}
	var left []error
	for _, err := range errs {
		if err != nil {
			left = append(left, err)
		}
	}
	return left
}
