//! Somebody who may create Pods, and what runs in them: as root, with a ServiceAccount's token.

mod own_users;
mod slow_requests;
mod volumes;

use http::Method;
use serde_json::{Value, json};

use crate::lab::Lab;

const NODE: &str = "node-1";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A container that ends well if the attack that its script plays has succeeded.
fn attacker(script: &str) -> Value {
    json!({"image": "bash", "args": [format!("({script}) >/dev/null 2>&1")]})
}

/// A Pod that asks for nothing is no way to the keys of the cluster, to the node's files and devices, or to the kernel.
#[test]
fn a_pod_of_root_does_not_take_its_node() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(1);
        lab.up(NODE, &[]);
        lab.await_node(NODE, NODE, "True");
        let key = lab.data_dir(NODE).join("pki/ca.key");
        assert!(key.exists());
        let key = key.display();
        let attacks = [
            ("key", format!("grep PRIVATE {key}")),
            ("key-by-pid-1", format!("grep PRIVATE /proc/1/root{key}")),
            ("administrator", format!("cat {}/admin.conf", lab.data_dir(NODE).display())),
            ("file", ": >>/etc/hostname".to_owned()),
            ("program", ": >>/bin/bash || : >>/usr/bin/env".to_owned()),
            ("device", "mknod /dev/shm/memory c 1 1; head -c 1 /dev/shm/memory || head -c 1 /dev/mem || ls /dev/kmsg".to_owned()),
            ("namespace", "unshare -U true".to_owned()),
            ("mount", "mount -t tmpfs none /mnt".to_owned()),
            ("setting", "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness".to_owned()),
            ("escalation", "grep -q 'NoNewPrivs:.0' /proc/self/status".to_owned()),
            ("filter", "grep -q 'Seccomp:.0' /proc/self/status".to_owned()),
            ("capabilities", "! grep -q 'CapBnd:.00000000a80425fb' /proc/self/status".to_owned()),
        ];
        for (name, script) in &attacks {
            lab.run_pod(NODE, NODE, name, attacker(script));
        }
        let ended = |name: &str| {
            let path = format!("{PODS}/{name}");
            lab.until(name, |lab| {
                let phase = lab.get(NODE, &path)["status"]["phase"].as_str()?.to_owned();
                ["Succeeded", "Failed"].contains(&phase.as_str()).then_some(phase)
            })
        };
        let succeeded: Vec<&str> = attacks
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| ended(name) == "Succeeded")
            .collect();
        assert_eq!(succeeded, Vec::<&str>::new(), "these attacks succeed");
    });
}

/// A hostPath is checked for where it leads.
#[test]
fn no_volume_leads_to_the_clusters_keys() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(1);
        lab.up(NODE, &[]);
        lab.await_node(NODE, NODE, "True");
        let data = lab.data_dir(NODE);
        let pod = |name: &str, path: &std::path::Path, script: &str| {
            let mut main = attacker(script);
            main["name"] = json!("main");
            main["volumeMounts"] = json!([{"name": "host", "mountPath": "/mnt"}]);
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [main],
                         "volumes": [{"name": "host", "hostPath": {"path": path}}]}})
        };
        let inside = pod("inside", &data.join("pki"), "grep PRIVATE /mnt/ca.key");
        // What lies above may be mounted, without what is hidden.
        let above = pod(
            "above",
            data.parent().expect("a directory"),
            &format!("grep -r PRIVATE /mnt/{NODE}"),
        );
        for pod in [&inside, &above] {
            lab.wait_for("the default ServiceAccount", || {
                lab.try_ask(NODE, Method::POST, PODS, Some(pod)).map(|_| true)
            });
        }
        lab.until("the end of the Pod above", |lab| {
            let phase = lab.get(NODE, &format!("{PODS}/above"))["status"]["phase"].clone();
            assert_ne!(phase, "Succeeded", "the key was read");
            (phase == "Failed").then_some(())
        });
        lab.until("the refusal", |lab| {
            let events = lab.get(NODE, "/api/v1/namespaces/default/events");
            let phase = lab.get(NODE, &format!("{PODS}/inside"))["status"]["phase"].clone();
            assert_ne!(phase, "Succeeded", "the key was read");
            let mut all = events["items"].as_array().into_iter().flatten();
            all.any(|event| {
                event["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("no Pod may have that"))
            })
            .then_some(())
        });
    });
}

/// Pod Security asks less of Pods that say that they are for Windows; upstream's kubelets refuse them.
#[test]
fn a_pod_that_claims_to_be_for_windows_does_not_evade_restricted() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(1);
        lab.up(NODE, &[]);
        lab.await_node(NODE, NODE, "True");
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}});
        lab.ask(NODE, Method::POST, "/api/v1/namespaces", Some(&namespace));
        let mut main = attacker("grep -q 'NoNewPrivs:.0' /proc/self/status");
        main["name"] = json!("main");
        main["securityContext"] = json!({"allowPrivilegeEscalation": true});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "escape"},
            "spec": {"nodeName": NODE, "restartPolicy": "Never", "os": {"name": "windows"}, "containers": [main],
                     "securityContext": {"runAsNonRoot": true, "runAsUser": 1000}}});
        let pods = "/api/v1/namespaces/team/pods";
        lab.wait_for("the default ServiceAccount", || {
            lab.try_ask(NODE, Method::POST, pods, Some(&pod)).map(|_| true)
        });
        let status = lab.until("the end of the Pod", |lab| {
            let status = lab.get(NODE, &format!("{pods}/escape"))["status"].clone();
            let phase = status["phase"].as_str()?;
            ["Succeeded", "Failed"].contains(&phase).then_some(status)
        });
        assert_eq!(
            status["phase"], "Failed",
            "set-user-ID programs make it root: {status}"
        );
        assert_eq!(status["reason"], "PodOSNotSupported");
    });
}

/// With the taint, Pods that nobody assigns wait for another machine.
#[test]
fn a_tainted_server_runs_no_pods_of_others() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(1);
        lab.up(NODE, &["--taint-server"]);
        lab.await_node(NODE, NODE, "True");
        let taints = &lab.get(NODE, &format!("/api/v1/nodes/{NODE}"))["spec"]["taints"];
        let taint = json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"});
        assert!(
            taints.as_array().is_some_and(|all| all.contains(&taint)),
            "{taints}"
        );
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"},
            "spec": {"containers": [{"name": "main", "image": "portolan.dev/echo"}]}});
        lab.wait_for("the default ServiceAccount", || {
            lab.try_ask(NODE, Method::POST, PODS, Some(&pod)).map(|_| true)
        });
        lab.until("the scheduler's refusal", |lab| {
            let pod = lab.get(NODE, &format!("{PODS}/waits"));
            assert!(pod["spec"]["nodeName"].is_null(), "{pod}");
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions
                .any(|condition| condition["reason"] == "Unschedulable")
                .then_some(())
        });
    });
}
