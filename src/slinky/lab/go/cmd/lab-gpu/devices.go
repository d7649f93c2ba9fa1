// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/google/uuid"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

// driverVersion is published with every device, as a semantic version that CEL can compare.
const driverVersion = "1.0.0"

// gpu is one device that does not exist.
type gpu struct {
	name  string
	index int
	uuid  string
}

// inventory lists the GPUs of a node. It depends on nothing but its arguments,
// so a restarted driver offers the very same devices.
func inventory(node string, count int) []gpu {
	gpus := make([]gpu, count)
	for i := range gpus {
		id := uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Appendf(nil, "%s/%s/%d", driverName, node, i))
		gpus[i] = gpu{name: fmt.Sprintf("gpu-%d", i), index: i, uuid: "GPU-" + id.String()}
	}
	return gpus
}

// resources is what the driver publishes: one pool, named after the node, in one slice.
func resources(node, model string, memory resource.Quantity, gpus []gpu) resourceslice.DriverResources {
	devices := make([]resourceapi.Device, len(gpus))
	for i, g := range gpus {
		devices[i] = resourceapi.Device{
			Name: g.name,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"index":         {IntValue: ptr.To(int64(g.index))},
				"uuid":          {StringValue: ptr.To(g.uuid)},
				"model":         {StringValue: ptr.To(model)},
				"driverVersion": {VersionValue: ptr.To(driverVersion)},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: memory},
			},
		}
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		node: {Slices: []resourceslice.Slice{{Devices: devices}}},
	}}
}
