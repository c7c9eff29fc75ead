"""Filter plugins that read volumes: VolumeBinding, VolumeRestrictions, NodeVolumeLimits and VolumeZone."""
