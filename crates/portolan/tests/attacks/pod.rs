//! Attacks from a Pod with root and a ServiceAccount token, and of a user who may create Pods.

mod encapsulated_packets;
mod own_users;
mod paths;
mod resolver_queries;
mod slow_requests;
mod unread_responses;
mod volumes;

use http::Method;
use serde_json::{Value, json};

use crate::test_cluster::TestCluster;

const NODE: &str = "node-1";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Returns a container that succeeds if the attack of its script succeeds.
fn attacker(script: &str) -> Value {
    json!({"image": "bash", "args": [format!("({script}) >/dev/null 2>&1")]})
}

/// A Pod without special privileges has no access to cluster keys, files, devices and kernel settings of the node.
#[test]
fn root_in_a_pod_cannot_take_over_the_node() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(NODE, &[]);
        cluster.wait_for_node(NODE, NODE, "True");
        let key = cluster.data_dir(NODE).join("pki/ca.key");
        assert!(key.exists());
        let key = key.display();
        let attacks = [
            ("key", format!("grep PRIVATE {key}")),
            ("key-by-pid-1", format!("grep PRIVATE /proc/1/root{key}")),
            ("administrator", format!("cat {}/admin.conf", cluster.data_dir(NODE).display())),
            ("file", ": >>/etc/hostname".to_owned()),
            ("program", ": >>/bin/bash || : >>/usr/bin/env".to_owned()),
            ("device", "mknod /dev/shm/memory c 1 1; head -c 1 /dev/shm/memory || head -c 1 /dev/mem || ls /dev/kmsg".to_owned()),
            ("device-file", "chmod 0666 /dev/null || chown 0 /dev/zero || touch -d @1 /dev/full".to_owned()),
            ("namespace", "unshare -U true".to_owned()),
            ("mount", "mount -t tmpfs none /mnt".to_owned()),
            ("setting", "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness".to_owned()),
            ("escalation", "grep -q 'NoNewPrivs:.0' /proc/self/status".to_owned()),
            ("filter", "grep -q 'Seccomp:.0' /proc/self/status".to_owned()),
            ("control-groups", "find /sys/fs/cgroup | grep portolan-pods || grep portolan-pods /proc/self/cgroup".to_owned()),
            ("capabilities", "! grep -q 'CapBnd:.00000000a80425fb' /proc/self/status".to_owned()),
        ];
        for (name, script) in &attacks {
            cluster.run_pod(NODE, NODE, name, attacker(script));
        }
        let final_phase = |name: &str| {
            let path = format!("{PODS}/{name}");
            cluster.wait_until(name, |cluster| {
                let phase = cluster.get(NODE, &path)["status"]["phase"].as_str()?.to_owned();
                ["Succeeded", "Failed"].contains(&phase.as_str()).then_some(phase)
            })
        };
        let succeeded: Vec<&str> = attacks
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| final_phase(name) == "Succeeded")
            .collect();
        assert_eq!(succeeded, Vec::<&str>::new(), "attacks that succeed");
    });
}

/// hostPath volumes are checked after resolution of the path.
#[test]
fn host_path_volumes_do_not_expose_cluster_keys() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(NODE, &[]);
        cluster.wait_for_node(NODE, NODE, "True");
        let data = cluster.data_dir(NODE);
        let pod = |name: &str, path: &std::path::Path, script: &str| {
            let mut main = attacker(script);
            main["name"] = json!("main");
            main["volumeMounts"] = json!([{"name": "host", "mountPath": "/mnt"}]);
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [main],
                         "volumes": [{"name": "host", "hostPath": {"path": path}}]}})
        };
        let inside = pod("inside", &data.join("pki"), "grep PRIVATE /mnt/ca.key");
        // A parent directory may be mounted; the data directory in it is hidden.
        let above = pod(
            "above",
            data.parent().expect("a directory"),
            &format!("grep -r PRIVATE /mnt/{NODE}"),
        );
        for pod in [&inside, &above] {
            cluster.wait_for("the default ServiceAccount", || {
                cluster
                    .try_request(NODE, Method::POST, PODS, Some(pod))
                    .map(|_| true)
            });
        }
        cluster.wait_until("the exit of the Pod `above`", |cluster| {
            let phase = cluster.get(NODE, &format!("{PODS}/above"))["status"]["phase"].clone();
            assert_ne!(phase, "Succeeded", "the Pod has read the key");
            (phase == "Failed").then_some(())
        });
        cluster.wait_until("an Event about the rejected volume", |cluster| {
            let events = cluster.get(NODE, "/api/v1/namespaces/default/events");
            let phase = cluster.get(NODE, &format!("{PODS}/inside"))["status"]["phase"].clone();
            assert_ne!(phase, "Succeeded", "the Pod has read the key");
            let mut all = events["items"].as_array().into_iter().flatten();
            all.any(|event| {
                event["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("no Pod may mount it"))
            })
            .then_some(())
        });
    });
}

/// Pod Security relaxes its rules for Pods of the OS Windows. As the kubelet, the agent must reject such Pods.
#[test]
fn windows_pods_do_not_bypass_restricted() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(NODE, &[]);
        cluster.wait_for_node(NODE, NODE, "True");
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}});
        cluster.request(NODE, Method::POST, "/api/v1/namespaces", Some(&namespace));
        let mut main = attacker("grep -q 'NoNewPrivs:.0' /proc/self/status");
        main["name"] = json!("main");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "escape"},
            "spec": {"nodeName": NODE, "restartPolicy": "Never", "os": {"name": "windows"}, "containers": [main],
                     "securityContext": {"runAsNonRoot": true}}});
        let pods = "/api/v1/namespaces/team/pods";
        cluster.wait_for("the default ServiceAccount", || {
            cluster
                .try_request(NODE, Method::POST, pods, Some(&pod))
                .map(|_| true)
        });
        let status = cluster.wait_until("the exit of the Pod", |cluster| {
            let status = cluster.get(NODE, &format!("{pods}/escape"))["status"].clone();
            let phase = status["phase"].as_str()?;
            ["Succeeded", "Failed"].contains(&phase).then_some(status)
        });
        assert_eq!(
            status["phase"], "Failed",
            "the Pod may use set-user-ID programs: {status}"
        );
        assert_eq!(status["reason"], "PodOSNotSupported");
    });
}

/// With the taint, the scheduler does not place Pods on the server.
#[test]
fn tainted_server_runs_no_scheduled_pods() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(NODE, &["--taint-server"]);
        cluster.wait_for_node(NODE, NODE, "True");
        let taints = &cluster.get(NODE, &format!("/api/v1/nodes/{NODE}"))["spec"]["taints"];
        let taint = json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"});
        assert!(
            taints.as_array().is_some_and(|all| all.contains(&taint)),
            "{taints}"
        );
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"},
            "spec": {"containers": [{"name": "main", "image": "portolan.dev/echo"}]}});
        cluster.wait_for("the default ServiceAccount", || {
            cluster
                .try_request(NODE, Method::POST, PODS, Some(&pod))
                .map(|_| true)
        });
        cluster.wait_until("the condition Unschedulable", |cluster| {
            let pod = cluster.get(NODE, &format!("{PODS}/waits"));
            assert!(pod["spec"]["nodeName"].is_null(), "{pod}");
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions
                .any(|condition| condition["reason"] == "Unschedulable")
                .then_some(())
        });
    });
}
