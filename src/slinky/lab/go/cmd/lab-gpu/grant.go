// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// request is the part of a claim that a container can ask for by itself.
type request struct {
	name    string
	devices []grantedDevice
}

// grantedDevice is one device of an allocation, as Kubernetes names it and as the node has it.
type grantedDevice struct {
	gpu
	pool   string
	shared bool // administrative access: the device may belong to somebody else at the same time
}

// granted reads from a claim which of this driver's devices it was given, request by request,
// in the order of the allocation.
func granted(claim *resourceapi.ResourceClaim, gpus map[string]gpu) ([]request, error) {
	if claim.Status.Allocation == nil {
		return nil, fmt.Errorf("claim %s/%s has no allocation", claim.Namespace, claim.Name)
	}
	var requests []request
	at := map[string]int{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		device, ok := gpus[result.Device]
		if !ok {
			return nil, fmt.Errorf("claim %s/%s was granted %s, which this node does not have", claim.Namespace, claim.Name, result.Device)
		}
		name := resourceclaim.BaseRequestRef(result.Request)
		i, ok := at[name]
		if !ok {
			i = len(requests)
			at[name] = i
			requests = append(requests, request{name: name})
		}
		shared := result.AdminAccess != nil && *result.AdminAccess
		requests[i].devices = append(requests[i].devices, grantedDevice{device, result.Pool, shared})
	}
	return requests, nil
}

// allDevices joins the devices of several requests.
func allDevices(requests []request) []grantedDevice {
	var devices []grantedDevice
	for _, r := range requests {
		devices = append(devices, r.devices...)
	}
	return devices
}
