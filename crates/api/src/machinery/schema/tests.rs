use super::*;
use crate::kinds::kind;

/// Resolves field names from a kind, through lists.
fn field(kind: &str, path: &[&str]) -> &'static Field {
    let schema = schema();
    let kind = kind::all()
        .iter()
        .find(|candidate| candidate.kind == kind)
        .expect("kind");
    let mut definition = schema.of_kind(kind).expect("definition");
    let (last, parents) = path.split_last().expect("path");
    for name in parents {
        let shape = match &definition.field(name).expect("field").shape {
            Shape::List(inner) => inner,
            shape => shape,
        };
        definition = shape.definition(schema).expect("object type");
    }
    definition.field(last).expect("field")
}

#[test]
fn all_kinds_have_a_definition_with_metadata() {
    for kind in kind::all() {
        let definition = schema()
            .of_kind(kind)
            .unwrap_or_else(|| panic!("{}", kind.definition));
        assert_eq!(definition.short_name(), kind.kind);
        for name in ["apiVersion", "kind"] {
            assert_eq!(
                definition.field(name).map(|field| &field.shape),
                Some(&Shape::String)
            );
        }
        let metadata = definition
            .field("metadata")
            .and_then(|field| field.shape.definition(schema()));
        assert_eq!(metadata.map(Definition::short_name), Some("ObjectMeta"));
        assert_eq!(
            definition.field("status").is_some(),
            kind.has_status() || !kind.is_stored(),
            "{}",
            kind.kind
        );
    }
}

#[test]
fn schema_fields_have_their_types() {
    assert_eq!(field("Service", &["spec", "ports", "port"]).shape, Shape::Int32);
    assert_eq!(
        field("Service", &["spec", "ports", "targetPort"]).shape,
        Shape::IntOrString
    );
    assert_eq!(
        field("Service", &["metadata", "creationTimestamp"]).shape,
        Shape::Time
    );
    assert_eq!(
        field("Service", &["metadata", "managedFields", "fieldsV1"]).shape,
        Shape::Free
    );
    assert_eq!(field("Lease", &["spec", "renewTime"]).shape, Shape::MicroTime);
    assert_eq!(
        field("Secret", &["data"]).shape,
        Shape::Map(Box::new(Shape::Bytes))
    );
    assert_eq!(
        field("Node", &["status", "capacity"]).shape,
        Shape::Map(Box::new(Shape::Quantity))
    );
}

#[test]
fn fields_have_their_merge_rules() {
    let ports = field("Service", &["spec", "ports"]);
    assert_eq!(ports.list, ListType::Map(vec!["port", "protocol"]));
    assert_eq!((ports.patch.merges, ports.patch.merge_key), (true, Some("port")));
    assert_eq!(
        field("Service", &["spec", "ports", "protocol"]).default,
        Some("TCP")
    );
    assert!(field("Service", &["spec", "selector"]).is_atomic);
    assert!(!field("Service", &["metadata", "labels"]).is_atomic);
    let finalizers = field("Service", &["metadata", "finalizers"]);
    assert_eq!(finalizers.list, ListType::Set);
    assert_eq!(
        (finalizers.patch.merges, finalizers.patch.merge_key),
        (true, None)
    );
    assert!(field("Pod", &["spec", "volumes"]).patch.retains_keys);
    assert_eq!(field("EndpointSlice", &["endpoints"]).list, ListType::Atomic);
}
