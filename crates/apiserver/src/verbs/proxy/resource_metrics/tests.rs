use api::resource_metrics::{ContainerUsage, PodUsage, Usage};
use serde_json::json;

use super::*;

/// Reports of two nodes, which both claim the Pod `web`.
fn reports() -> UsageReports {
    let report = |cpu_nanocores| Report {
        window_milliseconds: 10_000,
        node: Some(Usage {
            cpu_nanocores,
            memory_bytes: 1024,
        }),
        pods: vec![PodUsage {
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u1".into(),
            is_static: false,
            containers: vec![ContainerUsage {
                name: "main".into(),
                usage: Usage {
                    cpu_nanocores,
                    memory_bytes: 1024,
                },
            }],
        }],
        ..Report::default()
    };
    Arc::new([("n1".to_owned(), report(1)), ("n2".to_owned(), report(2))].into())
}

fn measured(plural: &str, stored: &Value) -> Option<Value> {
    let kind = kind::find("metrics.k8s.io", "v1beta1", plural).unwrap();
    let bytes = measure(kind, stored.to_string().as_bytes(), &reports())?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

#[test]
fn pods_have_the_measurement_of_their_node() {
    let pod = |node_name: &str| {
        json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "u1"},
            "spec": {"nodeName": node_name, "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        })
    };
    let object = measured("pods", &pod("n2")).unwrap();
    assert_eq!(object["containers"][0]["usage"]["cpu"], "2n");
    assert_eq!(measured("pods", &pod("n3")), None);
}

#[test]
fn nodes_have_their_own_measurement() {
    let node = |name: &str| json!({"metadata": {"name": name}});
    let object = measured("nodes", &node("n1")).unwrap();
    assert_eq!(object["usage"], json!({"cpu": "1n", "memory": "1Ki"}));
    assert_eq!(measured("nodes", &node("n3")), None);
}
