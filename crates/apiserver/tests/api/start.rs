//! A new cluster: default objects, kubeconfig, discovery, and metrics.

use std::os::unix::fs::PermissionsExt;

use http::Method;

use crate::harness::Api;

/// KSVC-05: the endpoints have the port on which the server listens.
#[tokio::test]
async fn new_cluster_has_the_default_objects() {
    let api = Api::start().await;
    let namespaces = api.get("/api/v1/namespaces").await.expect(200);
    let names: Vec<&str> = namespaces["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    let service = api
        .get("/api/v1/namespaces/default/services/kubernetes")
        .await
        .expect(200);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    let endpoints = api
        .get("/api/v1/namespaces/default/endpoints/kubernetes")
        .await
        .expect(200);
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "192.0.2.7");
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let slice = api.get(slices).await.expect(200);
    assert_eq!(slice["ports"][0]["port"], api.server.address().port());
    let cidr = api
        .get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        .await
        .expect(200);
    assert_eq!(cidr["status"]["conditions"][0]["type"], "Ready");
}

#[tokio::test]
async fn kubeconfig_is_a_private_file() {
    let api = Api::start().await;
    let path = api.directory.path().join("admin.conf");
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(&format!("server: https://{}", api.server.address())));
}

#[tokio::test]
async fn serves_discovery_and_openapi() {
    let api = Api::start().await;
    let core = api.get("/api/v1").await.expect(200);
    assert!(
        core["resources"]
            .as_array()
            .unwrap()
            .iter()
            .any(|resource| resource["name"] == "services/status")
    );
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let reply = api.send(Method::GET, "/apis", &[("accept", accept)], "").await;
    assert_eq!(
        reply.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(reply.expect(200)["kind"], "APIGroupDiscoveryList");
    assert_eq!(api.get("/apis/").await.expect(200)["kind"], "APIGroupList");
    let yaml = [("accept", "application/yaml, application/json;q=0.5")];
    let reply = api
        .send(Method::GET, "/apis/discovery.k8s.io/v1", &yaml, "")
        .await;
    assert_eq!(reply.headers["content-type"], "application/yaml");
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    assert!(text.contains("\nkind: APIResourceList\n"), "{text}");
    let index = api.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    assert!(api.get(url).await.expect(200)["components"]["schemas"].is_object());
    let unknown = api.get("/apis/nonsense.example/v1/things").await;
    assert_eq!(
        (unknown.code.as_u16(), &unknown.body[..]),
        (404, &b"404 page not found\n"[..])
    );
}

/// kubectl lists CustomResourceDefinitions before it reports `no matches for kind`.
#[tokio::test]
async fn list_of_custom_resource_definitions_is_empty() {
    let api = Api::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let list = api.get(path).await.expect(200);
    assert_eq!(list["kind"], "CustomResourceDefinitionList");
    assert_eq!(list["items"], serde_json::json!([]));
    assert_eq!(api.get(&format!("{path}?watch=true")).await.code, 404);
    assert_eq!(api.send(Method::POST, path, &[], "{}").await.code, 405);
    let groups = api.get("/apis").await.expect(200).to_string();
    assert!(!groups.contains("apiextensions.k8s.io"), "{groups}");
}

#[tokio::test]
async fn requests_are_counted() {
    let api = Api::start().await;
    api.get("/api/v1/nodes").await.expect(200);
    let metrics = api.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    let line = text.lines().find(|line| {
        line.starts_with("apiserver_request_total{code=\"200\"") && line.contains("resource=\"nodes\"")
    });
    assert!(line.is_some_and(|line| line.ends_with(" 1")), "{text}");
    for value in [
        "allocated_ips{cidr=\"10.96.0.0/16\"} 1",
        "allocation_duration_seconds_count{cidr=\"10.96.0.0/16\"} 1",
    ] {
        let line = format!("kube_apiserver_clusterip_allocator_{value}");
        assert!(text.contains(&line), "{line}");
    }
}

/// NP-12.
#[tokio::test]
async fn allocations_of_node_ports_are_counted() {
    let api = Api::start().await;
    let service = |name: &str, port: Option<u16>| {
        serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}})
    };
    let services = "/api/v1/namespaces/default/services";
    api.post(services, &service("a", Some(30_007))).await.expect(201);
    api.post(services, &service("b", None)).await.expect(201);
    api.post(services, &service("c", Some(30_007))).await.expect(422);
    let metrics = api.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in [
        "nodeport_allocator_allocated_ports 2",
        "nodeport_allocator_available_ports 2766",
        "nodeport_allocator_allocation_total{scope=\"dynamic\"} 1",
        "nodeport_allocator_allocation_total{scope=\"static\"} 1",
        "nodeport_allocator_allocation_errors_total{scope=\"static\"} 1",
        "nodeport_repair_reconcile_errors_total 0",
    ] {
        let line = format!("kube_apiserver_{line}");
        assert!(
            text.lines().any(|present| present == line),
            "{line} is not in\n{text}"
        );
    }
}

/// CIDR-06: a second family is added. CIDR-07: other differences are reported once, and the stored ranges stay.
#[tokio::test]
async fn default_service_cidr_follows_the_flag_or_its_difference_is_reported() {
    let api = Api::start().await.restart_with_ranges(&["10.96.0.0/16"]).await;
    let path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let both = serde_json::json!(["10.96.0.0/16", "fd00:10:96::/112"]);
    assert_eq!(
        api.get(path).await.expect(200)["spec"]["cidrs"],
        both,
        "no family is removed"
    );
    let reasons = async |api: &Api| {
        let events = api.get("/api/v1/namespaces/default/events").await.expect(200);
        let events = events["items"].as_array().unwrap().clone();
        let reasons = events
            .iter()
            .map(|event| event["reason"].as_str().unwrap().to_owned());
        reasons
            .filter(|reason| reason == "KubernetesDefaultServiceCIDRInconsistent")
            .count()
    };
    assert_eq!(reasons(&api).await, 1);
    // Without the object, the flag applies again.
    api.delete(path).await.expect(200);
    let api = api.restart_with_ranges(&["10.96.0.0/16"]).await;
    let one = serde_json::json!(["10.96.0.0/16"]);
    assert_eq!(api.get(path).await.expect(200)["spec"]["cidrs"], one);
    let api = api
        .restart_with_ranges(&["10.96.0.0/16", "fd00:10:96::/112"])
        .await;
    assert_eq!(api.get(path).await.expect(200)["spec"]["cidrs"], both);
    assert_eq!(reasons(&api).await, 1, "the upgrade is not a difference");
}

/// KSVC-02.
#[tokio::test]
async fn kubernetes_service_follows_the_configuration() {
    let service = apiserver::KubernetesService {
        node_port: Some(30_443),
        endpoint_reconciler: apiserver::EndpointReconciler::None,
    };
    let api = Api::start_for(service).await;
    let service = api
        .get("/api/v1/namespaces/default/services/kubernetes")
        .await
        .expect(200);
    assert_eq!(service["spec"]["type"], "NodePort");
    assert_eq!(service["spec"]["ports"][0]["nodePort"], 30_443);
    api.get("/api/v1/namespaces/default/endpoints/kubernetes")
        .await
        .expect(404);
}
