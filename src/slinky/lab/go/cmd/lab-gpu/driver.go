// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// driver answers the kubelet. The kubeletplugin helper calls it for one claim set at a time.
type driver struct {
	gpus   map[string]gpu
	store  store
	cancel context.CancelCauseFunc
}

var _ kubeletplugin.DRAPlugin = (*driver)(nil)

func newDriver(gpus []gpu, cdiRoot string, cancel context.CancelCauseFunc) *driver {
	d := &driver{gpus: map[string]gpu{}, store: store{cdiRoot}, cancel: cancel}
	for _, g := range gpus {
		d.gpus[g.name] = g
	}
	return d
}

// PrepareResourceClaims makes the devices of the claims known to the container runtime.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	requests, err := granted(claim, d.gpus)
	if err != nil {
		return nil, err
	}
	holders, err := d.store.holders()
	if err != nil {
		return nil, err
	}
	for _, device := range allDevices(requests) {
		if holder, held := holders[device.name]; held && holder != claim.UID && !device.shared {
			return nil, fmt.Errorf("%s is still prepared for claim %s", device.name, holder)
		}
	}
	if err := d.store.save(claim.UID, spec(claim.UID, requests)); err != nil {
		return nil, err
	}
	return prepared(claim.UID, requests), nil
}

// UnprepareResourceClaims undoes PrepareResourceClaims, also for claims it has never seen.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		results[claim.UID] = d.store.remove(claim.UID)
	}
	return results, nil
}

// HandleError logs what the helper will retry, and ends the program on the rest.
func (d *driver) HandleError(ctx context.Context, err error, msg string) {
	runtime.HandleErrorWithContext(ctx, err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.cancel(fmt.Errorf("%s: %w", msg, err))
	}
}

// wholeClaim is no name that a request can have: the kubelet passes such a device on only to
// containers that use the claim as a whole.
const wholeClaim = "*"

// prepared is the kubelet's view of a claim: every granted device, with the CDI device of its
// request at the first of them.
func prepared(claim types.UID, requests []request) []kubeletplugin.Device {
	var devices []kubeletplugin.Device
	for _, r := range requests {
		cdi := []string{cdiID(requestDevice(claim, r.name))}
		for _, d := range r.devices {
			devices = append(devices, kubeletplugin.Device{
				Requests:     []string{r.name},
				PoolName:     d.pool,
				DeviceName:   d.name,
				CDIDeviceIDs: cdi,
			})
			cdi = nil
		}
	}
	if len(requests) > 1 {
		last := devices[len(devices)-1]
		last.Requests = []string{wholeClaim}
		last.CDIDeviceIDs = []string{cdiID(string(claim))}
		devices = append(devices, last)
	}
	return devices
}
