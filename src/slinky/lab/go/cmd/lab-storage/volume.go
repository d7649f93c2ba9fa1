// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	// volumesDir is where a node has its volumes.
	volumesDir = "/var/lib/slinky-volumes"
	// nodeAnnotation names the node of a volume; the hostname label of its affinity may differ.
	nodeAnnotation = "slinky.slurm.net/node"
	// nodeMark stands for the node's name in --node-root.
	nodeMark = "{node}"
)

// hostPath is this machine's path of a volume. Names come from the API, so a name that
// would lead out of the directory is an error.
func hostPath(nodeRoot, node, volume string) (string, error) {
	for _, name := range []string{node, volume} {
		if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
			return "", fmt.Errorf("%q is no name of a directory", name)
		}
	}
	return filepath.Join(strings.ReplaceAll(nodeRoot, nodeMark, node), volume), nil
}

// unsupported says why no volume can be made for a claim, or nothing.
func unsupported(claim *corev1.PersistentVolumeClaim) string {
	if mode := claim.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return "only volumeMode Filesystem is possible"
	}
	if claim.Spec.Selector != nil {
		return "a selector is not possible"
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}, mode) {
			return fmt.Sprintf("%s is not possible: the volume is on one node", mode)
		}
	}
	return ""
}

// volume describes the directory to Kubernetes. It is of type local, not hostPath, because
// the kubelet gives a local volume to the pod's fsGroup.
func volume(options controller.ProvisionOptions, node *corev1.Node) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        options.PVName,
			Annotations: map[string]string{nodeAnnotation: node.Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			MountOptions:                  options.StorageClass.MountOptions,
			Capacity:                      options.PVC.Spec.Resources.Requests.DeepCopy(),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: filepath.Join(volumesDir, options.PVName)},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key:      corev1.LabelHostname,
						Operator: corev1.NodeSelectorOpIn,
						Values:   []string{node.Labels[corev1.LabelHostname]},
					}},
				}},
			}},
		},
	}
}
