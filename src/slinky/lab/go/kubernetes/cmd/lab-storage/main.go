package main

import (
	_ "k8s.io/dynamic-resource-allocation/kubeletplugin"
	_ "sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
	_ "tags.cncf.io/container-device-interface/pkg/cdi"
	_ "tags.cncf.io/container-device-interface/specs-go"
)

func main() {}
