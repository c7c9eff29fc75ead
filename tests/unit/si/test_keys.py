"""The constants have the values of the Scheduler Interface specification, and no constant has two names."""

from muster_si import keys

SPECIFIED = {
    "ARCH": "si/arch",
    "HOST_NAME": "si/hostname",
    "RACK_NAME": "si/rackname",
    "OS": "si/os",
    "INSTANCE_TYPE": "si/instance-type",
    "FAILURE_DOMAIN_ZONE": "si/zone",
    "FAILURE_DOMAIN_REGION": "si/region",
    "LOCAL_IMAGES": "si/local-images",
    "NODE_PARTITION": "si/node-partition",
    "NODE_READY": "ready",
    "APPLICATION_ID": "si/application-id",
    "CONTAINER_IMAGE": "si/container-image",
    "CONTAINER_PORTS": "si/container-ports",
    "DOMAIN_K8S": "kubernetes.io/",
    "DOMAIN_YUNIKORN": "yunikorn.apache.org/",
    "GROUP_META": "meta/",
    "GROUP_LABEL": "label/",
    "GROUP_ANNOTATION": "annotation/",
    "TAG_CREATION_TIME": "creationTime",
    "MEMORY": "memory",
    "CPU": "vcore",
    "APP_TAG_RESOURCE_QUOTA": "namespace.resourcequota",
    "APP_TAG_RESOURCE_GUARANTEED": "namespace.resourceguaranteed",
    "APP_TAG_STATE_AWARE_DISABLE": "application.stateaware.disable",
    "APP_TAG_CREATE_FORCE": "application.create.force",
}


def test_the_constants_have_the_values_of_the_specification() -> None:
    assert {name: getattr(keys, name) for name in SPECIFIED} == SPECIFIED


def test_tags_are_domain_group_and_key_in_this_order() -> None:
    assert keys.TAG_NAMESPACE == keys.DOMAIN_K8S + keys.GROUP_META + "namespace"
    assert keys.TAG_POD_NAME == keys.DOMAIN_K8S + keys.GROUP_META + "podName"
    assert keys.TAG_REQUIRED_NODE == keys.DOMAIN_YUNIKORN + "requiredNode"
    assert keys.TAG_POD_LABEL_PREFIX == keys.DOMAIN_K8S + keys.GROUP_LABEL


def test_every_muster_key_and_tag_is_unique() -> None:
    names = {name: value for name, value in vars(keys).items() if isinstance(value, str) and name.isupper()}
    ours = [value for value in names.values() if value.startswith("muster/")]
    assert len(ours) == len(set(ours))
    tags = [value for name, value in names.items() if name.startswith("TAG_")]
    assert len(tags) == len(set(tags))
