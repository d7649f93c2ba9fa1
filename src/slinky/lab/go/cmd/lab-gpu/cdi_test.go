// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestSpecNamesExactlyTheGrantedDevices(t *testing.T) {
	gpus := inventory("node1", 4)
	requests := []request{
		{name: "big", devices: []grantedDevice{{gpu: gpus[3], pool: "node1"}, {gpu: gpus[1], pool: "node1"}}},
		{name: "small", devices: []grantedDevice{{gpu: gpus[0], pool: "node1"}}},
	}
	s := spec("c1", requests)

	want := map[string][]string{
		"c1-big":   {"GPU_DEVICES=gpu-3,gpu-1", "GPU_DEVICE_3=" + gpus[3].uuid, "GPU_DEVICE_1=" + gpus[1].uuid},
		"c1-small": {"GPU_DEVICES=gpu-0", "GPU_DEVICE_0=" + gpus[0].uuid},
		"c1": {"GPU_DEVICES=gpu-3,gpu-1,gpu-0", "GPU_DEVICE_3=" + gpus[3].uuid,
			"GPU_DEVICE_1=" + gpus[1].uuid, "GPU_DEVICE_0=" + gpus[0].uuid},
	}
	got := map[string][]string{}
	for _, device := range s.Devices {
		got[device.Name] = device.ContainerEdits.Env
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("devices are %v, want %v", got, want)
	}
}

func TestStoreRemembersAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "other.example.com-c1.json")
	if err := os.WriteFile(foreign, []byte("not ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	gpus := inventory("node1", 2)
	held := []request{{name: "r", devices: []grantedDevice{{gpu: gpus[0]}}}}
	watched := []request{{name: "r", devices: []grantedDevice{{gpu: gpus[1], shared: true}}}}
	if err := (store{dir}).save("c1", spec("c1", held)); err != nil {
		t.Fatal(err)
	}
	if err := (store{dir}).save("c2", spec("c2", watched)); err != nil {
		t.Fatal(err)
	}

	restarted := store{dir}
	holders, err := restarted.holders()
	if err != nil {
		t.Fatal(err)
	}
	if holders["gpu-0"] != "c1" || holders["gpu-1"] != "" {
		t.Errorf("holders are %v, want gpu-0 held by c1 and gpu-1 free", holders)
	}
	for range 2 { // the second time there is nothing to remove
		if err := restarted.remove("c1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("the file of another driver is gone: %v", err)
	}
}
