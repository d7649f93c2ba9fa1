// SPDX-License-Identifier: Apache-2.0

// Command lab-storage makes a volume for every claim of a StorageClass with the provisioner
// slinky.slurm.net/local: a directory on the node that the scheduler chose, removed with the volume.
// All nodes of the lab are on one machine, so it reaches their directories itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const provisionerName = "slinky.slurm.net/local"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file; empty inside a cluster")
	nodeRoot := flag.String("node-root", "", "this machine's path of a node's "+volumesDir+", with {node} for the node's name")
	klog.InitFlags(nil)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *kubeconfig, *nodeRoot); err != nil {
		klog.ErrorS(err, "lab-storage failed")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func run(ctx context.Context, kubeconfig, nodeRoot string) error {
	if !strings.Contains(nodeRoot, nodeMark) {
		return errors.New("--node-root is needed, with " + nodeMark + " in it")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	controller.NewProvisionController(ctx, client, provisionerName,
		&provisioner{client: client, nodeRoot: nodeRoot},
		controller.LeaderElection(false),
	).Run(ctx)
	return nil
}
