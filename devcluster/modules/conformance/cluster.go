package main

import (
	"context"
	"sort"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// Question is one line of input.
type Question struct {
	Cluster Cluster      `json:"cluster"`
	Pods    []corev1.Pod `json:"pods"`
	Devices *Devices     `json:"devices,omitempty"`
}

// Cluster is everything that the filters read. Pods are those that have a node.
type Cluster struct {
	Nodes                  []corev1.Node                  `json:"nodes,omitempty"`
	Pods                   []corev1.Pod                   `json:"pods,omitempty"`
	Namespaces             []corev1.Namespace             `json:"namespaces,omitempty"`
	PersistentVolumes      []corev1.PersistentVolume      `json:"persistentVolumes,omitempty"`
	PersistentVolumeClaims []corev1.PersistentVolumeClaim `json:"persistentVolumeClaims,omitempty"`
	StorageClasses         []storagev1.StorageClass       `json:"storageClasses,omitempty"`
	CSINodes               []storagev1.CSINode            `json:"csiNodes,omitempty"`
	CSIDrivers             []storagev1.CSIDriver          `json:"csiDrivers,omitempty"`
	VolumeAttachments      []storagev1.VolumeAttachment   `json:"volumeAttachments,omitempty"`
	CSIStorageCapacities   []storagev1.CSIStorageCapacity `json:"csiStorageCapacities,omitempty"`
}

// bench is the scheduling framework over one cluster that never changes.
type bench struct {
	framework framework.Framework
	nodes     []fwk.NodeInfo
}

var (
	// Never called: everything is read from the informers' stores.
	client  = clientset.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	profile = defaultProfile()
)

func defaultProfile() *schedulerapi.KubeSchedulerProfile {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var configuration schedulerapi.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &configuration, nil); err != nil {
		panic(err)
	}
	profile := &configuration.Profiles[0]
	// In 1.37.2 it ends the process if a CSIStorageCapacity has a maximum volume size and no capacity.
	profile.Plugins.Score.Disabled = append(profile.Plugins.Score.Disabled, schedulerapi.Plugin{Name: names.VolumeBinding})
	return profile
}

func newBench(ctx context.Context, cluster *Cluster) (*bench, error) {
	logger := klog.FromContext(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	// The informers are never started: their stores are filled directly, and nothing waits for them.
	if err := cluster.fill(factory); err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(logger, factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices(), KubeClient: client})
	if err != nil {
		return nil, err
	}
	snapshot := schedulercache.NewSnapshot(pointers(cluster.Pods), pointers(cluster.Nodes))
	built, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		runtime.WithClientSet(client),
		runtime.WithInformerFactory(factory),
		runtime.WithSnapshotSharedLister(snapshot),
		runtime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, slices, factory)),
		runtime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		runtime.WithMetricsRecorder(recorder),
		runtime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	// A snapshot lists its nodes in any order; answers are easier to read in one.
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Node().Name < nodes[j].Node().Name })
	return &bench{framework: built, nodes: nodes}, nil
}

var recorder = metrics.NewMetricsAsyncRecorder(1000, 0, closed())

// The metrics are not read, so the recorder ends immediately.
func closed() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (cluster *Cluster) fill(factory informers.SharedInformerFactory) error {
	core, storage := factory.Core().V1(), factory.Storage().V1()
	return firstError(
		store(core.Nodes().Informer(), cluster.Nodes),
		store(core.Pods().Informer(), cluster.Pods),
		store(core.Namespaces().Informer(), cluster.Namespaces),
		store(core.PersistentVolumes().Informer(), cluster.PersistentVolumes),
		store(core.PersistentVolumeClaims().Informer(), cluster.PersistentVolumeClaims),
		store(storage.StorageClasses().Informer(), cluster.StorageClasses),
		store(storage.CSINodes().Informer(), cluster.CSINodes),
		store(storage.CSIDrivers().Informer(), cluster.CSIDrivers),
		store(storage.VolumeAttachments().Informer(), cluster.VolumeAttachments),
		store(storage.CSIStorageCapacities().Informer(), cluster.CSIStorageCapacities),
	)
}

func store[Object any](informer cache.SharedIndexInformer, objects []Object) error {
	for _, object := range pointers(objects) {
		if err := informer.GetIndexer().Add(object); err != nil {
			return err
		}
	}
	return nil
}

func pointers[Object any](objects []Object) []*Object {
	found := make([]*Object, len(objects))
	for i := range objects {
		found[i] = &objects[i]
	}
	return found
}

func firstError(errors ...error) error {
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}
