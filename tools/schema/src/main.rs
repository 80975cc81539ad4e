//! Writes `crates/api/src/schema/kinds.json`: the OpenAPI v3 definitions of the kinds that Portolan serves.
//!
//! Types, formats and descriptions come from the `k8s-openapi` crate; how lists and maps merge comes from
//! `merge.txt` beside this crate, since `k8s-openapi` leaves those extensions out. One definition a line, so that
//! the product can serve a document by joining lines.
//!
//!     cargo run --manifest-path tools/schema/Cargo.toml > crates/api/src/schema/kinds.json

mod merge;

use std::collections::BTreeMap;
use std::io::Write;

use k8s_openapi::api::{coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, networking::v1 as networking};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::{List, Metadata};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

fn main() -> Result<(), String> {
    let mut definitions = collect();
    let mut rules = merge::parse(include_str!("../merge.txt"))?;
    for (name, definition) in &mut definitions {
        clean(definition);
        rules.apply(name, definition)?;
    }
    rules.all_used()?;
    write(&definitions).map_err(|e| e.to_string())
}

/// The definitions of every served kind and everything they refer to.
fn collect() -> BTreeMap<String, Value> {
    let settings = schemars::generate::SchemaSettings::openapi3().with(|s| {
        s.definitions_path = "/components/schemas".into();
        s.transforms.clear();
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
    served::<coordination::Lease>(&mut generator, &mut kinds);
    served::<discovery::EndpointSlice>(&mut generator, &mut kinds);
    served::<networking::IPAddress>(&mut generator, &mut kinds);
    served::<networking::ServiceCIDR>(&mut generator, &mut kinds);
    generator.subschema_for::<meta::DeleteOptions>();
    generator.subschema_for::<meta::Status>();
    generator.subschema_for::<meta::Patch>();

    let mut definitions: BTreeMap<String, Value> = generator
        .take_definitions(true)
        .into_iter()
        .map(|(name, schema)| (name, schema))
        .collect();
    for (name, gvk) in kinds {
        if let Some(Value::Object(definition)) = definitions.get_mut(&name) {
            definition.insert("x-kubernetes-group-version-kind".into(), json!([gvk]));
        }
    }
    definitions
}

/// Adds a kind and its list kind.
fn served<K>(generator: &mut SchemaGenerator, kinds: &mut BTreeMap<String, Value>)
where
    K: schemars::JsonSchema + k8s_openapi::Resource + k8s_openapi::ListableResource + Metadata,
    List<K>: schemars::JsonSchema,
{
    generator.subschema_for::<K>();
    generator.subschema_for::<List<K>>();
    let gvk = |kind: &str| json!({"group": K::GROUP, "kind": kind, "version": K::VERSION});
    kinds.insert(K::schema_name().into_owned(), gvk(K::KIND));
    kinds.insert(List::<K>::schema_name().into_owned(), gvk(K::LIST_KIND));
}

/// Brings a definition into the form that API servers publish: a reference with a description is an `allOf`.
fn clean(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("$schema");
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
