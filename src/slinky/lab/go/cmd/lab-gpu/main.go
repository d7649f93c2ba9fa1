// SPDX-License-Identifier: Apache-2.0

// Command lab-gpu is a DRA driver for one node with GPUs that do not exist.
// It publishes them as a ResourceSlice and tells containers through their environment which ones
// they were given: GPU_DEVICE_<index>=<uuid> for each device, and GPU_DEVICES with the names of all
// (of one claim or request only, where a container names several: a variable has one value).
// The CDI files that say so are its only state. There is nothing behind the devices.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
)

const driverName = "gpu.example.com"

type options struct {
	node, kubeconfig                 string
	devices                          int
	model, memory                    string
	pluginsDir, registryDir, cdiRoot string
}

func main() {
	var o options
	flag.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "the node that has the devices (default $NODE_NAME)")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty inside a cluster")
	flag.IntVar(&o.devices, "devices", 8, "number of GPUs")
	flag.StringVar(&o.model, "model", "LAB-80G", "model of the GPUs")
	flag.StringVar(&o.memory, "memory", "80Gi", "memory of one GPU")
	flag.StringVar(&o.pluginsDir, "plugins-dir", kubeletplugin.KubeletPluginsDir, "where the kubelet keeps plugins")
	flag.StringVar(&o.registryDir, "registry-dir", kubeletplugin.KubeletRegistryDir, "where the kubelet looks for new plugins")
	flag.StringVar(&o.cdiRoot, "cdi-root", "/var/run/cdi", "where the container runtime looks for CDI specs")
	klog.InitFlags(nil)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		klog.ErrorS(err, "lab-gpu failed")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func run(ctx context.Context, o options) error {
	if o.node == "" {
		return errors.New("--node-name is needed")
	}
	memory, err := resource.ParseQuantity(o.memory)
	if err != nil {
		return fmt.Errorf("--memory: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	data := filepath.Join(o.pluginsDir, driverName)
	for _, dir := range []string{data, o.registryDir, o.cdiRoot} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gpus := inventory(o.node, o.devices)
	helper, err := kubeletplugin.Start(ctx, newDriver(gpus, o.cdiRoot, cancel),
		kubeletplugin.DriverName(driverName),
		kubeletplugin.NodeName(o.node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(o.registryDir),
	)
	if err != nil {
		return fmt.Errorf("start plugin: %w", err)
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, resources(o.node, o.model, memory, gpus)); err != nil {
		return fmt.Errorf("publish devices: %w", err)
	}
	klog.InfoS("Serving", "node", o.node, "devices", len(gpus))

	<-ctx.Done()
	// A signal is the ordinary end; any other cause came from HandleError.
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
