//! Namespaces that Pods share with the node, and sysctls of Pods.

use std::fs;
use std::path::Path;
use std::time::Duration;

use agent::resources::cgroups::Cgroups;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, check, container, is_ready};

/// Waits for the first line of a Pod's log.
async fn first_line(cluster: &Cluster, pod: &str) -> String {
    loop {
        let log = cluster.log(pod, "").await.unwrap_or_default();
        if let Some((line, _)) = log.split_once('\n') {
            return line.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn host_ipc_is_that_of_the_node(cluster: &mut Cluster) -> Outcome {
    let own = fs::read_link("/proc/self/ns/ipc")?;
    for (pod, is_shared) in [("own-ipc", false), ("host-ipc", true)] {
        let script = "readlink /proc/self/ns/ipc; sleep 1000";
        let main = container("a", script, json!({}));
        let spec = json!({"hostIPC": is_shared, "terminationGracePeriodSeconds": 1, "containers": [main]});
        cluster.create_pod(pod, spec).await?;
        let line = first_line(cluster, pod).await;
        let shown = format!("{pod}: {line}, node: {}", own.display());
        check((own.to_string_lossy() == line.as_str()) == is_shared, shown)?;
        cluster.delete_pod(pod).await?;
        cluster.wait_until_gone(pod).await?;
    }
    Ok(())
}

pub(crate) async fn host_pid_is_that_of_the_node(cluster: &mut Cluster) -> Outcome {
    let pod = "host-pid";
    // The child has a session of its own, so that only the control group leads to it.
    let script = "setsid sleep 1000 & echo $(readlink /proc/self/ns/pid) $!; sleep 1000";
    let sees_this_process = format!("test -d /proc/{}", std::process::id());
    let probe = json!({"exec": {"command": ["/bin/sh", "-c", sees_this_process]}, "periodSeconds": 1});
    let main = container("a", script, json!({"readinessProbe": probe}));
    let spec = json!({"hostPID": true, "terminationGracePeriodSeconds": 1, "containers": [main]});
    cluster.create_pod(pod, spec).await?;
    if Cgroups::open().is_err() {
        let message = cluster.event(pod, "FailedCreatePodSandBox").await?;
        check(message.contains("hostPID needs control groups"), &message)?;
        println!("skipped: namespaces::host_pid_is_that_of_the_node: {message}");
    } else {
        cluster.wait_for_pod(pod, is_ready).await?;
        let line = first_line(cluster, pod).await;
        let (namespace, child) = line.split_once(' ').ok_or("expected a namespace and a PID")?;
        let own = fs::read_link("/proc/self/ns/pid")?;
        let shown = format!("{line}, node: {}", own.display());
        check(own.to_string_lossy() == namespace, shown)?;
        let child = Path::new("/proc").join(child);
        // A zombie, which process 1 of the test host may not reap, has no executable.
        let is_running = || fs::read_link(child.join("exe")).is_ok();
        check(is_running(), format!("{} is not running", child.display()))?;
        cluster.delete_pod(pod).await?;
        cluster.wait_until_gone(pod).await?;
        while is_running() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        return Ok(());
    }
    cluster.delete_pod(pod).await?;
    cluster.wait_until_gone(pod).await
}

pub(crate) async fn safe_sysctls_apply_to_the_pod(cluster: &mut Cluster) -> Outcome {
    let spec = |name: &str, script: &str| {
        let sysctls = json!([{"name": name, "value": "81"}]);
        json!({"securityContext": {"sysctls": sysctls}, "terminationGracePeriodSeconds": 1,
            "containers": [container("a", script, json!({}))]})
    };
    let script = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start; sleep 1000";
    cluster
        .create_pod("sysctls", spec("net.ipv4.ip_unprivileged_port_start", script))
        .await?;
    let line = first_line(cluster, "sysctls").await;
    check(line == "81", line)?;
    cluster
        .create_pod("forbidden", spec("net.core.somaxconn", "sleep 1000"))
        .await?;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = cluster.wait_for_pod("forbidden", failed).await?;
    let status = &pod["status"];
    check(status["reason"] == "SysctlForbidden", status)?;
    check(
        status["message"] == "forbidden sysctl: \"net.core.somaxconn\" not allowlisted",
        status,
    )?;
    for pod in ["sysctls", "forbidden"] {
        cluster.delete_pod(pod).await?;
        cluster.wait_until_gone(pod).await?;
    }
    Ok(())
}
