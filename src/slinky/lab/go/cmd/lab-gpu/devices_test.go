// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestInventoryIsStableAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, node := range []string{"node1", "node2"} {
		again := inventory(node, 8)
		for i, g := range inventory(node, 8) {
			if g != again[i] {
				t.Errorf("%s changed from %v to %v", g.name, g, again[i])
			}
			if seen[g.uuid] {
				t.Errorf("%s of %s has the uuid of another", g.name, node)
			}
			seen[g.uuid] = true
		}
	}
}

func TestResourcesPublishEveryDevice(t *testing.T) {
	published := resources("node1", "M1", resource.MustParse("80Gi"), inventory("node1", 3))
	devices := published.Pools["node1"].Slices[0].Devices
	if len(devices) != 3 {
		t.Fatalf("%d devices, want 3", len(devices))
	}
	if index := devices[2].Attributes["index"].IntValue; *index != 2 {
		t.Errorf("index is %d, want 2", *index)
	}
}
