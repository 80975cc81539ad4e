use jiff::SignedDuration;

use super::*;
use crate::kinds::kind;

/// Number of cells without a column: upstream prints the age of an IPAddress, and declares no column for it.
fn surplus_cells(kind: &Kind) -> usize {
    usize::from(kind.kind == "IPAddress")
}

/// Returns the row of an object that was created three minutes ago, as text.
fn row(kind: &str, mut object: Value) -> Vec<String> {
    let kind = kind::all()
        .iter()
        .find(|candidate| candidate.kind == kind)
        .expect("kind");
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let now: Timestamp = "2026-01-01T00:03:00Z".parse().expect("timestamp");
    let cells = cells(kind, &object, now);
    assert_eq!(cells.len(), columns(kind).len() + surplus_cells(kind));
    cells
        .iter()
        .map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned))
        .collect()
}

#[test]
fn ingress_rows_match_upstream() {
    let rule = |host: &str| json!({"host": host});
    let rows = [
        (
            json!({"metadata": {"name": "a"}, "spec": {"ingressClassName": "portolan", "rules": [rule("a.com"), rule("b.com")],
                   "tls": [{"secretName": "a"}]},
                   "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
            "a portolan a.com,b.com 192.0.2.1 80, 443 3m",
        ),
        (
            json!({"metadata": {"name": "b"}, "spec": {"rules": [rule("a"), rule("b"), rule("c"), rule("d")]},
                   "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"ip": "192.0.2.1"}]}}}),
            "b <none> a,b,c + 1 more... 192.0.2.1,192.0.2.2 80 3m",
        ),
        (
            json!({"metadata": {"name": "c"}, "spec": {"defaultBackend": {}}}),
            "c <none> *  80 3m",
        ),
    ];
    for (ingress, expected) in rows {
        assert_eq!(row("Ingress", ingress).join(" "), expected);
    }
    let rules = json!([rule("a"), rule(""), rule("b"), rule("c")]);
    let all_shown = json!({"metadata": {"name": "d"}, "spec": {"rules": rules}});
    assert_eq!(row("Ingress", all_shown)[2], "a,b,c");
    let rules = json!([rule("a"), rule("b"), rule("c"), rule("")]);
    let one_more = json!({"metadata": {"name": "e"}, "spec": {"rules": rules}});
    assert_eq!(row("Ingress", one_more)[2], "a,b,c + 1 more...");
    let mut class = json!({"metadata": {"name": "edge"}, "spec": {"controller": "portolan.dev/ingress"}});
    assert_eq!(
        row("IngressClass", class.clone()).join(" "),
        "edge portolan.dev/ingress <none> 3m"
    );
    class["metadata"]["annotations"] = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    assert_eq!(row("IngressClass", class)[0], "edge (default)");
}

#[test]
fn service_rows_match_upstream() {
    let rows = [
        (
            json!({"metadata":{"name":"a"},"spec":{"type":"ClusterIP","clusterIPs":["10.96.0.1"],
                   "ports":[{"port":80,"protocol":"TCP"}],"selector":{"tier":"web","app":"x"}}}),
            "a ClusterIP 10.96.0.1 <none> 80/TCP 3m app=x,tier=web",
        ),
        (
            json!({"metadata":{"name":"b"},"spec":{"type":"NodePort","clusterIPs":["10.96.0.2"],"ports":[
                   {"port":80,"nodePort":30071,"protocol":"TCP"},{"port":53,"nodePort":30072,"protocol":"UDP"}]}}),
            "b NodePort 10.96.0.2 <none> 80:30071/TCP,53:30072/UDP 3m <none>",
        ),
        (
            json!({"metadata":{"name":"c"},"spec":{"type":"LoadBalancer","clusterIPs":["10.96.0.3"]}}),
            "c LoadBalancer 10.96.0.3 <pending> <none> 3m <none>",
        ),
        (
            json!({"metadata":{"name":"c"},"spec":{"type":"LoadBalancer","clusterIPs":["10.96.0.3"],"externalIPs":["1.1.1.1"]},
                   "status":{"loadBalancer":{"ingress":[{"ip":"9.9.9.9"},{"hostname":"lb.example"},{"ip":"8.8.8.8"}]}}}),
            "c LoadBalancer 10.96.0.3 8.8.8.8,9.9.9.9,lb.example,1.1.1.1 <none> 3m <none>",
        ),
        (
            json!({"metadata":{"name":"d"},"spec":{"type":"ExternalName","externalName":"db.example.com"}}),
            "d ExternalName <none> db.example.com <none> 3m <none>",
        ),
        (
            json!({"metadata":{"name":"e"},"spec":{"type":"ClusterIP","clusterIPs":["None"],"externalIPs":["1.2.3.4","1.2.3.5"]}}),
            "e ClusterIP None 1.2.3.4,1.2.3.5 <none> 3m <none>",
        ),
    ];
    for (service, expected) in rows {
        assert_eq!(row("Service", service).join(" "), expected);
    }
}

#[test]
fn prints_endpoints_and_slices() {
    let address = |n: usize| json!({"ip": format!("192.0.2.{n}")});
    let subset = json!({"addresses": (1..=10).map(address).collect::<Vec<_>>(), "ports": [{"port": 80}]});
    let endpoints = json!({"metadata": {"name": "s"}, "subsets": [subset]});
    assert_eq!(
        row("Endpoints", endpoints),
        ["s", "192.0.2.1:80,192.0.2.2:80,192.0.2.3:80 + 7 more...", "3m"]
    );
    let six = json!({"metadata": {"name": "s"}, "subsets": [{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 1}]}]});
    assert_eq!(row("Endpoints", six)[1], "[fd00::1]:1");
    assert_eq!(row("Endpoints", json!({"metadata": {"name": "s"}}))[1], NONE);
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}],
                       "endpoints": [{"addresses": ["1.1.1.1"]}, {"addresses": ["1.1.1.2"]}]});
    assert_eq!(
        row("EndpointSlice", slice),
        ["s", "IPv4", "80,x,*", "1.1.1.1,1.1.1.2", "3m"]
    );
    let bare = json!({"metadata": {"name": "s"}, "addressType": "IPv6", "endpoints": []});
    assert_eq!(
        row("EndpointSlice", bare),
        ["s", "IPv6", "<unset>", "<unset>", "3m"]
    );
}

#[test]
fn prints_addresses_and_ranges() {
    let address = json!({"metadata": {"name": "10.96.0.1"},
                         "spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": "kubernetes"}}});
    assert_eq!(
        row("IPAddress", address),
        ["10.96.0.1", "services/default/kubernetes", "3m"]
    );
    let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16", "fd00::/112"]}});
    assert_eq!(
        row("ServiceCIDR", cidr),
        ["kubernetes", "10.96.0.0/16,fd00::/112", "3m"]
    );
}

#[test]
fn pods_with_many_statuses_and_gates_take_linear_time() {
    const MANY: usize = 40_000;
    let named = |field: &str| -> Value {
        (0..MANY)
            .map(|number| json!({field: format!("n{number}"), "status": "True"}))
            .collect()
    };
    let ended =
        |number: usize| json!({"name": format!("n{number}"), "state": {"terminated": {"exitCode": 0}}});
    let statuses: Value = (0..MANY).map(ended).collect();
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{}], "initContainers": named("name"), "readinessGates": named("conditionType")},
        "status": {"phase": "Running", "initContainerStatuses": statuses, "conditions": named("type")},
    });
    // The comparison of all pairs would take a minute.
    let row = row("Pod", pod);
    assert_eq!(row[1], "0/1");
    assert_eq!(row[8], format!("{MANY}/{MANY}"));
}

#[test]
fn pod_rows_match_upstream() {
    let pod = |status: Value| {
        json!({"metadata": {"name": "p"},
               "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}],
                        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
                        "readinessGates": [{"conditionType": "x"}]},
               "status": status})
    };
    let running = json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "x", "status": "True"}],
        "initContainerStatuses": [
            {"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}},
            {"name": "s", "restartCount": 1, "started": true, "ready": true, "state": {"running": {}}}],
        "containerStatuses": [
            {"name": "a", "restartCount": 2, "ready": true, "state": {"running": {}},
             "lastState": {"terminated": {"finishedAt": "2026-01-01T00:02:00Z"}}},
            {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
    assert_eq!(
        row("Pod", pod(running)).join("|"),
        "p|2/3|CrashLoopBackOff|3 (60s ago)|3m|10.0.0.1|n|<none>|1/1"
    );
    let cases = [
        (json!({"phase": "Pending"}), "Pending"),
        (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "SchedulingGated",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            "Init:0/2",
        ),
        (
            json!({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}]}),
            "Init:ExitCode:3",
        ),
        (
            json!({"initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]}),
            "Init:ErrImagePull",
        ),
        (
            json!({"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "signal": 9}}}]}),
            "Signal:9",
        ),
        (
            json!({"containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}},
                {"ready": true, "state": {"running": {}}}]}),
            "NotReady",
        ),
    ];
    for (status, expected) in cases {
        assert_eq!(row("Pod", pod(status.clone()))[2], expected, "{status}");
    }
    let mut terminating = pod(json!({"phase": "Running"}));
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(row("Pod", terminating)[2], "Terminating");
}

#[test]
fn rows_of_other_kinds_match_upstream() {
    let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1.0", "architecture": "amd64"},
                   "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
    assert_eq!(
        row("Node", node).join(" "),
        "n Ready,SchedulingDisabled control-plane 3m v1 192.0.2.1 <none> <unknown> 6.1.0 (amd64) <unknown>"
    );
    let event = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Started", "message": " m ",
        "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "c", "host": "h"},
        "firstTimestamp": "2026-01-01T00:01:00Z", "lastTimestamp": "2026-01-01T00:02:30Z", "count": 3});
    assert_eq!(
        row("Event", event).join("|"),
        "30s|Normal|Started|pod/p||c, h|m|2m|3|e"
    );
    let named = |rest: Value| {
        let mut object = rest;
        object["metadata"]["name"] = "x".into();
        object
    };
    assert_eq!(
        row("Namespace", named(json!({"status": {"phase": "Active"}}))),
        ["x", "Active", "3m"]
    );
    assert_eq!(
        row(
            "ConfigMap",
            named(json!({"data": {"a": ""}, "binaryData": {"b": ""}}))
        ),
        ["x", "2", "3m"]
    );
    assert_eq!(
        row("Secret", named(json!({"type": "Opaque", "data": {"a": ""}}))),
        ["x", "Opaque", "1", "3m"]
    );
    assert_eq!(row("ServiceAccount", named(json!({}))), ["x", "3m"]);
    assert_eq!(
        row("Lease", named(json!({"spec": {"holderIdentity": "h"}}))),
        ["x", "h", "3m"]
    );
}

/// Upstream: `metav1.FormatLabelSelector`, as kube-apiserver 1.36.2 prints it.
#[test]
fn selectors_of_workloads_keep_the_operators_of_expressions() {
    let expression = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
    let selectors = [
        (json!({"matchLabels": {"b": "c", "a": "b"}}), "a=b,b=c"),
        (
            json!({"matchExpressions": [expression("a", "In", json!(["b"]))]}),
            "a in (b)",
        ),
        (
            json!({"matchExpressions": [expression("a", "In", json!(["c", "b"]))]}),
            "a in (b,c)",
        ),
        (
            json!({"matchExpressions": [expression("a", "In", json!([""]))]}),
            "a in ()",
        ),
        (
            json!({
                "matchLabels": {"z": "y", "m": "n"},
                "matchExpressions": [
                    expression("q", "Exists", Value::Null),
                    expression("a", "NotIn", json!(["x", "x", "w"])),
                    expression("d", "DoesNotExist", Value::Null),
                    expression("m", "In", json!(["n"])),
                ],
            }),
            "a notin (w,x,x),!d,m=n,m in (n),q,z=y",
        ),
        (json!({}), "<none>"),
    ];
    for (selector, expected) in selectors {
        for kind in ["Deployment", "ReplicaSet", "DaemonSet", "Job"] {
            let workload = json!({"metadata": {"name": "w"}, "spec": {"selector": selector}});
            assert_eq!(row(kind, workload).pop().as_deref(), Some(expected), "{kind}");
        }
    }
    let controller = json!({"metadata": {"name": "w"}, "spec": {"selector": {"z": "1", "a": "b"}}});
    let cells = row("ReplicationController", controller);
    assert_eq!(cells.last().map(String::as_str), Some("a=b,z=1"));
}

#[test]
fn all_kinds_print_empty_objects() {
    for kind in kind::all() {
        let cells = cells(kind, &Value::Null, Timestamp::UNIX_EPOCH);
        assert_eq!(
            cells.len(),
            columns(kind).len() + surplus_cells(kind),
            "{}",
            kind.kind
        );
    }
}

#[test]
fn durations_have_the_format_of_kubectl() {
    let cases = [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (28_799, "7h59m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (691_199, "7d23h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (66_000_000, "2y33d"),
        (252_288_000, "8y"),
        (999_999_999, "31y"),
    ];
    for (seconds, expected) in cases {
        assert_eq!(
            human_duration(SignedDuration::from_secs(seconds)),
            expected,
            "{seconds}"
        );
    }
}
