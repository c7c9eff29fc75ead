"""Objects of Dynamic Resource Allocation as values of ``model``, the claims of a pod, and allocations as written.

What Muster does not support is named in the field ``unsupported`` of what has it, and is never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final
from uuid import UUID, uuid5

import orjson

from muster_operator.model import limits
from muster_operator.model.devices import (
    ChosenDevice,
    ChosenDevices,
    ClaimRequest,
    DeviceClaim,
    DeviceClass,
    DeviceConfiguration,
    DeviceSlice,
    PodClaim,
    TaintRule,
)
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import PodUid, added, larger
from muster_operator.model.names import FIELD_MANAGER
from muster_operator.model.storage import ClaimRef, ClusterObject, ObjectKind
from muster_operator.translate.constraints import node_term
from muster_operator.translate.storage import for_core, version_of
from muster_operator.translate.values import (
    Raw,
    canonical,
    controller,
    epoch_ms,
    integer,
    items,
    mapping,
    objects,
    shown,
    text,
    text_bytes,
)
from muster_si import keys

#: Fields of a device or of a result that Muster does not support, and the name of the feature.
_DEVICE_FEATURES: Final[Mapping[str, str]] = {
    "nodeAllocatableResources": "node-allocatable resources (nodeAllocatableResources)",
}
_OLD_COUNTERS: Final = "shared counters beside devices (the form of Kubernetes 1.34)"
_SLICE_FEATURES: Final[Mapping[str, str]] = {
    "partitionTypeAttribute": "compatibility groups (partitionTypeAttribute)",
    "skipNodeOperations": "optional node operations (skipNodeOperations)",
}
_REQUEST_FEATURES: Final[Mapping[str, str]] = {
    "derivedAttributes": "derived attributes (derivedAttributes)",
}

#: Kinds of attribute values. Those of other kinds are lists.
_VALUES: Final = ("bool", "int", "string", "version")
_MODES: Final = frozenset({"ExactCount", "All"})
_OPERATORS: Final = frozenset({"", "Equal", "Exists"})
_SHARES: Final = UUID("5f0e8f4c-6a1c-4b0c-9d53-2f1a6a1f7c11")
_DEVICE_ID: Final = ("request", "driver", "pool", "device")
_TOLERATION_FIELDS: Final = ("key", "operator", "value", "effect", "tolerationSeconds")


def _first_feature(raw: Raw, features: Mapping[str, str]) -> str:
    """The first of the features that the object uses; empty = none."""
    return next((feature for field, feature in features.items() if raw.get(field)), "")


def _compact(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those that are empty; 0 is kept."""
    return {field: value for field, value in fields.items() if value or (value == 0 and value is not False)}


def _where(raw: Raw) -> dict[str, Any]:
    """Where the devices of a slice, or one of its devices, can be used."""
    selector = raw.get("nodeSelector")
    return {
        "node": text(raw.get("nodeName")),
        "nodes": _terms(selector) if isinstance(selector, dict) else None,
        "all": raw.get("allNodes") is True,
    }


def _terms(selector: Raw) -> list[Raw]:
    return [node_term(term) for term in objects(selector.get("nodeSelectorTerms"))]


def read_slice(raw: Raw) -> DeviceSlice | None:
    """Translates a ResourceSlice. Returns None if the object has no name."""
    name, spec = text(mapping(raw.get("metadata")).get("name")), mapping(raw.get("spec"))
    if not name:
        return None
    driver, written = text(spec.get("driver")), mapping(spec.get("pool"))
    pool = text(written.get("name"))
    devices, counters = objects(spec.get("devices")), _counters(spec.get("sharedCounters"), "name")
    unsupported = _first_feature(spec, _SLICE_FEATURES)
    if counters and devices:  # the core would ignore the devices
        devices = [{**device, "consumesCounters": None} for device in devices]
        counters, unsupported = {}, _OLD_COUNTERS
    fields = {
        "driver": driver,
        "pool": pool,
        "generation": integer(written.get("generation")),
        "slices": integer(written.get("resourceSliceCount")),
        **_compact(_where(spec)),
        "perDevice": spec.get("perDeviceNodeSelection") is True,
        "devices": [_device(device, driver) for device in devices],
        "counters": counters or None,
        "unsupported": unsupported or None,
    }
    return DeviceSlice(name, driver, pool, for_core(ObjectKind.DEVICE_SLICE, name, fields, limits.DEVICE_SLICE_BYTES))


def _device(raw: Raw, driver: str) -> dict[str, Any]:
    unsupported = _first_feature(raw, _DEVICE_FEATURES)
    attributes: dict[str, Any] = {}
    for name, written in mapping(raw.get("attributes")).items():
        value = {kind: written[kind] for kind in _VALUES if kind in mapping(written)}
        if len(value) == 1:
            attributes[_qualified(name, driver)] = value
        else:
            unsupported = unsupported or "list attributes"
    consumed = objects(raw.get("consumesCounters"))
    consumes = _counters(consumed, "counterSet")
    if any(one.get("compatibilityGroups") for one in consumed):
        unsupported = unsupported or "compatibility groups (compatibilityGroups)"
    capacity, policies = dict[str, str](), dict[str, Raw]()
    for name, written in mapping(raw.get("capacity")).items():
        capacity[name] = _quantity(mapping(written).get("value"))
        if policy := mapping(mapping(written).get("requestPolicy")):
            policies[name] = _policy(policy)
    return _compact(
        {
            "name": text(raw.get("name")),
            "attributes": attributes,
            "capacity": capacity,
            "policies": policies,
            "shared": raw.get("allowMultipleAllocations") is True,
            "taints": [_taint(taint) for taint in objects(raw.get("taints"))],
            **_where(raw),
            "consumes": consumes,
            "conditions": [text(one) for one in items(raw.get("bindingConditions"))],
            "failures": [text(one) for one in items(raw.get("bindingFailureConditions"))],
            "binds": raw.get("bindsToNode") is True,
            "unsupported": unsupported,
        }
    )


def _policy(raw: Raw) -> Raw:
    """What requests may take of a capacity."""
    amounts = {"default": raw.get("default"), **mapping(raw.get("validRange"))}
    return {
        **{name: _quantity(value) for name, value in amounts.items() if value is not None},
        "values": [_quantity(value) for value in items(raw.get("validValues"))],
    }


def _quantities(written: Any) -> dict[str, str]:
    return {name: _quantity(value) for name, value in mapping(written).items()}


def _counters(written: Any, name: str) -> dict[str, dict[str, str]]:
    """Quantities of counters by counter set and counter. `name`: field with the name of the set."""
    return {
        text(one.get(name)): {
            counter: _quantity(mapping(amount).get("value")) for counter, amount in mapping(one.get("counters")).items()
        }
        for one in objects(written)
    }


def read_taint_rule(raw: Raw) -> TaintRule | None:
    """Translates a DeviceTaintRule. Returns None if the object has no name."""
    name, spec = text(mapping(raw.get("metadata")).get("name")), mapping(raw.get("spec"))
    if not name:
        return None
    written = spec.get("deviceSelector")
    selector = mapping(written)
    return TaintRule(
        name=name,
        driver=text(selector.get("driver")),
        pool=text(selector.get("pool")),
        device=text(selector.get("device")),
        taint=_taint(mapping(spec.get("taint"))),
        matches_none=not isinstance(written, dict),
    )


def _taint(raw: Raw) -> dict[str, str]:
    return {field: text(raw.get(field)) for field in ("key", "value", "effect")}


def tainted(found: DeviceSlice, rules: Iterable[TaintRule]) -> ClusterObject:
    """The slice for the core with the taints of these rules in addition to its own."""
    matching = [rule for rule in rules if rule.is_of(found)]
    if not matching or found.reported.gone:
        return found.reported
    raw = orjson.loads(found.reported.attributes[keys.FACT_OBJECT])
    for device in objects(raw.get("devices")):
        added = [rule.taint for rule in matching if rule.device in {"", device.get("name")}]
        taints = [*items(device.get("taints")), *added]
        device["taints"] = taints[: limits.DEVICE_TAINTS]
        if len(taints) > limits.DEVICE_TAINTS:
            device["unsupported"] = f"more than {limits.DEVICE_TAINTS} taints"
    return for_core(ObjectKind.DEVICE_SLICE, found.name, raw, limits.DEVICE_SLICE_BYTES)


def _qualified(name: str, driver: str) -> str:
    """The name of an attribute or capacity with its domain, which is the driver if it has none."""
    return text(name) if "/" in name else f"{driver}/{text(name)}"


def _quantity(value: Any) -> str:
    return text(value) if isinstance(value, str) else str(integer(value))


def _selectors(raw: Raw) -> tuple[list[str], str]:
    """The CEL expressions of the selectors, and what of them is not supported."""
    written = objects(raw.get("selectors"))
    found = [text(mapping(selector.get("cel")).get("expression")) for selector in written if selector.get("cel")]
    return found, "" if len(found) == len(written) else "selectors that are not CEL"


def read_class(raw: Raw) -> DeviceClass | None:
    """Translates a DeviceClass. Returns None if the object has no name."""
    name, spec = text(mapping(raw.get("metadata")).get("name")), mapping(raw.get("spec"))
    if not name:
        return None
    selectors, unsupported = _selectors(spec)
    resource = text(spec.get("extendedResourceName"))
    fields = _compact({"selectors": selectors, "unsupported": unsupported, "resource": resource})
    reported = for_core(ObjectKind.DEVICE_CLASS, name, fields)
    created_s = (epoch_ms(mapping(raw.get("metadata")).get("creationTimestamp")) or 0) // 1000
    return DeviceClass(name, _configurations(spec), reported, resource, created_s)


def _configurations(raw: Raw) -> tuple[DeviceConfiguration, ...]:
    return tuple(
        DeviceConfiguration(
            tuple(text(request) for request in items(entry.get("requests"))),
            {field: value for field, value in entry.items() if field != "requests"},
        )
        for entry in objects(raw.get("config"))
    )


def read_claim(raw: Raw) -> DeviceClaim | None:
    """Translates a ResourceClaim. Returns None if the object has no name."""
    metadata, status = mapping(raw.get("metadata")), mapping(raw.get("status"))
    devices, name = mapping(mapping(raw.get("spec")).get("devices")), text(metadata.get("name"))
    if not name:
        return None
    ref = ClaimRef(text(metadata.get("namespace")), name, text(metadata.get("uid")))
    allocation = status.get("allocation")
    documents, unsupported = _requests(devices)
    constraints, other = _constraints(devices)
    configurations, too_large = _configurations_text(devices)
    unsupported = unsupported or other or too_large
    reserved = tuple(text(consumer.get("uid")) for consumer in objects(status.get("reservedFor")))
    owner, is_deleting = controller(metadata)[0], bool(metadata.get("deletionTimestamp"))
    always: dict[str, Any] = {"uid": ref.uid, "owner": owner, "reserved": reserved, "deleting": is_deleting}
    if isinstance(allocation, dict):
        always["allocation"] = _allocation(allocation)
        unsupported = ""
    fields = {"requests": documents, "constraints": constraints, "unsupported": unsupported}
    return DeviceClaim(
        ref=ref,
        owner=owner,
        is_deleting=is_deleting,
        is_allocated=isinstance(allocation, dict),
        reserved=reserved,
        configurations="" if isinstance(allocation, dict) or unsupported else configurations,
        reported=_reported(ref, always, fields),
        known="" if status.get("allocation") or reserved else _known(metadata),
        is_ours=any(entry.get("manager") == FIELD_MANAGER for entry in objects(metadata.get("managedFields"))),
        devices=_devices_by_class(devices),
        has=frozenset(
            (text(one.get("driver")), text(one.get("pool")), text(one.get("device")))
            for one in _results(mapping(allocation))
        ),
        version=version_of(raw),
        binding=_binding(status),
        is_of_group=any(one.get("kind") == "PodGroup" for one in objects(metadata.get("ownerReferences"))),
        allocated_s=(epoch_ms(mapping(allocation).get("allocationTimestamp")) or 0) / 1000,
    )


def _binding(status: Raw) -> str | None:
    """Whether the drivers have prepared the allocated devices: None = yes, empty = not yet, else why they cannot."""
    statuses = {_share_of(one): objects(one.get("conditions")) for one in objects(status.get("devices"))}
    found: str | None = None
    for result in _results(mapping(status.get("allocation"))):
        required, failed = items(result.get("bindingConditions")), items(result.get("bindingFailureConditions"))
        conditions = statuses.get(_share_of(result), ())
        true = {text(one.get("type")): one for one in conditions if one.get("status") == "True"}
        failure = next((name for name in failed if name in true), None)
        if required and failure is not None:
            message = shown(text(true[failure].get("message")), 256)
            return f"{failure} of device {text(result.get('device'))}: {message}"
        if not set(required) <= true.keys():
            found = ""
    return found


def _share_of(raw: Raw) -> tuple[str, ...]:
    return tuple(text(raw.get(field)) for field in (*_DEVICE_ID[1:], "shareID"))


def _devices_by_class(devices: Raw) -> dict[str, int]:
    """The number of devices by class, as queues count them.

    As in Kubernetes' ResourceQuota: of alternatives the largest number of each class, and CLAIM_RESULTS for all devices
    of a node, before and after the allocation. Differs: devices for administrators do not count, because other pods use
    them.
    """
    total: dict[str, int] = {}
    for request in objects(devices.get("requests")):
        exactly = request.get("exactly")
        largest: dict[str, int] = {}
        for one in [exactly] if isinstance(exactly, dict) else objects(request.get("firstAvailable")):
            if not one.get("adminAccess"):
                count = limits.CLAIM_RESULTS if one.get("allocationMode") == "All" else integer(one.get("count"), 1)
                count = max(min(count, limits.CLAIM_RESULTS), 0)
                largest = larger(largest, {text(one.get("deviceClassName")) + keys.DEVICES_OF_CLASS: count})
        total = added(total, largest)
    return total


def _configurations_text(devices: Raw) -> tuple[str, str]:
    """The configurations of a claim as JSON, and why they cannot be used."""
    if not devices.get("config"):
        return "", ""
    try:
        written = canonical("configurations", objects(devices.get("config")))
    except BadInputError as error:
        return "", str(error)
    is_too_large = text_bytes(written) > limits.FACT_BYTES
    return ("", f"configurations of more than {limits.FACT_BYTES} bytes") if is_too_large else (written, "")


def _known(metadata: Raw) -> str:
    """A claim without status, as far as a write to it depends on it."""
    fields = {field: metadata.get(field) for field in ("uid", "resourceVersion", "finalizers")}
    return canonical("metadata", {"metadata": fields})


def _reported(ref: ClaimRef, always: dict[str, Any], fields: dict[str, Any]) -> ClusterObject:
    """The claim for the core. The devices that it has count, also if its requests are too large or invalid."""
    try:
        found = for_core(ObjectKind.DEVICE_CLAIM, ref.key, _compact(always | fields))
        if not found.gone:
            return found
        problem = f"requests of more than {limits.FACT_BYTES} bytes"
    except BadInputError as error:
        problem = str(error)
    found = for_core(ObjectKind.DEVICE_CLAIM, ref.key, _compact(always | {"unsupported": problem}))
    if not found.gone:
        return found
    unreachable = None
    if "allocation" in always:  # a device without what its share takes counts as a whole, so that no claim gets it
        whole = [{**result, "consumed": None} for result in always["allocation"]["results"]]
        unreachable = {"results": [_compact(result) for result in whole], "nodes": []}
    problem = f"an allocation of more than {limits.FACT_BYTES} bytes"
    few = {"uid": ref.uid, "deleting": always["deleting"], "allocation": unreachable, "unsupported": problem}
    return for_core(ObjectKind.DEVICE_CLAIM, ref.key, _compact(few))


def unusable(claim: ClusterObject, why: str) -> ClusterObject:
    """The claim for the core, while no pod can get it."""
    if claim.gone:
        return claim
    raw = orjson.loads(claim.attributes[keys.FACT_OBJECT])
    fields = {field: value for field, value in raw.items() if field not in {"requests", "constraints"}}
    found = for_core(claim.kind, claim.name, {**fields, "waits": why})
    return claim if found.gone else found


def _results(allocation: Raw) -> list[Raw]:
    return objects(mapping(allocation.get("devices")).get("results"))


def _allocation(allocation: Raw) -> dict[str, Any]:
    results = [
        _compact(
            {
                **{field: text(result.get(field)) for field in _DEVICE_ID},
                "admin": result.get("adminAccess") is True,
            }
        )
        | ({"consumed": _quantities(result.get("consumedCapacity"))} if result.get("shareID") else {})
        for result in _results(allocation)
    ]
    selector = allocation.get("nodeSelector")
    return {"results": results} | ({"nodes": _terms(selector)} if isinstance(selector, dict) else {})


def _requests(devices: Raw) -> tuple[list[Raw], str]:
    """The requests for the core, and what of them is not supported."""
    documents: list[Raw] = []
    unsupported = ""
    for written in objects(devices.get("requests")):
        name, exactly = text(written.get("name")), written.get("exactly")
        if isinstance(exactly, dict):
            document, problem = _request(exactly)
            documents.append({**document, "name": name})
            unsupported = unsupported or problem
            continue
        alternatives = objects(written.get("firstAvailable"))
        found = [(text(one.get("name")), *_request(one)) for one in alternatives]
        documents.append({"name": name, "alternatives": [{**document, "name": of} for of, document, _ in found]})
        problem = next((problem for *_, problem in found if problem), "")
        unsupported = unsupported or problem or ("" if alternatives else f"the kind of request {name}")
    return documents, unsupported


def _tolerations(raw: Raw) -> list[Raw]:
    return [
        {field: entry[field] for field in _TOLERATION_FIELDS if entry.get(field) is not None}
        for entry in objects(raw.get("tolerations"))
    ]


def _request(raw: Raw) -> tuple[Raw, str]:
    """A request or subrequest for the core, without its name, and what of it is not supported."""
    selectors, unsupported = _selectors(raw)
    mode, tolerations = text(raw.get("allocationMode")) or "ExactCount", _tolerations(raw)
    if mode not in _MODES:
        unsupported, mode = f"allocationMode {mode}", ""
    if not {toleration.get("operator", "") for toleration in tolerations} <= _OPERATORS:
        unsupported, tolerations = "the operator of a toleration", []
    document = _compact(
        {
            "class": text(raw.get("deviceClassName")),
            "selectors": selectors,
            "mode": mode,
            "count": integer(raw.get("count"), 1) if mode == "ExactCount" else None,
            "admin": raw.get("adminAccess") is True,
            "tolerations": tolerations,
            "capacity": _quantities(mapping(raw.get("capacity")).get("requests")),
        }
    )
    return document, unsupported or _first_feature(raw, _REQUEST_FEATURES)


def _constraints(devices: Raw) -> tuple[list[Raw], str]:
    """The constraints for the core, and what of them is not supported."""
    found: list[Raw] = []
    unsupported = ""
    for constraint in objects(devices.get("constraints")):
        requests = [text(request) for request in items(constraint.get("requests"))]
        match, distinct = text(constraint.get("matchAttribute")), text(constraint.get("distinctAttribute"))
        if match or distinct:
            found.append(_compact({"requests": requests, "match": match, "distinct": distinct}))
        else:
            unsupported = "the kind of a constraint"
    return found, unsupported


def pod_claims(spec: Raw) -> tuple[PodClaim, ...]:
    """The entries of the pod's ``spec.resourceClaims``, those of templates without the name of their ResourceClaim.

    Raises:
        BadInputError: there are more than POD_NAMES.
    """
    entries = objects(spec.get("resourceClaims"))
    if len(entries) > limits.POD_NAMES:
        problem = f"{len(entries)} entries, more than {limits.POD_NAMES}"
        raise BadInputError("resourceClaims", problem, "use fewer resource claims")
    return tuple(
        PodClaim(text(entry.get("name")), text(entry.get("resourceClaimName")), not entry.get("resourceClaimName"))
        for entry in entries
    )


def resolved(claims: Iterable[PodClaim], statuses: Any) -> tuple[PodClaim, ...]:
    """The claims with the names of the pod's ``status.resourceClaimStatuses``.

    An entry of the status without a name means that Kubernetes created no claim, because the pod needs none.
    """
    names: dict[str, str | None] = {}
    for status in islice(objects(statuses), limits.POD_NAMES):
        names[text(status.get("name"))] = text(status.get("resourceClaimName")) or None
    return tuple(
        PodClaim(claim.entry, names.get(claim.entry, ""), is_made=True) if claim.is_made else claim for claim in claims
    )


def allocation(claim: DeviceClaim, chosen: ChosenDevices, classes: Mapping[str, DeviceClass], pod: PodUid) -> str:
    """The allocation of the claim for the pod as it is written to its status, as JSON: as kube-scheduler writes it.

    The IDs of shares are equal in each attempt.

    Raises:
        KeyError: a class of the requests does not exist.
    """
    used = {device.request for device in chosen.devices}
    selected = [next((one for one in request if one.name in used), request[0]) for request in _requests_of(claim)]
    tolerations = {request.name: request.tolerations for request in selected}
    results = [
        _compact(
            {
                "request": device.request,
                "driver": device.driver,
                "pool": device.pool,
                "device": device.device,
                "adminAccess": device.is_admin,
                "tolerations": tolerations.get(device.request, ()),
                "shareID": None if device.consumed is None else str(uuid5(_SHARES, f"{claim.ref.uid}/{pod}/{number}")),
                "consumedCapacity": device.consumed,
                "bindingConditions": device.conditions,
                "bindingFailureConditions": device.failures,
            }
        )
        for number, device in enumerate(chosen.devices)
    ]
    devices: dict[str, Any] = {"results": results}
    if configurations := [*_of_classes(selected, classes), *_of_claim(claim, selected)]:
        devices["config"] = configurations
    fields: dict[str, Any] = {"devices": devices}
    terms: Iterable[Any] | None = chosen.terms
    if chosen.node:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [chosen.node]}]}]
    if terms is not None:
        fields["nodeSelector"] = {"nodeSelectorTerms": list(terms)}
    return canonical("allocation", fields)


def _requests_of(claim: DeviceClaim) -> Iterator[list[ClaimRequest]]:
    """The requests of a claim in order, each with its alternatives."""
    for request in orjson.loads(claim.reported.attributes[keys.FACT_OBJECT]).get("requests", ()):
        alternatives = [{**one, "name": f"{request['name']}/{one['name']}"} for one in request.get("alternatives", ())]
        yield [
            ClaimRequest(one["name"], one.get("class", ""), tuple(one.get("tolerations", ())))
            for one in alternatives or [request]
        ]


def chosen_devices(written: str) -> tuple[ChosenDevices, ...]:
    """Reads the core's choice (``muster/chosen-devices``).

    Raises:
        LookupError, TypeError, ValueError: the text is not one.
    """
    return tuple(
        ChosenDevices(
            _claim_ref(one["claim"], one["uid"]),
            tuple(
                ChosenDevice(
                    result["request"],
                    result["driver"],
                    result["pool"],
                    result["device"],
                    "admin" in result,
                    result.get("consumed"),
                    tuple(result.get("conditions", ())),
                    tuple(result.get("failures", ())),
                )
                for result in one["results"]
            ),
            one.get("node", ""),
            None if (terms := one.get("terms")) is None else tuple(terms),
        )
        for one in orjson.loads(written)
    )


def _claim_ref(key: str, uid: str) -> ClaimRef:
    namespace, _, name = key.partition("/")
    return ClaimRef(namespace, name, uid)


def _names(request: ClaimRequest) -> set[str]:
    """The names with which a configuration can mean the request: its own, and that of the request that it is in."""
    return {request.name, request.name.partition("/")[0]}


def _of_classes(selected: list[ClaimRequest], classes: Mapping[str, DeviceClass]) -> Iterable[Raw]:
    """The configurations of the classes, each once. Raises KeyError, see `allocation`."""
    requests_of: dict[str, list[ClaimRequest]] = {}
    for request in selected:
        requests_of.setdefault(request.device_class, []).append(request)
    for name, requests in requests_of.items():
        for configuration in classes[name].configurations:
            named = [] if len(requests) == len(selected) else [request.name for request in requests]
            yield _configuration("FromClass", named, configuration)


def _of_claim(claim: DeviceClaim, selected: list[ClaimRequest]) -> Iterable[Raw]:
    """The configurations of the claim, without those of alternatives that were not selected."""
    written = {"config": orjson.loads(claim.configurations)} if claim.configurations else {}
    for configuration in _configurations(written):
        matches = [not _names(request).isdisjoint(configuration.requests) for request in selected]
        if all(matches) or not configuration.requests:
            yield _configuration("FromClaim", [], configuration)
        elif any(matches):
            yield _configuration("FromClaim", list(configuration.requests), configuration)


def _configuration(source: str, requests: list[str], configuration: DeviceConfiguration) -> Raw:
    return {"source": source, **({"requests": requests} if requests else {}), **configuration.fields}
