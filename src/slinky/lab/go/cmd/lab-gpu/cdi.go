// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

const (
	cdiVersion = "0.6.0" // the first with annotations
	cdiKind    = driverName + "/claim"
	// heldAnnotation names the devices that a prepared claim has for itself.
	heldAnnotation = driverName + "/held"
)

// spec describes a prepared claim to the container runtime: one CDI device for each request,
// and one for the claim as a whole. The runtime lets the last value of a variable win, so a
// container that gets several requests must be given the one of the whole claim last.
func spec(claim types.UID, requests []request) *cdi.Spec {
	s := &cdi.Spec{Version: cdiVersion, Kind: cdiKind}
	for _, r := range requests {
		s.Devices = append(s.Devices, cdiDevice(requestDevice(claim, r.name), r.devices))
	}
	all := allDevices(requests)
	s.Devices = append(s.Devices, cdiDevice(string(claim), all))

	var held []string
	for _, d := range all {
		if !d.shared {
			held = append(held, d.name)
		}
	}
	s.Annotations = map[string]string{heldAnnotation: strings.Join(held, ",")}
	return s
}

func requestDevice(claim types.UID, request string) string {
	return fmt.Sprintf("%s-%s", claim, request)
}

func cdiID(device string) string {
	return cdiKind + "=" + device
}

// cdiDevice puts the granted devices into the environment: GPU_DEVICES with all names,
// and GPU_DEVICE_<index> with the uuid of each.
func cdiDevice(name string, devices []grantedDevice) cdi.Device {
	var names, uuids []string
	for _, d := range devices {
		names = append(names, d.name)
		uuids = append(uuids, fmt.Sprintf("GPU_DEVICE_%d=%s", d.index, d.uuid))
	}
	env := append([]string{"GPU_DEVICES=" + strings.Join(names, ",")}, uuids...)
	return cdi.Device{Name: name, ContainerEdits: cdi.ContainerEdits{Env: env}}
}

// store keeps one CDI file for each prepared claim. The files are the driver's only memory,
// so they also tell a restarted driver what is prepared.
type store struct{ dir string }

// file names carry the driver's name: other drivers write into the same directory.
func (s store) path(claim types.UID) string {
	return filepath.Join(s.dir, driverName+"-"+string(claim)+".json")
}

// save writes the file of a claim in one step; the runtime may read at any moment.
func (s store) save(claim types.UID, spec *cdi.Spec) error {
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode CDI spec: %w", err)
	}
	path := s.path(claim)
	// The runtime takes notice of names that end in .json only.
	draft := path + ".tmp"
	if err := os.WriteFile(draft, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write CDI spec: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("write CDI spec: %w", err)
	}
	return nil
}

// remove forgets a claim; forgetting an unknown one is no error.
func (s store) remove(claim types.UID) error {
	if err := os.Remove(s.path(claim)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove CDI spec: %w", err)
	}
	return nil
}

// holders says which prepared claim has which device.
func (s store) holders() (map[string]types.UID, error) {
	files, err := filepath.Glob(s.path("*"))
	if err != nil {
		return nil, fmt.Errorf("list CDI specs: %w", err)
	}
	holders := map[string]types.UID{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read CDI spec: %w", err)
		}
		var spec cdi.Spec
		if err := json.Unmarshal(data, &spec); err != nil {
			return nil, fmt.Errorf("decode CDI spec %s: %w", file, err)
		}
		claim := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), driverName+"-"), ".json")
		for device := range strings.SplitSeq(spec.Annotations[heldAnnotation], ",") {
			holders[device] = types.UID(claim)
		}
	}
	return holders, nil
}
