use serde_json::{Map, Value};

use super::{MANIFEST, METALLB_STATUS_MANIFEST};

fn manifest() -> Value {
    serde_saphyr::from_str(MANIFEST).expect("valid YAML")
}

#[test]
fn names_match_the_built_in_kind() {
    let crd = manifest();
    let kind = api::kind::find_by_kind("portolan.dev/v1alpha1", "AddressPool").expect("registered kind");
    let names = &crd["spec"]["names"];
    assert_eq!(crd["metadata"]["name"], kind.qualified_plural());
    assert_eq!(crd["spec"]["group"], kind.group);
    assert_eq!(names["kind"], kind.kind);
    assert_eq!(names["listKind"], kind.list_kind);
    assert_eq!(names["plural"], kind.plural);
    assert_eq!(names["singular"], kind.singular);
}

#[test]
fn fields_match_the_schema() {
    let crd = manifest();
    let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for (definition, properties) in [
        ("AddressPoolSpec", &root["spec"]["properties"]),
        (
            "AddressPoolNodeAddresses",
            &root["spec"]["properties"]["nodeAddresses"]["properties"],
        ),
        ("AddressPoolStatus", &root["status"]["properties"]),
        (
            "AddressPoolUsage",
            &root["status"]["properties"]["usage"]["items"]["properties"],
        ),
    ] {
        let name = format!("dev.portolan.v1alpha1.{definition}");
        let fields = api::schema::schema()
            .find(&name)
            .expect("definition of the schema")
            .fields();
        let mut expected: Vec<&str> = fields.iter().map(|field| field.name).collect();
        let mut found: Vec<&str> = properties
            .as_object()
            .map(Map::keys)
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{definition}");
    }
}

#[test]
fn status_objects_of_metallb_have_a_status_subresource() {
    let definitions = METALLB_STATUS_MANIFEST.split("\n---\n").map(|document| {
        let definition: Value = serde_saphyr::from_str(document).expect("valid YAML");
        definition
    });
    let definitions: Vec<Value> = definitions.collect();
    let names = ["servicebgpstatuses.metallb.io", "configurationstates.metallb.io"];
    assert_eq!(definitions.len(), names.len());
    for (definition, name) in definitions.iter().zip(names) {
        let spec = &definition["spec"];
        assert_eq!(definition["metadata"]["name"], name);
        assert_eq!(
            name,
            format!("{}.metallb.io", spec["names"]["plural"].as_str().unwrap())
        );
        assert_eq!(spec["scope"], "Namespaced");
        let version = &spec["versions"][0];
        assert_eq!(version["name"], "v1beta1");
        assert!(version["subresources"]["status"].is_object(), "{name}");
    }
}
