//! Objects as rows of a table, as `kubectl get` shows them (`as=Table;v=v1;g=meta.k8s.io`).

mod age;
mod apps;
mod certificates;
mod cluster;
mod network;
mod pod;
mod rbac;

pub use age::human_duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::kind::Kind;

/// What stands where there is nothing.
const NONE: &str = "<none>";

/// One column.
#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, or a number's type.
    pub kind: &'static str,
    /// `name` for the object's name, else "".
    pub format: &'static str,
    /// What the column shows.
    pub description: &'static str,
    /// 0 for columns that are always shown, 1 for those of the wide table.
    pub priority: i32,
}

/// How objects of one kind are shown.
struct Layout {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// A layout for a kind without one of its own.
static PLAIN: Layout = Layout {
    columns: &[NAME, AGE],
    cells: |object, now| vec![name(object), age::of(object, now)],
};

const NAME: Column = Column {
    format: "name",
    ..column("Name", "The object's name, unique in its namespace.")
};

const AGE: Column = column("Age", "Time since the object was created.");

/// The columns of a kind's table (API-15 for Services, CIDR-14).
pub fn columns(kind: &Kind) -> &'static [Column] {
    layout(kind).columns
}

/// The columns in the form of `columnDefinitions`.
pub fn column_definitions(kind: &Kind) -> Value {
    let definitions = columns(kind).iter().map(|c| {
        json!({
            "name": c.name,
            "type": c.kind,
            "format": c.format,
            "description": c.description,
            "priority": c.priority,
        })
    });
    definitions.collect()
}

/// The cells of an object's row, one a column; ages are counted to `now`.
pub fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    (layout(kind).cells)(object, now)
}

fn layout(kind: &Kind) -> &'static Layout {
    match kind.kind {
        "AddressPool" => &network::ADDRESS_POOL,
        "CertificateSigningRequest" => &certificates::REQUEST,
        "ClusterRole" | "Role" => &rbac::ROLE,
        "ClusterRoleBinding" | "RoleBinding" => &rbac::BINDING,
        "ConfigMap" => &cluster::CONFIG_MAP,
        "Deployment" => &apps::DEPLOYMENT,
        "Endpoints" => &network::ENDPOINTS,
        "EndpointSlice" => &network::ENDPOINT_SLICE,
        "Event" => &cluster::EVENT,
        "IPAddress" => &network::IP_ADDRESS,
        "Lease" => &cluster::LEASE,
        "Namespace" => &cluster::NAMESPACE,
        "Node" => &cluster::NODE,
        "Pod" => &pod::POD,
        "ReplicaSet" => &apps::REPLICA_SET,
        "Scale" => &apps::SCALE,
        "Secret" => &cluster::SECRET,
        "Service" => &network::SERVICE,
        "ServiceAccount" => &cluster::SERVICE_ACCOUNT,
        "ServiceCIDR" => &network::SERVICE_CIDR,
        _ => &PLAIN,
    }
}

/// A column that is always shown.
const fn column(name: &'static str, description: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        format: "",
        description,
        priority: 0,
    }
}

/// A column of whole numbers that is always shown.
const fn number_column(name: &'static str, description: &'static str) -> Column {
    Column {
        kind: "integer",
        ..column(name, description)
    }
}

/// A column of the wide table.
const fn wide(name: &'static str, description: &'static str) -> Column {
    Column {
        priority: 1,
        ..column(name, description)
    }
}

/// The cell of the object's name.
fn name(object: &Value) -> Value {
    crate::machinery::tree::text(&object["metadata"], "name").into()
}

/// A text, or `absent` if it is empty.
fn or<'t>(text: &'t str, absent: &'t str) -> &'t str {
    if text.is_empty() { absent } else { text }
}

/// `a,b,c + 7 more...`, the way long lists are cut.
fn cut_list(items: impl Iterator<Item = String>) -> String {
    const SHOWN_MAX: usize = 3;
    let mut shown = Vec::with_capacity(SHOWN_MAX);
    let mut more = 0;
    for item in items {
        if shown.len() < SHOWN_MAX {
            shown.push(item);
        } else {
            more += 1;
        }
    }
    let shown = shown.join(",");
    if more == 0 {
        shown
    } else {
        format!("{shown} + {more} more...")
    }
}

#[cfg(test)]
mod tests;
