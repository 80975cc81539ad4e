//! Members of a set: definitions of the kinds, rights of users, and arguments.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{SERVER, VARIANTS, error, find, objects};

/// Command line of a member of a set.
const MEMBER: &[&str] = VARIANTS[9];

/// Returns the names of the properties of a schema.
fn names(properties: &Value) -> BTreeSet<&str> {
    let properties = properties.as_object().expect("properties");
    properties.keys().map(String::as_str).collect()
}

/// Returns the names of the fields of a built-in definition.
fn fields(definition: &str) -> BTreeSet<&'static str> {
    let schema = api::schema::schema();
    let fields = schema.find(definition).expect("a definition").fields();
    fields.iter().map(|field| field.name).collect()
}

#[test]
fn definitions_match_the_built_in_kinds() {
    let objects = objects(MEMBER);
    for kind_name in ["ServiceExport", "ServiceImport"] {
        let kind = api::kind::find_by_kind("multicluster.x-k8s.io/v1beta1", kind_name).expect("a kind");
        let definition = find(&objects, "CustomResourceDefinition", &kind.qualified_plural());
        let names = &definition["spec"]["names"];
        assert_eq!(definition["spec"]["group"], kind.group);
        assert_eq!(names["kind"], kind.kind);
        assert_eq!(names["listKind"], kind.list_kind);
        assert_eq!(names["plural"], kind.plural);
        assert_eq!(names["singular"], kind.singular);
        assert_eq!(names["shortNames"], serde_json::json!(kind.short_names));
    }
}

#[test]
fn one_of_two_equal_versions_is_stored() {
    let objects = objects(MEMBER);
    for plural in ["serviceexports", "serviceimports"] {
        let name = format!("{plural}.multicluster.x-k8s.io");
        let definition = find(&objects, "CustomResourceDefinition", &name);
        let versions = definition["spec"]["versions"].as_array().expect("versions");
        let stored: Vec<(&Value, &Value)> = versions
            .iter()
            .map(|version| (&version["name"], &version["storage"]))
            .collect();
        assert_eq!(
            serde_json::json!(stored),
            serde_json::json!([["v1beta1", true], ["v1alpha1", false]])
        );
        assert_eq!(versions[0]["schema"], versions[1]["schema"]);
    }
}

#[test]
fn fields_of_definitions_match_the_schema() {
    let objects = objects(MEMBER);
    for kind in ["ServiceExport", "ServiceImport"] {
        let name = format!("{}s.multicluster.x-k8s.io", kind.to_lowercase());
        let definition = find(&objects, "CustomResourceDefinition", &name);
        let root = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        for part in ["spec", "status"] {
            let built_in = format!(
                "io.x-k8s.multicluster.v1beta1.{kind}{}",
                if part == "spec" { "Spec" } else { "Status" }
            );
            assert_eq!(names(&root[part]["properties"]), fields(&built_in), "{built_in}");
        }
        let condition = &root["status"]["properties"]["conditions"]["items"]["properties"];
        assert_eq!(
            names(condition),
            fields("io.k8s.apimachinery.pkg.apis.meta.v1.Condition")
        );
    }
    let import = find(
        &objects,
        "CustomResourceDefinition",
        "serviceimports.multicluster.x-k8s.io",
    );
    let root = &import["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let ports = &root["spec"]["properties"]["ports"]["items"]["properties"];
    assert_eq!(names(ports), fields("io.x-k8s.multicluster.v1beta1.ServicePort"));
}

#[test]
fn other_clusters_have_a_kubeconfig_in_the_secret() {
    let pod = |arguments: &[&str]| -> Value {
        let objects = objects(arguments);
        find(&objects, "Deployment", "portolan-multicluster")["spec"]["template"]["spec"].clone()
    };
    let member = pod(MEMBER);
    let arguments = member["containers"][0]["args"].to_string();
    for name in ["west", "north"] {
        let flag = format!("--clusterset-kubeconfig={name}=/etc/portolan/clusterset/{name}");
        assert!(arguments.contains(&flag), "{arguments}");
    }
    assert_eq!(
        member["volumes"][0]["secret"]["secretName"],
        "portolan-clusterset"
    );
    assert_eq!(
        member["containers"][0]["volumeMounts"][0]["mountPath"],
        "/etc/portolan/clusterset"
    );
    let first = pod(&["multicluster", SERVER, "--cluster-id=east"]);
    assert!(first.get("volumes").is_none(), "{first}");
}

#[test]
fn dns_of_a_member_serves_the_zone_of_the_set() {
    let objects_of_member = objects(MEMBER);
    let deployment = find(&objects_of_member, "Deployment", "portolan-dns").to_string();
    assert!(
        deployment.contains("--clusterset-domain=clusterset.local"),
        "{deployment}"
    );
    let rules = find(&objects_of_member, "ClusterRole", "portolan-dns")["rules"].to_string();
    assert!(rules.contains("serviceimports"), "{rules}");
    let others = objects(&["dns"]);
    let rules = find(&others, "ClusterRole", "portolan-dns")["rules"].to_string();
    assert!(!rules.contains("serviceimports"), "{rules}");
}

#[test]
fn members_have_distinct_names() {
    assert!(error(&["multicluster", SERVER]).contains("--cluster-id"));
    let twice = ["multicluster", SERVER, "--cluster-id=a", "--clusterset=b,a"];
    assert!(error(&twice).contains("distinct names"));
    assert!(error(&["multicluster", SERVER, "--clusterset=b"]).contains("--cluster-id"));
    assert!(error(&["proxy", SERVER, "--cluster-id=a"]).contains("multicluster"));
    assert!(error(&["dns", "--cluster-id=a", "--clusterset=b"]).contains("multicluster"));
    assert!(error(&["multicluster", SERVER, "--cluster-id=A_"]).contains("found \"A_\""));
}
