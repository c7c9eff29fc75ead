package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Share is what another claim has of a device that several may have.
type Share struct {
	Device   [3]string                                      `json:"device"`
	Consumed map[resourcev1.QualifiedName]resource.Quantity `json:"consumed"`
}

// Devices is a question about devices instead of pods: what each node would allocate for the claims. Allocated names
// the devices that other claims have, as driver, pool and device.
type Devices struct {
	Slices    []resourcev1.ResourceSlice `json:"slices,omitempty"`
	Classes   []resourcev1.DeviceClass   `json:"classes,omitempty"`
	Claims    []resourcev1.ResourceClaim `json:"claims"`
	Allocated [][3]string                `json:"allocated,omitempty"`
	Shared    []Share                    `json:"shared,omitempty"`
	Nodes     []corev1.Node              `json:"nodes"`
}

// Allocation is the answer for one node: a result for each claim, nothing if they cannot be allocated, or an error.
type Allocation struct {
	Results []resourcev1.AllocationResult `json:"results"`
	Error   string                        `json:"error,omitempty"`
}

// The features of 1.37 that are on by default. They select the variant of the allocator that kube-scheduler uses.
var features = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

var selectors = cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})

func (d *Devices) allocate(ctx context.Context) ([]Allocation, error) {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, id := range d.Allocated {
		state.AllocatedDevices.Insert(structured.MakeDeviceID(id[0], id[1], id[2]))
	}
	for _, share := range d.Shared {
		id := structured.MakeDeviceID(share.Device[0], share.Device[1], share.Device[2])
		uid := types.UID("share")
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &uid))
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, share.Consumed))
	}
	allocator, err := structured.NewAllocator(ctx, features, state, classLister(d.Classes), pointers(d.Slices), selectors)
	if err != nil {
		return nil, err
	}
	found := make([]Allocation, len(d.Nodes))
	for i := range d.Nodes {
		// Some searches take years.
		limited, cancel := context.WithTimeout(ctx, time.Second)
		results, err := allocator.Allocate(limited, &d.Nodes[i], pointers(d.Claims))
		cancel()
		found[i].Results = results
		if err != nil {
			found[i].Error = err.Error()
		}
	}
	return found, nil
}

type classLister []resourcev1.DeviceClass

func (l classLister) List() ([]*resourcev1.DeviceClass, error) {
	return pointers(l), nil
}

func (l classLister) Get(name string) (*resourcev1.DeviceClass, error) {
	for i := range l {
		if l[i].Name == name {
			return &l[i], nil
		}
	}
	return nil, fmt.Errorf("device class %q not found", name)
}
