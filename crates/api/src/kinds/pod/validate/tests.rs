//! The expectations are responses of kube-apiserver 1.36.2; the rules are in upstream's `pkg/apis/core/validation`.

use serde_json::{Value, json};

use super::validate_pod;
use crate::kinds::pod::default_pod_on_write;

fn faults(spec: Value) -> Vec<String> {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
    if pod["spec"].get("containers").is_none() {
        pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    default_pod_on_write(&mut pod);
    validate_pod(&pod).iter().map(ToString::to_string).collect()
}

/// Returns the faults of a container, without the path of the container.
fn container_faults(fields: Value) -> Vec<String> {
    let mut container = json!({"name": "c", "image": "i"});
    for (field, value) in fields.as_object().unwrap() {
        container[field] = value.clone();
    }
    let faults = faults(json!({"containers": [container]}));
    faults
        .iter()
        .map(|fault| fault.trim_start_matches("spec.containers[0].").to_owned())
        .collect()
}

/// Returns the faults of a volume, without the path of the volume.
fn volume_faults(source: &str, fields: Value) -> Vec<String> {
    let faults = faults(json!({"volumes": [{"name": "v", source: fields}]}));
    faults
        .iter()
        .map(|fault| fault.trim_start_matches("spec.volumes[0].").to_owned())
        .collect()
}

#[test]
fn tolerations_match_their_operator() {
    let of = |toleration: Value| {
        let faults = faults(json!({"tolerations": [toleration]}));
        faults.join(" ").replace("spec.tolerations[0].", "")
    };
    assert_eq!(of(json!({"operator": "Exists"})), "");
    assert_eq!(
        of(json!({"key": "a", "operator": "Exists", "value": "b"})),
        "operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"
    );
    assert_eq!(
        of(json!({"value": "b"})),
        "operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""
    );
    assert_eq!(
        of(json!({"key": "a", "tolerationSeconds": 5, "effect": "x"})),
        "effect: Invalid value: \"x\": effect must be 'NoExecute' when `tolerationSeconds` is set \
         effect: Unsupported value: \"x\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
    );
    assert_eq!(
        of(json!({"key": "a", "operator": "x"})),
        "operator: Unsupported value: \"x\": supported values: \"Equal\", \"Exists\""
    );
}

#[test]
fn affinity_has_valid_terms() {
    let node = |term: Value| {
        let required = json!({"nodeSelectorTerms": [term]});
        let faults = faults(json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": required}}}));
        let path =
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].";
        faults.join(" ").replace(path, "")
    };
    assert_eq!(
        node(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]})),
        ""
    );
    assert_eq!(
        node(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
        "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
    );
    assert_eq!(
        node(json!({"matchExpressions": [{"key": "a", "operator": "x"}]})),
        "matchExpressions[0].operator: Invalid value: \"x\": not a valid selector operator"
    );
    assert_eq!(
        node(json!({"matchFields": [{"key": "x", "operator": "In", "values": ["b"]}]})),
        "matchFields[0].key: Invalid value: \"x\": not a valid field selector key"
    );
    let weighted = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 101, "podAffinityTerm": {"topologyKey": "z", "matchLabelKeys": ["a"]}}]}});
    assert_eq!(
        faults(json!({"affinity": weighted})).join(" ").replace(
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].",
            ""
        ),
        "weight: Invalid value: 101: must be in the range 1-100 podAffinityTerm.matchLabelKeys: Forbidden: \
         must not be specified when labelSelector is not set"
    );
}

#[test]
fn topology_spread_constraints_are_distinct() {
    let constraint = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"});
    let of = |constraints: Value| faults(json!({"topologySpreadConstraints": constraints}));
    assert!(of(json!([constraint])).is_empty());
    assert_eq!(
        of(json!([constraint, constraint])),
        [
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{z, DoNotSchedule}\""
        ]
    );
    assert_eq!(
        of(json!([{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x", "minDomains": 2}])),
        [
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"x\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not x",
        ]
    );
}

#[test]
fn resources_have_known_names_and_requests_within_limits() {
    let of = |resources: Value| container_faults(json!({ "resources": resources }));
    assert!(of(json!({"limits": {"cpu": "1", "x.example/y": "2", "hugepages-2Mi": "4Mi"}})).is_empty());
    assert_eq!(
        of(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
        ["resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
    );
    assert_eq!(
        of(json!({"requests": {"x.example/y": "1"}})),
        ["resources.limits: Required value: Limit must be set for non overcommitable resources"]
    );
    assert_eq!(
        of(json!({"limits": {"x.example/y": "2"}, "requests": {"x.example/y": "1"}})),
        ["resources.requests: Invalid value: \"1\": must be equal to x.example/y limit of 2"]
    );
    assert_eq!(
        of(json!({"limits": {"foo": "1"}, "requests": {"foo": "1"}}))
            .first()
            .unwrap(),
        "resources.limits[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified"
    );
    assert_eq!(
        of(json!({"limits": {"hugepages-2Mi": "3Mi"}})),
        [
            "resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            "resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            "resources: Forbidden: HugePages require cpu or memory",
        ]
    );
    assert_eq!(
        of(json!({"claims": [{"name": "x"}]})),
        [
            "resources.claims[0]: Not found: \"x\": must be one of the names in pod.spec.resourceClaims which is empty"
        ]
    );
}

#[test]
fn variables_have_one_source() {
    let of = |from: Value| container_faults(json!({"env": [{"name": "A", "valueFrom": from}]}));
    assert!(of(json!({"fieldRef": {"fieldPath": "metadata.labels['a']"}})).is_empty());
    assert_eq!(
        of(json!({})),
        [
            "env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        ]
    );
    assert_eq!(
        of(json!({"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}})),
        ["env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time"]
    );
    assert_eq!(
        of(json!({"fieldRef": {"fieldPath": "spec.foo['x']"}})),
        [
            "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo['x']\": error converting fieldPath: field label does not support subscript: spec.foo['x']"
        ]
    );
    assert_eq!(
        of(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "5"}})),
        [
            "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource"
        ]
    );
    assert_eq!(
        container_faults(json!({"envFrom": [{}, {"prefix": "a=b", "secretRef": {}}]})),
        [
            "envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            "envFrom[1].prefix: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            "envFrom[1].secretRef.name: Required value",
        ]
    );
}

#[test]
fn hooks_and_probes_have_one_handler() {
    assert_eq!(
        container_faults(json!({"lifecycle": {"postStart": {}, "preStop": {"sleep": {"seconds": 31}}}})),
        [
            "lifecycle.postStart: Required value: must specify a handler type",
            "lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
        ]
    );
    assert_eq!(
        container_faults(
            json!({"readinessProbe": {"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 5}})
        ),
        [
            "readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes"
        ]
    );
    let init = |policy: Value| {
        faults(
            json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": policy,
            "lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}]}),
        )
    };
    assert!(init(json!("Always")).is_empty());
    assert_eq!(
        init(Value::Null),
        [
            "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always"
        ]
    );
}

#[test]
fn mounts_stay_within_their_volume() {
    let of = |mount: Value| {
        let mut mount = mount;
        mount["name"] = "v".into();
        mount["mountPath"] = "/a".into();
        let container = json!({"name": "c", "image": "i", "volumeMounts": [mount]});
        faults(json!({"volumes": [{"name": "v"}], "containers": [container]}))
            .join(" ")
            .replace("spec.containers[0].volumeMounts", "")
    };
    assert_eq!(of(json!({})), "");
    assert_eq!(
        of(json!({"subPath": "../a"})),
        ".subPath: Invalid value: \"../a\": must not contain '..'"
    );
    assert_eq!(
        of(json!({"mountPropagation": "Bidirectional"})),
        ".mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"
    );
    assert_eq!(
        of(json!({"recursiveReadOnly": "Enabled"})),
        ".recursiveReadOnly: Forbidden: may only be specified when readOnly is true"
    );
}

#[test]
fn security_contexts_are_consistent() {
    let of = |context: Value| {
        container_faults(json!({ "securityContext": context }))
            .join(" ")
            .replace("securityContext.", "")
    };
    assert_eq!(of(json!({"seccompProfile": {"type": "RuntimeDefault"}})), "");
    assert_eq!(
        of(json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "../a"}})),
        "seccompProfile.localhostProfile: Invalid value: \"../a\": must not contain '..'"
    );
    assert_eq!(
        of(json!({"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}})),
        "appArmorProfile.localhostProfile: Invalid value: \"a\": can only be set when AppArmor type is Localhost"
    );
    assert!(
        of(json!({"privileged": true, "allowPrivilegeEscalation": false}))
            .ends_with("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    );
    assert_eq!(
        faults(json!({"securityContext": {"fsGroupChangePolicy": "x"}})),
        [
            "spec.securityContext.fsGroupChangePolicy: Unsupported value: \"x\": supported values: \"Always\", \"OnRootMismatch\""
        ]
    );
}

#[test]
fn volumes_have_one_valid_source() {
    assert_eq!(
        faults(json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}]})),
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"]
    );
    assert_eq!(
        volume_faults("hostPath", json!({"path": "/a/../b", "type": "x"})),
        [
            "hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            "hostPath.type: Unsupported value: \"x\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
        ]
    );
    assert_eq!(
        volume_faults(
            "configMap",
            json!({"name": "a", "items": [{"key": "", "path": "..x"}]})
        ),
        [
            "configMap.items[0].key: Required value",
            "configMap.items[0].path: Invalid value: \"..x\": must not start with '..'",
        ]
    );
    assert_eq!(
        volume_faults("downwardAPI", json!({"items": [{"path": "a"}]})),
        ["downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"]
    );
    assert_eq!(
        volume_faults(
            "projected",
            json!({"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}]})
        ),
        [
            "projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
            "projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
        ]
    );
    assert_eq!(
        volume_faults("persistentVolumeClaim", json!({})),
        ["persistentVolumeClaim.claimName: Required value"]
    );
}

#[test]
fn gated_pods_have_no_node() {
    assert_eq!(
        faults(json!({"schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"})),
        [
            "spec.schedulingGates[1]: Duplicate value: \"a\"",
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ]
    );
}

#[test]
fn operating_systems_exclude_fields_of_each_other() {
    assert_eq!(
        faults(json!({"os": {"name": "x"}})),
        ["spec.os: Unsupported value: \"x\": supported values: \"linux\", \"windows\""]
    );
    assert_eq!(
        faults(
            json!({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"runAsUserName": "x"}}})
        ),
        ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"]
    );
    assert_eq!(
        faults(json!({"os": {"name": "windows"}, "hostPID": true})),
        ["spec.hostPID: Forbidden: cannot be set for a windows pod"]
    );
}

#[test]
fn annotations_with_a_meaning_are_valid() {
    let of = |key: &str, value: &str| {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "annotations": {key: value}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        default_pod_on_write(&mut pod);
        validate_pod(&pod).len()
    };
    assert_eq!(of("controller.kubernetes.io/pod-deletion-cost", "-5"), 0);
    for cost in ["x", "+5", "05", "2147483648"] {
        assert_eq!(
            of("controller.kubernetes.io/pod-deletion-cost", cost),
            1,
            "{cost}"
        );
    }
    assert_eq!(of("kubernetes.io/config.mirror", "x"), 1);
}
