//! Generates the tables of the served kinds from crates that follow upstream:
//!
//! - `kinds` → `crates/api/src/machinery/schema/kinds.json`: the OpenAPI v3 definitions, one per line, so that the server
//!   can build a document by joining lines. Types, formats and descriptions are those of the `k8s-openapi` crate, which
//!   omits the extensions for merging lists and maps; `merge.txt` adds them. `portolan.json` holds the definitions of
//!   Portolan's own kinds.
//! - `numbers` → `crates/api/src/machinery/protobuf/numbers.txt`: the protobuf field numbers of the same definitions, from
//!   the sources of the `k8s-pb` crate; `pointers.txt` lists the fields that distinguish zero from absent.
//!
//! ```text
//! cargo run --manifest-path tools/schema/Cargo.toml kinds > crates/api/src/machinery/schema/kinds.json
//! cargo run --manifest-path tools/schema/Cargo.toml numbers > crates/api/src/machinery/protobuf/numbers.txt
//! ```

mod merge;
mod numbers;

use std::collections::BTreeMap;
use std::io::Write;

use k8s_openapi::api::{
    apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization,
    autoscaling::v1 as autoscaling, batch::v1 as batch, certificates::v1 as certificates,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
    networking::v1 as networking, rbac::v1 as rbac,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

fn main() -> Result<(), String> {
    let mut definitions = collect();
    let mut rules = merge::parse(include_str!("../merge.txt"))?;
    for (name, definition) in &mut definitions {
        clean(definition);
        if name.ends_with(".Quantity") {
            definition["oneOf"] = json!([{"type": "string"}, {"type": "number"}]);
            definition["format"] = "quantity".into();
        }
        rules.apply(name, definition)?;
    }
    rules.all_used()?;
    // Portolan's own kinds are in no upstream crate.
    let own: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../portolan.json")).map_err(|e| format!("portolan.json: {e}"))?;
    definitions.extend(own);
    match std::env::args().nth(1).as_deref() {
        Some("kinds") => write(&definitions).map_err(|e| e.to_string()),
        Some("numbers") => {
            print!(
                "{}",
                numbers::table(&definitions, include_str!("../pointers.txt"))?
            );
            Ok(())
        }
        _ => Err("say what to write: kinds or numbers".into()),
    }
}

/// Definitions of every served kind, with all definitions that they refer to.
fn collect() -> BTreeMap<String, Value> {
    let settings = schemars::generate::SchemaSettings::openapi3().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.transforms.clear();
    });
    let mut generator = settings.into_generator();
    let mut kinds = BTreeMap::new();
    served::<core::Namespace>(&mut generator, &mut kinds);
    served::<core::Node>(&mut generator, &mut kinds);
    served::<core::Pod>(&mut generator, &mut kinds);
    served::<core::Service>(&mut generator, &mut kinds);
    served::<core::Endpoints>(&mut generator, &mut kinds);
    served::<core::Event>(&mut generator, &mut kinds);
    served::<core::ConfigMap>(&mut generator, &mut kinds);
    served::<core::Secret>(&mut generator, &mut kinds);
    served::<core::ServiceAccount>(&mut generator, &mut kinds);
    served::<core::ReplicationController>(&mut generator, &mut kinds);
    served::<apps::ControllerRevision>(&mut generator, &mut kinds);
    served::<apps::DaemonSet>(&mut generator, &mut kinds);
    served::<apps::Deployment>(&mut generator, &mut kinds);
    served::<apps::ReplicaSet>(&mut generator, &mut kinds);
    served::<apps::StatefulSet>(&mut generator, &mut kinds);
    served::<batch::Job>(&mut generator, &mut kinds);
    served::<certificates::CertificateSigningRequest>(&mut generator, &mut kinds);
    served::<coordination::Lease>(&mut generator, &mut kinds);
    served::<discovery::EndpointSlice>(&mut generator, &mut kinds);
    served::<events::Event>(&mut generator, &mut kinds);
    served::<networking::Ingress>(&mut generator, &mut kinds);
    served::<networking::IngressClass>(&mut generator, &mut kinds);
    served::<networking::IPAddress>(&mut generator, &mut kinds);
    served::<networking::ServiceCIDR>(&mut generator, &mut kinds);
    served::<rbac::ClusterRole>(&mut generator, &mut kinds);
    served::<rbac::ClusterRoleBinding>(&mut generator, &mut kinds);
    served::<rbac::Role>(&mut generator, &mut kinds);
    served::<rbac::RoleBinding>(&mut generator, &mut kinds);
    answered::<authentication::SelfSubjectReview>(&mut generator, &mut kinds);
    answered::<authentication::TokenRequest>(&mut generator, &mut kinds);
    answered::<authentication::TokenReview>(&mut generator, &mut kinds);
    answered::<autoscaling::Scale>(&mut generator, &mut kinds);
    answered::<authorization::LocalSubjectAccessReview>(&mut generator, &mut kinds);
    answered::<authorization::SelfSubjectAccessReview>(&mut generator, &mut kinds);
    answered::<authorization::SelfSubjectRulesReview>(&mut generator, &mut kinds);
    answered::<authorization::SubjectAccessReview>(&mut generator, &mut kinds);
    generator.subschema_for::<meta::DeleteOptions>();
    generator.subschema_for::<meta::Status>();
    generator.subschema_for::<meta::Patch>();

    generator.subschema_for::<meta::ListMeta>();

    let mut definitions: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();
    for (
        name,
        Gvk {
            group,
            version,
            kind,
            list_kind,
        },
    ) in kinds
    {
        let mut named = vec![(name.clone(), kind)];
        if let Some(list_kind) = list_kind {
            let list_name = format!("{}{list_kind}", name.strip_suffix(kind).unwrap_or(&name));
            definitions.insert(list_name.clone(), list_of(&name, kind));
            named.push((list_name, list_kind));
        }
        for (name, kind) in named {
            if let Some(Value::Object(definition)) = definitions.get_mut(&name) {
                let gvk = json!([{"group": group, "kind": kind, "version": version}]);
                definition.insert("x-kubernetes-group-version-kind".into(), gvk);
            }
        }
    }
    definitions
}

/// Group, version and kind.
struct Gvk {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// List kind; `None` for reviews, which are not stored.
    list_kind: Option<&'static str>,
}

/// Adds a stored kind.
fn served<K>(generator: &mut SchemaGenerator, kinds: &mut BTreeMap<String, Gvk>)
where
    K: JsonSchema + k8s_openapi::ListableResource,
{
    generator.subschema_for::<K>();
    let gvk = Gvk {
        group: K::GROUP,
        version: K::VERSION,
        kind: K::KIND,
        list_kind: Some(K::LIST_KIND),
    };
    kinds.insert(K::schema_name().into_owned(), gvk);
}

/// Adds a review, which is not stored and has no list kind.
fn answered<K>(generator: &mut SchemaGenerator, kinds: &mut BTreeMap<String, Gvk>)
where
    K: JsonSchema + k8s_openapi::Resource,
{
    generator.subschema_for::<K>();
    let gvk = Gvk {
        group: K::GROUP,
        version: K::VERSION,
        kind: K::KIND,
        list_kind: None,
    };
    kinds.insert(K::schema_name().into_owned(), gvk);
}

/// Definition of the list kind. `k8s-openapi` has one generic type for all list kinds, without a schema.
fn list_of(name: &str, kind: &str) -> Value {
    json!({
        "description": format!("{kind}List is a list of {kind} objects."),
        "properties": {
            "apiVersion": {"description": "Version of the schema of this list.", "type": "string"},
            "items": {
                "description": format!("The {kind} objects."),
                "items": {"$ref": format!("#/components/schemas/{name}")},
                "type": "array",
            },
            "kind": {"description": "Kind of this list.", "type": "string"},
            "metadata": {
                "description": "Revision of the list and, if there is more, how to continue.",
                "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
            },
        },
        "required": ["items"],
        "type": "object",
    })
}

/// Brings a definition into the form that API servers publish: a reference with a description is an `allOf`.
fn clean(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("$schema");
            // Types of `k8s-openapi` require metadata, which is optional in a request body.
            if let Some(Value::Array(required)) = object.get_mut("required") {
                required.retain(|field| field != "metadata");
            }
            if object.get("required").is_some_and(|r| r == &json!([])) {
                object.remove("required");
            }
            if object.get("x-kubernetes-int-or-string").is_some() {
                object.remove("x-kubernetes-int-or-string");
                object.insert("oneOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
                object.insert("format".into(), "int-or-string".into());
            }
            if object.len() > 1
                && let Some(reference) = object.remove("$ref")
            {
                let mut all_of = Map::new();
                all_of.insert("$ref".into(), reference);
                object.insert("allOf".into(), json!([all_of]));
            }
            object.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

fn write(definitions: &BTreeMap<String, Value>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for (at, (name, definition)) in definitions.iter().enumerate() {
        let open = if at == 0 { "{" } else { "," };
        writeln!(out, "{open}{}:{definition}", Value::from(name.as_str()))?;
    }
    writeln!(out, "}}")
}
