// Decodes the JSON of annotations with the types of YuniKorn's shim, for tests that compare Muster's decoder with Go's.
// A question is {"Kind": ..., "Text": ...}, an answer {"error": ...} or {"value": ...}.
package main

import (
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type taskGroup struct {
	Name                              string
	MinMember                         int32
	Labels, Annotations, NodeSelector map[string]string
	MinResource                       map[string]resource.Quantity
	Tolerations                       []v1.Toleration
	Affinity                          *v1.Affinity
	TopologySpreadConstraints         []v1.TopologySpreadConstraint
}

type userInfo struct {
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

func main() {
	questions, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var question struct{ Kind, Text string }
		if questions.Decode(&question) != nil {
			return
		}
		value := map[string]any{"task-groups": &[]taskGroup{}, "user.info": &userInfo{}, "quota": &map[string]string{}}[question.Kind]
		answer := map[string]any{"value": value}
		if err := json.Unmarshal([]byte(question.Text), value); err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		_ = answers.Encode(answer)
	}
}
