"""The filters that read what pods use of volumes: VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.

In reading order: `claims` sorts a pod's claims and says why a pod can go
nowhere; `reach` is where volumes are reached from. `restrictions`, `limits`
and `zone` are a filter each. `binding` is the third of them and the largest:
it finds free volumes with `matching`, asks `provisioning` where one can be
made, and says what each claim of a pod gets on the node that is chosen.
"""
