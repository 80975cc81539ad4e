//! Objects as tables, as `kubectl get` prints them (`as=Table;v=v1;g=meta.k8s.io`).

mod age;
mod apps;
mod batch;
mod certificates;
mod cluster;
mod ingress;
mod multicluster;
mod network;
mod pod;
mod rbac;
mod resource_metrics;

pub use age::human_duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::kind::Kind;

/// Cell without a value.
const NONE: &str = "<none>";

/// Column of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading of the column.
    pub name: &'static str,
    /// OpenAPI type: `string`, `integer` or `date`.
    pub kind: &'static str,
    /// `name` for the object's name, otherwise "".
    pub format: &'static str,
    /// Description of the column.
    pub description: &'static str,
    /// 0 for columns that are always printed, 1 for those of the wide table.
    pub priority: i32,
}

/// Columns and cells of one kind.
struct Layout {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// Layout of kinds without their own.
static PLAIN: Layout = Layout {
    columns: &[NAME, AGE],
    cells: |object, now| vec![name(object), age::of(object, now)],
};

const NAME: Column = Column {
    format: "name",
    ..column("Name", "The object's name, unique in its namespace.")
};

const AGE: Column = column("Age", "Time since the object was created.");

/// Returns the columns of a kind (API-15 for Services, CIDR-14).
pub fn columns(kind: &Kind) -> &'static [Column] {
    layout(kind).columns
}

/// Returns the columns as `columnDefinitions`.
pub fn column_definitions(kind: &Kind) -> Value {
    let definitions = columns(kind).iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    });
    definitions.collect()
}

/// Returns the cells of an object's row. Ages are measured at `now`.
pub fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    (layout(kind).cells)(object, now)
}

fn layout(kind: &Kind) -> &'static Layout {
    match kind.kind {
        "AddressPool" => &network::ADDRESS_POOL,
        "CertificateSigningRequest" => &certificates::REQUEST,
        "ClusterRole" | "Role" => &rbac::ROLE,
        "ClusterRoleBinding" | "RoleBinding" => &rbac::BINDING,
        "ControllerRevision" => &apps::CONTROLLER_REVISION,
        "ConfigMap" => &cluster::CONFIG_MAP,
        "DaemonSet" => &apps::DAEMON_SET,
        "Deployment" => &apps::DEPLOYMENT,
        "Endpoints" => &network::ENDPOINTS,
        "EndpointSlice" => &network::ENDPOINT_SLICE,
        "Event" => &cluster::EVENT,
        "IPAddress" => &network::IP_ADDRESS,
        "Ingress" => &ingress::INGRESS,
        "IngressClass" => &ingress::CLASS,
        "Job" => &batch::JOB,
        "Lease" => &cluster::LEASE,
        "Namespace" => &cluster::NAMESPACE,
        "Node" => &cluster::NODE,
        "NodeMetrics" => &resource_metrics::NODE,
        "Pod" => &pod::POD,
        "PodMetrics" => &resource_metrics::POD,
        // Both kinds have the same columns.
        "ReplicaSet" | "ReplicationController" => &apps::REPLICA_SET,
        "Scale" => &apps::SCALE,
        "Secret" => &cluster::SECRET,
        "Service" => &network::SERVICE,
        "ServiceAccount" => &cluster::SERVICE_ACCOUNT,
        "ServiceCIDR" => &network::SERVICE_CIDR,
        "StatefulSet" => &apps::STATEFUL_SET,
        "ServiceImport" => &multicluster::SERVICE_IMPORT,
        _ => &PLAIN,
    }
}

/// Creates a column that is always printed.
const fn column(name: &'static str, description: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        format: "",
        description,
        priority: 0,
    }
}

/// Creates a column of integers that is always printed.
const fn number_column(name: &'static str, description: &'static str) -> Column {
    Column {
        kind: "integer",
        ..column(name, description)
    }
}

/// Creates a column of the wide table.
const fn wide(name: &'static str, description: &'static str) -> Column {
    Column {
        priority: 1,
        ..column(name, description)
    }
}

/// Returns the cell of the object's name.
fn name(object: &Value) -> Value {
    crate::machinery::tree::text(&object["metadata"], "name").into()
}

/// Returns the text, or `absent` if it is empty.
fn or<'t>(text: &'t str, absent: &'t str) -> &'t str {
    if text.is_empty() { absent } else { text }
}

/// Truncates a list as upstream: `a,b,c + 7 more...`.
fn truncate_list(items: impl Iterator<Item = String>) -> String {
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
