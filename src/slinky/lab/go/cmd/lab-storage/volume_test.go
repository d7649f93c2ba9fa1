// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func TestHostPathStaysInsideTheNode(t *testing.T) {
	const root = "/state/{node}/volumes"
	for _, c := range []struct{ node, volume, want string }{
		{"node1", "pvc-1", "/state/node1/volumes/pvc-1"},
		{"node1", "", ""},
		{"", "pvc-1", ""},
		{"node1", "..", ""},
		{"..", "pvc-1", ""},
		{"node1", "../pvc-1", ""},
		{"node1/..", "pvc-1", ""},
	} {
		got, err := hostPath(root, c.node, c.volume)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("hostPath(%q, %q) is %q (%v), want %q", c.node, c.volume, got, err, c.want)
		}
	}
}

func TestVolumeIsTiedToItsNode(t *testing.T) {
	options := controller.ProvisionOptions{
		PVName:       "pvc-1",
		PVC:          &corev1.PersistentVolumeClaim{},
		StorageClass: &storagev1.StorageClass{ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete)},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node1", Labels: map[string]string{corev1.LabelHostname: "host1"},
	}}
	v := volume(options, node)
	if v.Spec.Local.Path != "/var/lib/slinky-volumes/pvc-1" {
		t.Errorf("path is %s", v.Spec.Local.Path)
	}
	wanted := v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if wanted.Key != corev1.LabelHostname || wanted.Values[0] != "host1" || v.Annotations[nodeAnnotation] != "node1" {
		t.Errorf("affinity is %v, annotations are %v", wanted, v.Annotations)
	}
}

func TestOnlyOneNodeAndFilesystemVolumes(t *testing.T) {
	claim := func(spec corev1.PersistentVolumeClaimSpec) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: spec}
	}
	for _, c := range []struct {
		spec corev1.PersistentVolumeClaimSpec
		ok   bool
	}{
		{corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}, true},
		{corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}}, true},
		{corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}, false},
		{corev1.PersistentVolumeClaimSpec{VolumeMode: ptr.To(corev1.PersistentVolumeBlock)}, false},
		{corev1.PersistentVolumeClaimSpec{Selector: &metav1.LabelSelector{}}, false},
	} {
		if reason := unsupported(claim(c.spec)); (reason == "") != c.ok {
			t.Errorf("%+v: %q", c.spec, reason)
		}
	}
}
