// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func claim(uid types.UID, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: string(uid), Namespace: "default", UID: uid},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: results},
		}},
	}
}

func result(driver, request, device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Driver: driver, Pool: "node1", Request: request, Device: device}
}

func TestPrepareIsIdempotentAndGuardsItsDevices(t *testing.T) {
	d := newDriver(inventory("node1", 2), t.TempDir(), nil)
	first := claim("c1", result(driverName, "r", "gpu-0"))
	for range 2 {
		devices, err := d.prepare(first)
		if err != nil {
			t.Fatal(err)
		}
		if len(devices) != 1 || devices[0].DeviceName != "gpu-0" {
			t.Errorf("devices are %v, want gpu-0 alone", devices)
		}
	}
	second := claim("c2", result(driverName, "r", "gpu-0"))
	if _, err := d.prepare(second); err == nil || !strings.Contains(err.Error(), "claim c1") {
		t.Errorf("a device in use was prepared twice: %v", err)
	}
	if err := d.store.remove("c1"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.prepare(second); err != nil {
		t.Errorf("a released device was refused: %v", err)
	}
}

func TestPrepareReadsItsOwnPartOfTheClaim(t *testing.T) {
	d := newDriver(inventory("node1", 4), t.TempDir(), nil)
	devices, err := d.prepare(claim("c1",
		result("nic.example.com", "nic", "eth0"),
		result(driverName, "any/first", "gpu-2"),
		result(driverName, "any/first", "gpu-3"),
		result(driverName, "one", "gpu-0"),
	))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, device := range devices {
		got = append(got, strings.Join(append(append(device.Requests, device.DeviceName), device.CDIDeviceIDs...), " "))
	}
	want := []string{
		"any gpu-2 gpu.example.com/claim=c1-any",
		"any gpu-3",
		"one gpu-0 gpu.example.com/claim=c1-one",
		"* gpu-0 gpu.example.com/claim=c1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("prepared\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := d.prepare(claim("c2", result(driverName, "r", "gpu-9"))); err == nil {
		t.Error("a device that the node does not have was prepared")
	}
}
