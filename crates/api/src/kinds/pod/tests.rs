use serde_json::{Value, json};

use super::*;
use crate::machinery::field::FieldErrors;

fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
    default_pod_on_write(&mut pod);
    prepare_pod_create(&mut pod);
    pod
}

fn causes(errors: &FieldErrors) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}", error.reason.as_str(), error.path))
        .collect()
}

fn causes_of(spec: Value) -> Vec<String> {
    causes(&validate_pod(&pod(spec)))
}

#[test]
fn minimal_pod_gets_defaults() {
    let pod = pod(json!({"containers": [{"name": "c", "image": "nginx:stable",
        "ports": [{"containerPort": 80}], "readinessProbe": {"httpGet": {"port": 80}}}]}));
    assert!(validate_pod(&pod).is_empty());
    assert_eq!(
        pod["spec"],
        json!({
            "containers": [{"name": "c", "image": "nginx:stable", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "readinessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
                    "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true,
        })
    );
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert_eq!(pod["metadata"]["generation"], 1);
}

#[test]
fn pull_policy_follows_the_tag() {
    let policy = |image: &str| {
        pod(json!({"containers": [{"name": "c", "image": image}]}))["spec"]["containers"][0]["imagePullPolicy"]
            .clone()
    };
    for image in ["nginx", "nginx:latest", "registry:5000/nginx"] {
        assert_eq!(policy(image), "Always", "{image}");
    }
    for image in ["nginx:1", "registry:5000/nginx:1", "nginx@sha256:00"] {
        assert_eq!(policy(image), "IfNotPresent", "{image}");
    }
}

#[test]
fn sets_defaults_of_volumes_and_host_network() {
    let pod = pod(
        json!({"hostNetwork": true, "volumes": [{"name": "v"}, {"name": "w", "configMap": {"name": "x"}}],
        "containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80}]}]}),
    );
    assert_eq!(pod["spec"]["volumes"][0], json!({"name": "v", "emptyDir": {}}));
    assert_eq!(pod["spec"]["volumes"][1]["configMap"]["defaultMode"], 420);
    assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
}

#[test]
fn user_namespace_excludes_host_namespaces() {
    let spec = |mut spec: Value| {
        spec["containers"] = json!([{"name": "c", "image": "x"}]);
        validate_pod(&pod(spec))
    };
    let errors = spec(json!({"hostUsers": false, "hostNetwork": true, "hostPID": true, "hostIPC": true}));
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "spec.hostNetwork: Forbidden: when `hostUsers` is false",
            "spec.HostPID: Forbidden: when `hostUsers` is false",
            "spec.HostIPC: Forbidden: when `hostUsers` is false",
        ]
    );
    assert!(spec(json!({"hostUsers": true, "hostNetwork": true, "hostPID": true})).is_empty());
    assert!(spec(json!({"hostUsers": false, "hostNetwork": false})).is_empty());
}

#[test]
fn rejects_duplicate_host_ports() {
    let port = |protocol: &str, ip: &str| json!({"containerPort": 80, "hostPort": 80, "protocol": protocol, "hostIP": ip});
    let container = |name: &str, ports: Value| json!({"name": name, "image": "x", "ports": ports});
    let faults = |init: Value, main: Value| {
        let errors = validate_pod(&pod(json!({"initContainers": init, "containers": main})));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let distinct = json!([port("TCP", ""), port("UDP", ""), port("TCP", "127.0.0.1")]);
    let init = json!([container("i", distinct.clone()), container("j", distinct.clone())]);
    assert_eq!(
        faults(init, json!([container("c", distinct)])),
        Vec::<String>::new()
    );
    let main = json!([
        container("c", json!([port("TCP", "10.0.0.1")])),
        container("d", json!([port("UDP", ""), port("TCP", "10.0.0.1")])),
    ]);
    let init = json!([
        container("i", json!([])),
        container("j", json!([port("TCP", ""), port("TCP", "")])),
    ]);
    assert_eq!(
        faults(init, main),
        [
            "spec.containers[1].ports[1].hostPort: Duplicate value: \"TCP/10.0.0.1/80\"",
            "spec.initContainers[0].ports[1].hostPort: Duplicate value: \"TCP//80\"",
        ]
    );
}

#[test]
fn shared_process_namespace_excludes_that_of_the_node() {
    let faults = |shared: Value| {
        let main = json!([{"name": "c", "image": "x"}]);
        let spec = json!({"hostPID": true, "shareProcessNamespace": shared, "containers": main});
        let errors = validate_pod(&pod(spec));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults(json!(false)), Vec::<String>::new());
    assert_eq!(
        faults(json!(true)),
        [
            "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both \
             be enabled"
        ]
    );
}

#[test]
fn unmasked_proc_needs_a_user_namespace() {
    let spec = |host_users: Value| {
        let main = json!({"name": "c", "image": "x", "securityContext": {"procMount": "Unmasked"}});
        let errors = validate_pod(&pod(json!({"hostUsers": host_users, "containers": [main]})));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(spec(json!(false)), Vec::<String>::new());
    for host_users in [json!(true), json!(null)] {
        assert_eq!(
            spec(host_users),
            [
                "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": \
              `hostUsers` must be false to use `Unmasked`"
            ]
        );
    }
}

#[test]
fn users_and_groups_have_31_bits() {
    let main = |user: i64| json!({"name": "c", "image": "x", "securityContext": {"runAsUser": user}});
    let spec = |groups: Value, user: i64| {
        let of_pod = json!({"runAsUser": user, "supplementalGroups": groups});
        let errors = validate_pod(&pod(
            json!({"securityContext": of_pod, "containers": [main(user)]}),
        ));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        spec(json!([0, 2_147_483_647]), 2_147_483_647),
        Vec::<String>::new()
    );
    let fault = "Invalid value: 4294967295: must be between 0 and 2147483647, inclusive";
    assert_eq!(
        spec(json!([1, 4_294_967_295_i64]), 4_294_967_295),
        [
            format!("spec.securityContext.runAsUser: {fault}"),
            format!("spec.securityContext.supplementalGroups[1]: {fault}"),
            format!("spec.containers[0].securityContext.runAsUser: {fault}"),
        ]
    );
}

#[test]
fn requires_containers_with_unique_names() {
    assert_eq!(causes_of(json!({})), ["FieldValueRequired spec.containers"]);
    let faults = causes_of(json!({"initContainers": [{"name": "a", "image": "x"}],
        "containers": [{"name": "a", "image": ""}, {"name": "B", "image": " x", "imagePullPolicy": "Maybe"}]}));
    assert_eq!(
        faults,
        [
            "FieldValueRequired spec.containers[0].image",
            "FieldValueInvalid spec.containers[1].name",
            "FieldValueNotSupported spec.containers[1].imagePullPolicy",
            "FieldValueInvalid spec.containers[1].image",
            "FieldValueDuplicate spec.initContainers[0].name",
        ]
    );
}

#[test]
fn reports_faults_of_a_container() {
    let of = |field: &str, value: Value| {
        let mut container = json!({"name": "c", "image": "x"});
        container[field] = value;
        causes_of(json!({"containers": [container]}))
            .join(" ")
            .replace("spec.containers[0].", "")
    };
    assert_eq!(
        of("ports", json!([{"name": "TOO_bad"}])),
        "FieldValueInvalid ports[0].name FieldValueRequired ports[0].containerPort"
    );
    assert_eq!(
        of(
            "ports",
            json!([{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 70000, "protocol": "X"}])
        ),
        "FieldValueDuplicate ports[1].name FieldValueInvalid ports[1].containerPort FieldValueNotSupported ports[1].protocol"
    );
    assert_eq!(
        of("env", json!([{"name": "A=B"}, {}])),
        "FieldValueInvalid env[0].name FieldValueRequired env[1].name"
    );
    assert_eq!(
        of("volumeMounts", json!([{"name": "v"}])),
        "FieldValueNotFound volumeMounts[0].name FieldValueRequired volumeMounts[0].mountPath"
    );
    assert_eq!(
        of(
            "livenessProbe",
            json!({"periodSeconds": -1, "successThreshold": 2})
        ),
        "FieldValueRequired livenessProbe FieldValueInvalid livenessProbe.periodSeconds FieldValueInvalid livenessProbe.successThreshold"
    );
    assert_eq!(
        of("readinessProbe", json!({"exec": {}, "tcpSocket": {"port": 1}})),
        "FieldValueRequired readinessProbe.exec.command FieldValueForbidden readinessProbe.tcpSocket"
    );
}

#[test]
fn reports_faults_of_the_spec() {
    let of = |field: &str, value: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
        spec[field] = value;
        causes_of(spec).join(" ")
    };
    assert_eq!(
        of("restartPolicy", json!("Sometimes")),
        "FieldValueNotSupported spec.restartPolicy"
    );
    assert_eq!(
        of("dnsPolicy", json!("None")),
        "FieldValueRequired spec.dnsConfig"
    );
    assert_eq!(of("hostname", json!("Web_0")), "FieldValueInvalid spec.hostname");
    assert_eq!(
        of("volumes", json!([{"name": "a"}, {"name": "a"}])),
        "FieldValueDuplicate spec.volumes[1].name"
    );
    assert_eq!(
        of("hostAliases", json!([{"ip": "x"}])),
        "FieldValueInvalid spec.hostAliases[0].ip"
    );
    assert_eq!(
        of("nodeSelector", json!({"a b": "c"})),
        "FieldValueInvalid spec.nodeSelector"
    );
}

#[test]
fn update_changes_only_mutable_fields() {
    let own = json!({"key": "a", "effect": "NoExecute"});
    let old = pod(json!({"containers": [{"name": "c", "image": "x"}], "tolerations": [own]}));
    let faults = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        prepare_pod_update(&mut new, &old);
        causes(&validate_pod_update(&new, &old)).join(" ")
    };
    assert_eq!(faults(&|spec| spec["containers"][0]["image"] = "y".into()), "");
    assert_eq!(faults(&|spec| spec["nodeName"] = "n1".into()), "");
    assert_eq!(
        faults(&|spec| spec["tolerations"] = json!([{"key": "b"}, own])),
        ""
    );
    let added = json!([{"key": "a", "effect": "NoExecute"}, {"key": "b", "operator": "Lt"}]);
    assert_eq!(
        faults(&|spec| spec["tolerations"] = added.clone()),
        "FieldValueNotSupported spec.tolerations[1].operator FieldValueNotSupported spec.tolerations[1].operator"
    );
    assert_eq!(
        faults(&|spec| spec["tolerations"][0]["tolerationSeconds"] = 5.into()),
        ""
    );
    assert_eq!(
        faults(&|spec| spec["tolerations"][0]["effect"] = "NoSchedule".into()),
        "FieldValueForbidden spec.tolerations"
    );
    assert_eq!(faults(&|spec| spec["activeDeadlineSeconds"] = 5.into()), "");
    assert_eq!(
        faults(&|spec| spec["tolerations"] = json!([])),
        "FieldValueForbidden spec.tolerations"
    );
    assert_eq!(
        faults(&|spec| spec["hostname"] = "h".into()),
        "FieldValueForbidden spec"
    );
    assert_eq!(
        faults(&|spec| spec["containers"] = json!([])),
        "FieldValueRequired spec.containers FieldValueForbidden spec.containers"
    );
    let mut new = old.clone();
    new["spec"]["nodeName"] = "n1".into();
    new["status"] = json!({"phase": "Running"});
    prepare_pod_update(&mut new, &old);
    assert_eq!(
        (&new["status"], &new["metadata"]["generation"]),
        (&old["status"], &json!(1))
    );
    new["spec"]["activeDeadlineSeconds"] = 60.into();
    prepare_pod_update(&mut new, &old);
    assert_eq!(new["metadata"]["generation"], 2);
}

#[test]
fn validates_addresses_of_the_status() {
    let old = pod(json!({"containers": [{"name": "c", "image": "x"}]}));
    let of = |status: Value| {
        let mut new = old.clone();
        new["status"] = status;
        default_pod_on_write(&mut new);
        prepare_pod_status_update(&mut new, &old);
        let faults = causes(&validate_pod_status_update(&new, &old)).join(" ");
        (new["status"].clone(), faults)
    };
    let (status, faults) = of(json!({"podIP": "10.0.0.1"}));
    assert_eq!(
        status,
        json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "qosClass": "BestEffort"})
    );
    assert_eq!(faults, "");
    assert_eq!(
        of(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]})).0["podIP"],
        "10.0.0.1"
    );
    let (_, faults) = of(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}));
    assert_eq!(
        faults,
        "FieldValueDuplicate status.podIPs[1] FieldValueInvalid status.podIPs"
    );
    assert_eq!(of(json!({"podIP": "x"})).1, "FieldValueInvalid status.podIPs[0]");
}

#[test]
fn rejects_a_change_of_the_mirror_annotation() {
    let of = |annotations: Value| {
        let mut pod = pod(json!({"containers": [{"name": "c", "image": "x"}]}));
        pod["metadata"]["annotations"] = annotations;
        pod
    };
    let (mirror, plain) = (of(json!({"kubernetes.io/config.mirror": "a"})), of(json!({})));
    for (new, old, detail) in [
        (&plain, &mirror, "may not remove or update mirror pod annotation"),
        (&mirror, &plain, "may not add mirror pod annotation"),
    ] {
        for errors in [
            validate_pod_update(new, old),
            validate_pod_status_update(new, old),
        ] {
            assert!(
                errors.iter().any(|error| error.to_string().contains(detail)),
                "{errors:?}"
            );
        }
    }
    assert_eq!(validate_pod_status_update(&mirror, &mirror), vec![]);
}

#[test]
fn status_update_keeps_the_owners() {
    let old = pod(json!({"containers": [{"name": "c", "image": "x"}]}));
    let mut new = old.clone();
    new["metadata"]["ownerReferences"] = json!([{"kind": "ReplicaSet", "name": "r"}]);
    prepare_pod_status_update(&mut new, &old);
    assert!(new["metadata"].get("ownerReferences").is_none());
}

/// Result of an update of the ephemeral containers of a Pod with the containers `main` and `setup` and a volume.
fn with_ephemeral(before: Value, after: Value) -> (Value, Vec<String>) {
    let spec = json!({"containers": [{"name": "main", "image": "x"}],
        "initContainers": [{"name": "setup", "image": "x"}], "volumes": [{"name": "data"}]});
    let mut old = pod(spec);
    old["metadata"]["uid"] = "u".into();
    let mut new = old.clone();
    old["spec"]["ephemeralContainers"] = before;
    new["spec"]["ephemeralContainers"] = after;
    for pod in [&mut old, &mut new] {
        default_pod_on_write(pod);
    }
    new["spec"]["hostNetwork"] = true.into();
    new["metadata"]["labels"] = json!({"a": "b"});
    prepare_ephemeral_containers_update(&mut new, &old);
    let errors = validate_ephemeral_containers_update(&new, &old);
    (new, causes(&errors))
}

#[test]
fn ephemeral_containers_can_be_added() {
    let first = json!({"name": "debug", "image": "tools:1", "stdin": true, "targetContainerName": "main"});
    let second = json!({"name": "more", "image": "tools:1"});
    let (new, errors) = with_ephemeral(json!([first]), json!([second, first]));
    assert!(errors.is_empty(), "{errors:?}");
    let added = &new["spec"]["ephemeralContainers"][0];
    assert_eq!(added["imagePullPolicy"], "IfNotPresent");
    assert_eq!(added["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(new["metadata"]["generation"], 2);
    // Other fields stay.
    assert!(new["spec"].get("hostNetwork").is_none());
    assert!(new["metadata"].get("labels").is_none());
}

#[test]
fn rejects_changed_and_removed_ephemeral_containers() {
    let debug = |image: &str| json!([{"name": "debug", "image": image}]);
    for after in [debug("tools:2"), json!([])] {
        let (_, errors) = with_ephemeral(debug("tools:1"), after);
        assert_eq!(errors, ["FieldValueForbidden spec.ephemeralContainers"]);
    }
}

#[test]
fn rejects_fields_that_ephemeral_containers_cannot_have() {
    let debug = json!([{"name": "main", "image": "x", "targetContainerName": "other",
        "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "a"}],
        "securityContext": {"runAsUser": -1}}]);
    let (_, mut errors) = with_ephemeral(json!([]), debug);
    errors.sort_unstable();
    let at = |reason: &str, field: &str| format!("{reason} spec.ephemeralContainers[0].{field}");
    let mut expected = vec![
        at("FieldValueDuplicate", "name"),
        at("FieldValueForbidden", "ports"),
        at("FieldValueForbidden", "resources"),
        at("FieldValueForbidden", "volumeMounts[0].subPath"),
        at("FieldValueInvalid", "securityContext.runAsUser"),
        at("FieldValueNotFound", "targetContainerName"),
    ];
    expected.sort_unstable();
    assert_eq!(errors, expected);
}

#[test]
fn rejects_ephemeral_containers_of_new_and_static_pods() {
    let debug = json!([{"name": "debug", "image": "x"}]);
    let created =
        causes_of(json!({"containers": [{"name": "c", "image": "x"}], "ephemeralContainers": debug}));
    assert_eq!(created, ["FieldValueForbidden spec.ephemeralContainers"]);
    let mut mirror = pod(json!({"containers": [{"name": "c", "image": "x"}]}));
    mirror["metadata"]["annotations"] = json!({MIRROR_ANNOTATION: "x"});
    let mut new = mirror.clone();
    new["spec"]["ephemeralContainers"] = debug;
    let errors = validate_ephemeral_containers_update(&new, &mirror);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].reason.as_str(), "FieldValueForbidden");
}

#[test]
fn stop_signals_depend_on_the_operating_system() {
    let causes = |os: Value, signal: &str| {
        causes_of(json!({"os": os, "containers": [{"name": "c", "image": "x",
            "lifecycle": {"stopSignal": signal}}]}))
    };
    let linux = json!({"name": "linux"});
    for signal in ["SIGUSR1", "SIGRTMIN", "SIGRTMIN+15", "SIGRTMAX-14", "SIGRTMAX"] {
        assert!(causes(linux.clone(), signal).is_empty(), "{signal}");
    }
    let field = "spec.containers[0].lifecycle.stopSignal";
    for signal in ["USR1", "SIGRTMIN+16", "SIGRTMIN+01", "SIGNONE"] {
        assert_eq!(
            causes(linux.clone(), signal),
            [format!("FieldValueNotSupported {field}")]
        );
    }
    assert!(causes(Value::Null, "SIGTERM").is_empty());
    assert_eq!(
        causes(json!({"name": "windows"}), "SIGUSR1"),
        [format!("FieldValueNotSupported {field}")]
    );
}

#[test]
fn rejects_invalid_sysctls() {
    let causes = |sysctls: Value| {
        causes_of(
            json!({"hostNetwork": true, "securityContext": {"sysctls": sysctls},
            "containers": [{"name": "c", "image": "x"}]}),
        )
    };
    let named = |name: &str| json!({"name": name, "value": "1"});
    assert!(causes(json!([named("kernel.shm_rmid_forced")])).is_empty());
    let all = [
        named(""),
        named("a..b"),
        named("kernel.sem"),
        named("kernel.sem"),
        named("net/ipv4/tcp_syncookies"),
    ];
    let at = |reason: &str, index: usize| format!("{reason} spec.securityContext.sysctls[{index}].name");
    assert_eq!(
        causes(json!(all)),
        [
            at("FieldValueRequired", 0),
            at("FieldValueInvalid", 1),
            at("FieldValueDuplicate", 3),
            at("FieldValueInvalid", 4),
        ]
    );
}

#[test]
fn messages_about_sysctls_and_host_names_match_upstream() {
    let messages = |spec: Value| -> Vec<String> {
        let errors = validate_pod(&pod(spec));
        errors.iter().map(ToString::to_string).collect()
    };
    let containers = json!([{"name": "c", "image": "x"}]);
    let sysctls = json!({"sysctls": [{"name": "A", "value": "1"}, {"name": "net/ipv4/x", "value": "1"}]});
    let found = messages(json!({"hostNetwork": true, "securityContext": sysctls, "containers": containers}));
    assert_eq!(
        found,
        [
            "spec.securityContext.sysctls[0].name: Invalid value: \"A\": must have at most 253 characters and match regex \
             ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            "spec.securityContext.sysctls[1].name: Invalid value: \"net/ipv4/x\": may not be specified when \
             'hostNetwork' is true",
        ]
    );
    let names = json!({"hostnameOverride": "a", "hostNetwork": true, "setHostnameAsFQDN": true, "containers": containers});
    assert_eq!(
        messages(names),
        [
            "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
            "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
        ]
    );
}

#[test]
fn negative_grace_period_of_a_pod_is_one_second() {
    let spec = json!({"terminationGracePeriodSeconds": -5, "containers": [{"name": "c", "image": "x"}]});
    let pod = pod(spec);
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 1);
    assert!(validate_pod(&pod).is_empty());
}

#[test]
fn overriding_host_name_excludes_other_names() {
    let causes = |fields: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        causes_of(spec)
    };
    assert!(causes(json!({"hostnameOverride": "a.b.example"})).is_empty());
    let field = "spec.hostnameOverride";
    assert_eq!(
        causes(json!({"hostnameOverride": "A_b"})),
        [format!("FieldValueInvalid {field}")]
    );
    assert_eq!(
        causes(json!({"hostnameOverride": "a".repeat(65)})),
        [format!("FieldValueTooLong {field}")]
    );
    for other in ["hostNetwork", "setHostnameAsFQDN"] {
        let causes = causes(json!({"hostnameOverride": "a", other: true}));
        assert_eq!(causes, [format!("FieldValueForbidden {field}")]);
    }
}

#[test]
fn updates_of_pods_with_many_tolerations_and_addresses_take_linear_time() {
    let tolerations: Vec<Value> = (0..20_000)
        .map(|number| json!({"key": format!("k{number}"), "operator": "Exists"}))
        .collect();
    let old = pod(json!({"containers": [{"name": "c", "image": "i"}], "tolerations": tolerations}));
    // The pairwise comparison of all tolerations would take a minute.
    assert_eq!(causes(&validate_pod_update(&old, &old)), Vec::<String>::new());
    let mut changed = old.clone();
    changed["spec"]["tolerations"][10_000] = json!({"key": "other"});
    let faults = causes(&validate_pod_update(&changed, &old));
    assert_eq!(faults, ["FieldValueForbidden spec.tolerations"]);
    let addresses: Vec<Value> = (0..40_000)
        .map(|number| json!({"ip": format!("f{number}")}))
        .collect();
    let mut new = old.clone();
    new["status"]["podIPs"] = json!(addresses);
    // Each address is invalid; the last two errors are about the families.
    assert_eq!(validate_pod_status_update(&new, &old).len(), 40_002);
}

#[test]
fn rejects_negative_quantities() {
    let resources = json!({"requests": {"cpu": "-1", "memory": "1Gi"}, "limits": {"cpu": "-2"}});
    let faults = |spec: Value| {
        let errors = validate_pod(&pod(spec));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let detail = "must be greater than or equal to 0";
    assert_eq!(
        faults(json!({
            "containers": [{"name": "c", "image": "x", "resources": resources}],
            "overhead": {"memory": "-1Gi"},
        })),
        [
            format!("spec.containers[0].resources.limits[cpu]: Invalid value: \"-2\": {detail}"),
            format!("spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": {detail}"),
            "spec.containers[0].resources.requests: Invalid value: \"-1\": must be less than or equal to cpu limit of -2".to_owned(),
            format!("spec.overhead.limits[memory]: Invalid value: \"-1Gi\": {detail}"),
        ]
    );
}
