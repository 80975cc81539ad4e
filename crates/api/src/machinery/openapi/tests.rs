use std::collections::HashSet;

use super::*;

fn parse_document(group: &str, version: &str) -> Value {
    let text: String = document(group, version).expect("served group").concat();
    serde_json::from_str(&text).expect("JSON")
}

/// Collects all values of a field at any depth.
fn collect<'v>(tree: &'v Value, field: &str, found: &mut Vec<&'v Value>) {
    match tree {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == field {
                    found.push(value);
                }
                collect(value, field, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, field, found)),
        _ => {}
    }
}

#[test]
fn documents_contain_all_referenced_definitions() {
    for (group, version) in group_versions() {
        let document = parse_document(group, version);
        let mut references = Vec::new();
        collect(&document, "$ref", &mut references);
        assert!(references.len() > 20);
        for reference in references {
            let name = reference
                .as_str()
                .and_then(|reference| reference.strip_prefix("#/components/schemas/"))
                .expect("definition name");
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}

#[test]
fn operation_ids_are_unique() {
    for (group, version) in group_versions() {
        let document = parse_document(group, version);
        let mut ids = Vec::new();
        collect(&document["paths"], "operationId", &mut ids);
        let unique: HashSet<&str> = ids.iter().filter_map(|id| id.as_str()).collect();
        assert_eq!(unique.len(), ids.len(), "{group}/{version}");
    }
}

#[test]
fn documents_contain_what_kubectl_reads() {
    let document = parse_document("", "v1");
    let path = &document["paths"]["/api/v1/namespaces/{namespace}/services/{name}"];
    let patch = &path["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "", "kind": "Service", "version": "v1"})
    );
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let parameters: Vec<_> = patch["parameters"]
        .as_array()
        .expect("parameters")
        .iter()
        .map(|parameter| &parameter["name"])
        .collect();
    assert!(
        parameters
            .iter()
            .any(|parameter| **parameter == "fieldValidation")
            && parameters.iter().any(|parameter| **parameter == "dryRun")
    );
    let list = &document["paths"]["/api/v1/services"]["get"];
    assert_eq!(list["x-kubernetes-action"], "list");
    assert!(document["paths"]["/api/v1/namespaces"]["delete"].is_null());
    let ports = &document["components"]["schemas"]["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "port");
    assert!(
        ports["description"]
            .as_str()
            .is_some_and(|description| !description.is_empty())
    );
}

#[test]
fn index_lists_all_documents() {
    let index = index();
    let paths = index["paths"].as_object().expect("paths");
    assert_eq!(paths.len(), group_versions().len());
    let url = paths["apis/discovery.k8s.io/v1"]["serverRelativeURL"]
        .as_str()
        .expect("URL");
    let expected = hash(&document("discovery.k8s.io", "v1").expect("served group"));
    assert_eq!(
        url,
        format!("/openapi/v3/apis/discovery.k8s.io/v1?hash={expected}")
    );
    assert!(document("nope", "v1").is_none());
}

#[test]
fn v2_document_is_complete_and_uses_v2_keywords() {
    let document = v2::build();
    let mut references = Vec::new();
    collect(&document, "$ref", &mut references);
    for reference in references {
        let name = reference
            .as_str()
            .and_then(|reference| reference.strip_prefix("#/definitions/"));
        assert!(
            document["definitions"][name.expect("definition name")].is_object(),
            "{name:?}"
        );
    }
    for word in ["allOf", "oneOf", "requestBody", "content"] {
        let mut found = Vec::new();
        collect(&document["paths"], word, &mut found);
        assert!(found.is_empty(), "{word}");
    }
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/services/{name}"]["patch"];
    assert!(patch["consumes"].as_array().is_some_and(|types| types.len() == 4));
    let dry_run = |parameter: &Value| parameter["name"] == "dryRun" && parameter["type"] == "string";
    assert!(
        patch["parameters"]
            .as_array()
            .is_some_and(|all| all.iter().any(dry_run))
    );
    let port = &document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!(
        (&port["type"], &port["format"]),
        (&json!("string"), &json!("int-or-string"))
    );
    let spec = &document["definitions"]["io.k8s.api.core.v1.Service"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.ServiceSpec");
}

#[test]
fn protobuf_form_contains_all_definitions() {
    let bytes = &v2::protobuf().bytes;
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for kind in kind::all() {
        assert!(holds(kind.definition), "{}", kind.definition);
    }
    assert!(holds("x-kubernetes-group-version-kind") && holds("dryRun"));
    assert_ne!(v2::json().hash, v2::protobuf().hash);
}
