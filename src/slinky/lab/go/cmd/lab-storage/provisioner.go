// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisioner makes and removes the directories. The library's controller decides when.
type provisioner struct {
	client   kubernetes.Interface
	nodeRoot string
}

var _ controller.Provisioner = (*provisioner)(nil)

// Provision makes the directory of a claim on the node where its first pod will run.
func (p *provisioner) Provision(ctx context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	fail := func(err error) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
		return nil, controller.ProvisioningFinished, err
	}
	if reason := unsupported(options.PVC); reason != "" {
		return fail(errors.New(reason))
	}
	if options.SelectedNodeName == "" {
		return fail(fmt.Errorf("storage class %s must have volumeBindingMode WaitForFirstConsumer", options.StorageClass.Name))
	}
	node, err := p.client.CoreV1().Nodes().Get(ctx, options.SelectedNodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("the chosen node is gone: %w", err)
	}
	if err != nil {
		return nil, controller.ProvisioningNoChange, fmt.Errorf("get node: %w", err)
	}
	path, err := hostPath(p.nodeRoot, node.Name, options.PVName)
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fail(fmt.Errorf("make volume: %w", err))
	}
	klog.InfoS("Made volume", "volume", options.PVName, "node", node.Name, "path", path)
	return volume(options, node), controller.ProvisioningFinished, nil
}

// Delete removes the directory of a released volume; one that is gone already is no error.
func (p *provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	path, err := hostPath(p.nodeRoot, volume.Annotations[nodeAnnotation], volume.Name)
	if err != nil {
		return fmt.Errorf("find volume: %w", err)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove volume: %w", err)
	}
	klog.InfoS("Removed volume", "volume", volume.Name, "path", path)
	return nil
}
