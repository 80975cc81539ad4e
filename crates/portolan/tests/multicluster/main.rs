//! Multi-cluster Services between two clusters of `portolan up`, each on a host of the testbed. The tests cover what
//! upstream's conformance suite of KEP-1645 specifies, and the loss of a cluster.

mod set;
#[path = "../support/test_host.rs"]
mod test_host;

use serde_json::json;
use set::{
    Set, deploy, export, export_condition, import_field, imports, request, resolve, serve, unexport, wait_for,
};
use testbed::in_namespace;

const HTTP: &[(&str, u16)] = &[("http", 80)];

#[test]
fn services_are_imported() {
    in_namespace(|| {
        let mut set = Set::start();
        exported_service_is_reachable_and_ends(&mut set);
        import_has_the_properties_of_the_service(&mut set);
        headless_service_has_names_of_endpoints(&mut set);
        external_name_is_not_exported(&mut set);
        set.end();
    });
}

#[test]
fn conflicts_are_resolved_by_age() {
    in_namespace(|| {
        let mut set = Set::start();
        ports_are_merged(&mut set);
        conflicting_port_has_no_endpoints_of_the_younger_export(&mut set);
        oldest_type_and_metadata_decide(&mut set);
        set.end();
    });
}

#[test]
fn endpoints_of_a_lost_cluster_stay_for_the_grace_period() {
    in_namespace(|| {
        let mut set = Set::start();
        let namespace = "lost";
        set.namespace(namespace);
        deploy(&mut set.west, namespace, 1);
        serve(&mut set.west, namespace, HTTP, &json!({}));
        export(&mut set.west, namespace, &json!({}));
        wait_for(&mut set.east, &request(namespace, 80), "200");
        // The Pods of the other cluster run on while its API server is stopped.
        set.west.must("kill -STOP $(cat /var/lib/portolan/up.lock)");
        let reachable = import_field(
            namespace,
            ".status.conditions[?(@.type==\"ClustersReachable\")].status",
        );
        wait_for(&mut set.east, &reachable, "False");
        let slices = "kubectl -n lost get endpointslices -o name | wc -l";
        wait_for(&mut set.east, slices, "0");
        wait_for(&mut set.east, &imports(namespace), "1");
        set.west.must("kill -CONT $(cat /var/lib/portolan/up.lock)");
        wait_for(&mut set.east, &reachable, "True");
        wait_for(&mut set.east, &request(namespace, 80), "200");
        set.end();
    });
}

/// Specifications: no access before the export; access from both clusters; mirrored slices; DNS; an import exists while any
/// cluster exports the Service.
fn exported_service_is_reachable_and_ends(set: &mut Set) {
    let namespace = "access";
    set.namespace(namespace);
    deploy(&mut set.west, namespace, 1);
    serve(
        &mut set.west,
        namespace,
        HTTP,
        &json!({"sessionAffinity": "None"}),
    );
    let name = "web.access";
    for host in [&mut set.east, &mut set.west] {
        assert_eq!(host.must(&imports(namespace)), "0");
        assert_eq!(host.must(&resolve(name, "A")), "");
    }
    export(&mut set.west, namespace, &json!({}));
    set.wait_for(&import_field(namespace, ".spec.type"), "ClusterSetIP");
    set.wait_for(&import_field(namespace, ".status.clusters[*].cluster"), "west");
    set.wait_for(&request(namespace, 80), "200");
    wait_for(&mut set.west, &export_condition(namespace, "Valid"), "True Valid");
    wait_for(&mut set.west, &export_condition(namespace, "Ready"), "True Ready");
    wait_for(
        &mut set.west,
        &export_condition(namespace, "Conflict"),
        "False NoConflicts",
    );
    let labelled = "kubectl -n access get endpointslices -o jsonpath='{.items[*].metadata.name}' \
        -l multicluster.kubernetes.io/service-name=web,multicluster.kubernetes.io/source-cluster=west,\
        endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io | wc -w";
    set.wait_for(labelled, "1");
    for host in [&mut set.east, &mut set.west] {
        let address = host.must(&import_field(namespace, ".spec.ips[0]"));
        wait_for(host, &resolve(name, "A"), &address);
        wait_for(
            host,
            &format!(
                "{} | grep -c ' 80 web.access.'",
                resolve("_http._tcp.web.access", "SRV")
            ),
            "1",
        );
        assert_eq!(
            host.must(&resolve("west.web.access", "A")),
            "",
            "no name of one cluster"
        );
    }
    // The Service of the cluster keeps its name in the zone of the cluster.
    let local = "dig +short @169.254.20.10 web.access.svc.cluster.local";
    let address = set
        .west
        .must("kubectl -n access get service web -o jsonpath='{.spec.clusterIP}'");
    wait_for(&mut set.west, local, &address);
    assert_eq!(set.east.must(local), "");

    deploy(&mut set.east, namespace, 1);
    serve(&mut set.east, namespace, HTTP, &json!({}));
    export(&mut set.east, namespace, &json!({}));
    set.wait_for(
        &import_field(namespace, ".status.clusters[*].cluster"),
        "east west",
    );
    unexport(&mut set.west, namespace);
    set.wait_for(&import_field(namespace, ".status.clusters[*].cluster"), "east");
    set.wait_for(&request(namespace, 80), "200");
    unexport(&mut set.east, namespace);
    set.wait_for(&imports(namespace), "0");
    set.wait_for(labelled, "0");
    set.wait_for("kubectl -n access get services -o name | grep -c derived", "0");
}

/// Specifications: ports, session affinity, exported labels and annotations only.
fn import_has_the_properties_of_the_service(set: &mut Set) {
    let namespace = "properties";
    set.namespace(namespace);
    let affinity =
        json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}});
    serve(
        &mut set.west,
        namespace,
        &[("http", 80), ("admin", 81)],
        &affinity,
    );
    let metadata = json!({"exportedLabels": {"team": "shop"}, "exportedAnnotations": {"note": "exported"}});
    export(&mut set.west, namespace, &metadata);
    set.wait_for(&import_field(namespace, ".spec.ports[*].port"), "80 81");
    set.wait_for(&import_field(namespace, ".spec.sessionAffinity"), "ClientIP");
    set.wait_for(
        &import_field(namespace, ".spec.sessionAffinityConfig.clientIP.timeoutSeconds"),
        "60",
    );
    set.wait_for(&import_field(namespace, ".metadata.labels.team"), "shop");
    set.wait_for(&import_field(namespace, ".metadata.annotations.note"), "exported");
    for field in ["labels", "annotations"] {
        let other = import_field(namespace, &format!(".metadata.{field}.of-service"));
        set.wait_for(&other, "");
    }
}

/// Specifications: a headless import has no clusterset IP; its name has the endpoints, each with a name in its cluster.
fn headless_service_has_names_of_endpoints(set: &mut Set) {
    let namespace = "headless";
    set.namespace(namespace);
    deploy(&mut set.west, namespace, 2);
    serve(&mut set.west, namespace, HTTP, &json!({"clusterIP": "None"}));
    export(&mut set.west, namespace, &json!({}));
    set.wait_for(&import_field(namespace, ".spec.type"), "Headless");
    set.wait_for(&import_field(namespace, ".spec.ips"), "");
    let addresses = set
        .west
        .must("kubectl -n headless get pods -o jsonpath='{.items[*].status.podIP}' | tr ' ' '\\n' | sort | tr '\\n' ' '");
    assert_eq!(addresses.split_whitespace().count(), 2);
    set.wait_for(&resolve("web.headless", "A"), &addresses);
    set.wait_for(
        &format!(
            "{} | grep -o ' 8080 ' | wc -l",
            resolve("_http._tcp.web.headless", "SRV")
        ),
        "2",
    );
    let first = addresses.split_whitespace().next().expect("an address");
    let label = first.replace('.', "-");
    set.wait_for(&resolve(&format!("{label}.west.web.headless"), "A"), first);
    set.wait_for(&resolve(&format!("{label}.east.web.headless"), "A"), "");
    unexport(&mut set.west, namespace);
    set.wait_for(&imports(namespace), "0");
}

/// Specification: a Service of type ExternalName is not a valid export.
fn external_name_is_not_exported(set: &mut Set) {
    let namespace = "external";
    set.namespace(namespace);
    let external = json!({"type": "ExternalName", "externalName": "example.com", "selector": null});
    serve(&mut set.west, namespace, HTTP, &external);
    export(&mut set.west, namespace, &json!({}));
    wait_for(
        &mut set.west,
        &export_condition(namespace, "Valid"),
        "False InvalidServiceType",
    );
    for host in [&mut set.east, &mut set.west] {
        assert_eq!(host.must(&imports(namespace)), "0");
    }
}

/// Specification: an import has the union of the ports, each with the endpoints of its clusters.
fn ports_are_merged(set: &mut Set) {
    let namespace = "union";
    set.namespace(namespace);
    for host in [&mut set.east, &mut set.west] {
        deploy(host, namespace, 1);
    }
    serve(&mut set.east, namespace, HTTP, &json!({}));
    export(&mut set.east, namespace, &json!({}));
    set.wait_for(&import_field(namespace, ".spec.ports[*].port"), "80");
    serve(
        &mut set.west,
        namespace,
        &[("http", 80), ("admin", 81)],
        &json!({}),
    );
    export(&mut set.west, namespace, &json!({}));
    set.wait_for(&import_field(namespace, ".spec.ports[*].port"), "80 81");
    set.wait_for(&request(namespace, 80), "200");
    set.wait_for(&request(namespace, 81), "200");
    let own = |cidr: &str| {
        format!(
            "kubectl -n union get endpointslices -o jsonpath='{{.items[*].endpoints[*].addresses[*]}}' \
             -l multicluster.kubernetes.io/service-name=web | tr ' ' '\\n' | grep -c ^{cidr}"
        )
    };
    set.wait_for(&own("10.51"), "1");
    set.wait_for(&own("10.52"), "1");
}

/// Specification: the port of the older export wins; the endpoints of the other are not reached through it.
fn conflicting_port_has_no_endpoints_of_the_younger_export(set: &mut Set) {
    let namespace = "ports";
    set.namespace(namespace);
    for host in [&mut set.east, &mut set.west] {
        deploy(host, namespace, 1);
    }
    serve(&mut set.east, namespace, HTTP, &json!({}));
    export(&mut set.east, namespace, &json!({}));
    set.wait_for(&import_field(namespace, ".status.clusters[*].cluster"), "east");
    // Ages of exports are whole seconds.
    set.west.must("sleep 1.1");
    serve(&mut set.west, namespace, &[("http", 8080)], &json!({}));
    export(&mut set.west, namespace, &json!({}));
    set.wait_for(&export_condition(namespace, "Conflict"), "True PortConflict");
    set.wait_for(&import_field(namespace, ".spec.ports[*].port"), "80");
    set.wait_for(&request(namespace, 80), "200");
    let sources = "kubectl -n ports get endpointslices -l multicluster.kubernetes.io/service-name=web \
        -o jsonpath='{.items[*].metadata.labels.multicluster\\.kubernetes\\.io/source-cluster}'";
    set.wait_for(sources, "east");
}

/// Specifications: conflicts of headlessness, labels and annotations.
fn oldest_type_and_metadata_decide(set: &mut Set) {
    let namespace = "types";
    set.namespace(namespace);
    serve(&mut set.west, namespace, HTTP, &json!({}));
    export(
        &mut set.west,
        namespace,
        &json!({"exportedLabels": {"first": "1"}}),
    );
    set.wait_for(&import_field(namespace, ".status.clusters[*].cluster"), "west");
    set.east.must("sleep 1.1");
    serve(&mut set.east, namespace, HTTP, &json!({"clusterIP": "None"}));
    export(
        &mut set.east,
        namespace,
        &json!({"exportedAnnotations": {"second": "1"}}),
    );
    set.wait_for(
        &export_condition(namespace, "Conflict"),
        "True TypeConflict,AnnotationsConflict,LabelsConflict",
    );
    set.wait_for(&import_field(namespace, ".spec.type"), "ClusterSetIP");
    set.wait_for(&import_field(namespace, ".metadata.labels.first"), "1");
    set.wait_for(&import_field(namespace, ".metadata.annotations.second"), "");
}
