// SPDX-License-Identifier: Apache-2.0

// Evaluates device selectors with the CEL evaluator of Kubernetes. Each line of the input has an expression and a
// device; each line of the output has the result, the cost, or why the expression was rejected or failed.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	resource "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type input struct {
	Expression string                                            `json:"expression"`
	Driver     string                                            `json:"driver"`
	Attributes map[resource.QualifiedName]resource.DeviceAttribute `json:"attributes"`
	Capacity   map[resource.QualifiedName]resource.DeviceCapacity  `json:"capacity"`
}

type output struct {
	Selected bool   `json:"selected"`
	Cost     uint64 `json:"cost"`
	Rejected string `json:"rejected,omitempty"`
	Failed   string `json:"failed,omitempty"`
}

func evaluate(line input) (out output) {
	features := cel.Features{EnableConsumableCapacity: true}
	program := cel.GetCompiler(features).CompileCELExpression(line.Expression, cel.Options{DisableCostEstimation: true})
	if program.Error != nil {
		out.Rejected = program.Error.Error()
		return
	}
	device := cel.Device{Driver: line.Driver, Attributes: line.Attributes, Capacity: line.Capacity}
	selected, details, err := program.DeviceMatches(context.Background(), device)
	out.Selected = selected
	if err != nil {
		out.Failed = err.Error()
	}
	if details != nil && details.ActualCost() != nil {
		out.Cost = *details.ActualCost()
	}
	return
}

func main() {
	reader := json.NewDecoder(bufio.NewReader(os.Stdin))
	writer := json.NewEncoder(os.Stdout)
	for {
		var line input
		if reader.Decode(&line) != nil {
			return
		}
		if err := writer.Encode(evaluate(line)); err != nil {
			panic(err)
		}
	}
}
