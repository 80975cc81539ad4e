//! The rules of each kind, as one table of functions per kind. The rules themselves are in [`api`].

use api::address_pool;
use api::apps;
use api::batch;
use api::certificates;
use api::configuration;
use api::endpoints;
use api::event;
use api::field::FieldErrors;
use api::ingress;
use api::ip::Family;
use api::kind::Kind;
use api::lease;
use api::metadata::{self, NameForm};
use api::multicluster;
use api::network;
use api::pod;
use api::rbac;
use api::service as services;
use api::tree::set_or_clear;
use serde_json::Value;

use crate::registry::namespace;
use crate::registry::node;
use crate::registry::service::Allocators;

/// The rules of one kind, in the order in which a write applies them.
pub(crate) struct Strategy {
    /// Sets defaults and removes empty fields.
    pub(crate) default_on_write: fn(&mut Value),
    /// True if the Service registry allocates for this kind.
    pub(crate) allocates: bool,
    /// Sets fields that a client may not choose in a new object.
    pub(crate) prepare_create: fn(&mut Value),
    /// Restores fields that an update may not change; takes the new object and the old one.
    pub(crate) prepare_update: fn(&mut Value, &Value),
    /// Restores fields that an update of the status may not change.
    pub(crate) prepare_status_update: fn(&mut Value, &Value),
    /// Restores fields that an update of the approval (`/approval`) may not change.
    pub(crate) prepare_approval_update: fn(&mut Value, &Value),
    /// Restores fields that an update of the ephemeral containers (`/ephemeralcontainers`) may not change.
    pub(crate) prepare_ephemeral_containers_update: fn(&mut Value, &Value),
    /// Validates a new object.
    pub(crate) validate: fn(&Value) -> FieldErrors,
    /// Validates an update; takes the new object and the old one.
    pub(crate) validate_update: fn(&Value, &Value) -> FieldErrors,
    /// Validates an update of the status.
    pub(crate) validate_status_update: fn(&Value, &Value) -> FieldErrors,
    /// Validates an update of the approval.
    pub(crate) validate_approval_update: fn(&Value, &Value) -> FieldErrors,
    /// Validates an update of the ephemeral containers.
    pub(crate) validate_ephemeral_containers_update: fn(&Value, &Value) -> FieldErrors,
    /// Sets the defaults of read objects; takes the primary IP family of the cluster.
    pub(crate) default_on_read: fn(&mut Value, Family),
    /// Returns the warnings about a new object, besides those about a valid object.
    pub(crate) creation_warnings: fn(&Value) -> Vec<String>,
    /// Returns the warnings about an update, besides those about a valid object; takes the new object and the old one.
    pub(crate) update_warnings: fn(&Value, &Value) -> Vec<String>,
    /// Returns the warnings about a valid object.
    pub(crate) warnings: fn(&Value) -> Vec<String>,
    /// Returns the warnings about an update of the status.
    pub(crate) status_warnings: fn(&Value) -> Vec<String>,
    /// Updates the Service registry after a commit; takes the name and the object, or `None` if it was deleted.
    pub(crate) after_commit: fn(&Allocators, &str, Option<&Value>),
}

impl Strategy {
    /// Returns the rules of a kind.
    pub(crate) fn of(kind: &Kind) -> &'static Strategy {
        match kind.kind {
            "Service" => &SERVICE,
            "Endpoints" => &ENDPOINTS,
            "EndpointSlice" => &ENDPOINT_SLICE,
            "IPAddress" => &IP_ADDRESS,
            "ServiceCIDR" => &SERVICE_CIDR,
            "ServiceExport" => &SERVICE_EXPORT,
            "ServiceImport" => &SERVICE_IMPORT,
            "Event" if kind.is_stored_form() => &CORE_EVENT,
            "Event" => &EVENT,
            "AddressPool" => &ADDRESS_POOL,
            "Namespace" => &NAMESPACE,
            "Pod" => &POD,
            "Node" => &NODE,
            "ServiceAccount" => &SERVICE_ACCOUNT,
            "ConfigMap" => &CONFIG_MAP,
            "Secret" => &SECRET,
            "Lease" => &LEASE,
            "Deployment" => &DEPLOYMENT,
            "ReplicaSet" => &REPLICA_SET,
            "StatefulSet" => &STATEFUL_SET,
            "DaemonSet" => &DAEMON_SET,
            "ControllerRevision" => &CONTROLLER_REVISION,
            "ReplicationController" => &REPLICATION_CONTROLLER,
            "Job" => &JOB,
            "Ingress" => &INGRESS,
            "IngressClass" => &INGRESS_CLASS,
            "Role" => &ROLE,
            "ClusterRole" => &CLUSTER_ROLE,
            "RoleBinding" => &ROLE_BINDING,
            "ClusterRoleBinding" => &CLUSTER_ROLE_BINDING,
            "CertificateSigningRequest" => &CERTIFICATE_SIGNING_REQUEST,
            _ if kind.namespaced => &PLAIN,
            _ => &PLAIN_OF_CLUSTER,
        }
    }
}

/// The rules of a namespaced kind without rules of its own.
const PLAIN: Strategy = Strategy {
    default_on_write: metadata::omit_empty,
    allocates: false,
    prepare_create: |_| {},
    prepare_update: |_, _| {},
    prepare_status_update: keep_spec,
    prepare_approval_update: keep_spec,
    prepare_ephemeral_containers_update: keep_spec,
    validate: |object| metadata::validate(object, NameForm::DnsSubdomain, true),
    validate_update: metadata::validate_update,
    validate_status_update: metadata::validate_update,
    validate_approval_update: metadata::validate_update,
    validate_ephemeral_containers_update: metadata::validate_update,
    default_on_read: |_, _| {},
    creation_warnings: |_| Vec::new(),
    update_warnings: |_, _| Vec::new(),
    warnings: |_| Vec::new(),
    status_warnings: |_| Vec::new(),
    after_commit: |_, _, _| {},
};

/// The rules of a cluster-scoped kind without rules of its own.
const PLAIN_OF_CLUSTER: Strategy = Strategy {
    validate: |object| metadata::validate(object, NameForm::DnsSubdomain, false),
    ..PLAIN
};

static SERVICE: Strategy = Strategy {
    default_on_write: services::default_on_write,
    allocates: true,
    prepare_create: services::prepare_create,
    prepare_update: services::prepare_update,
    prepare_status_update: services::prepare_status_update,
    validate: services::validate,
    validate_update: services::validate_update,
    validate_status_update: services::validate_status_update,
    default_on_read: services::default_on_read,
    warnings: services::warnings,
    status_warnings: services::status_warnings,
    ..PLAIN
};

static SERVICE_ACCOUNT: Strategy = Strategy {
    default_on_write: configuration::default_service_account_on_write,
    prepare_create: configuration::prepare_service_account,
    prepare_update: |new, _| configuration::prepare_service_account(new),
    creation_warnings: configuration::service_account_creation_warnings,
    update_warnings: configuration::service_account_update_warnings,
    ..PLAIN
};

static CONFIG_MAP: Strategy = Strategy {
    default_on_write: configuration::default_config_map_on_write,
    validate: configuration::validate_config_map,
    validate_update: configuration::validate_config_map_update,
    ..PLAIN
};

static SECRET: Strategy = Strategy {
    default_on_write: configuration::default_secret_on_write,
    prepare_update: configuration::prepare_secret_update,
    validate: configuration::validate_secret,
    validate_update: configuration::validate_secret_update,
    warnings: configuration::secret_warnings,
    ..PLAIN
};

static LEASE: Strategy = Strategy {
    default_on_write: lease::default_on_write,
    validate: lease::validate,
    validate_update: lease::validate_update,
    ..PLAIN
};

static ENDPOINTS: Strategy = Strategy {
    default_on_write: endpoints::default_endpoints_on_write,
    validate: endpoints::validate_endpoints,
    validate_update: endpoints::validate_endpoints_update,
    warnings: endpoints::endpoints_warnings,
    ..PLAIN
};

static ENDPOINT_SLICE: Strategy = Strategy {
    default_on_write: endpoints::default_slice_on_write,
    prepare_create: endpoints::prepare_slice_create,
    prepare_update: endpoints::prepare_slice_update,
    validate: endpoints::validate_slice,
    validate_update: endpoints::validate_slice_update,
    creation_warnings: endpoints::slice_creation_warnings,
    warnings: endpoints::slice_warnings,
    ..PLAIN
};

static CORE_EVENT: Strategy = Strategy {
    default_on_write: event::default_event_on_write,
    validate: event::validate_core_event,
    validate_update: |new, old| {
        let mut errors = metadata::validate_update(new, old);
        errors.extend(event::validate_core_event(new));
        errors
    },
    ..PLAIN
};

static EVENT: Strategy = Strategy {
    default_on_write: event::default_event_on_write,
    validate: event::validate_event,
    validate_update: event::validate_event_update,
    ..PLAIN
};

static IP_ADDRESS: Strategy = Strategy {
    default_on_write: network::default_ip_address_on_write,
    validate: network::validate_ip_address,
    validate_update: network::validate_ip_address_update,
    after_commit: |registry, name, object| {
        // The name was validated to be an address.
        if let Ok(address) = name.parse() {
            match object {
                Some(_) => registry.mark_address_taken(address),
                None => registry.mark_address_free(address),
            }
        }
    },
    ..PLAIN_OF_CLUSTER
};

static ADDRESS_POOL: Strategy = Strategy {
    default_on_write: address_pool::default_on_write,
    prepare_create: address_pool::prepare_create,
    prepare_update: address_pool::prepare_update,
    validate: address_pool::validate,
    validate_update: address_pool::validate_update,
    ..PLAIN_OF_CLUSTER
};

static SERVICE_CIDR: Strategy = Strategy {
    default_on_write: network::default_service_cidr_on_write,
    prepare_create: network::prepare_service_cidr_create,
    prepare_update: network::prepare_service_cidr_update,
    prepare_status_update: network::prepare_service_cidr_status_update,
    validate: network::validate_service_cidr,
    validate_update: network::validate_service_cidr_update,
    after_commit: |registry, name, object| match object {
        Some(cidr) => registry.apply_service_cidr(cidr),
        None => registry.remove_service_cidr(name),
    },
    ..PLAIN_OF_CLUSTER
};

static SERVICE_EXPORT: Strategy = Strategy {
    default_on_write: multicluster::default_export_on_write,
    prepare_create: multicluster::prepare_create,
    prepare_update: multicluster::prepare_update,
    validate: multicluster::validate_export,
    validate_update: multicluster::validate_export_update,
    validate_status_update: multicluster::validate_export_status_update,
    ..PLAIN
};

static SERVICE_IMPORT: Strategy = Strategy {
    default_on_write: multicluster::default_import_on_write,
    prepare_create: multicluster::prepare_create,
    prepare_update: multicluster::prepare_update,
    validate: multicluster::validate_import,
    validate_update: multicluster::validate_import_update,
    validate_status_update: multicluster::validate_import_status_update,
    ..PLAIN
};

static NAMESPACE: Strategy = Strategy {
    default_on_write: namespace::default_on_write,
    prepare_create: namespace::prepare_create,
    prepare_update: namespace::prepare_update,
    validate: namespace::validate,
    validate_status_update: namespace::validate_status_update,
    ..PLAIN_OF_CLUSTER
};

static POD: Strategy = Strategy {
    default_on_write: pod::default_pod_on_write,
    prepare_create: pod::prepare_pod_create,
    prepare_update: pod::prepare_pod_update,
    prepare_status_update: pod::prepare_pod_status_update,
    prepare_ephemeral_containers_update: pod::prepare_ephemeral_containers_update,
    validate: pod::validate_pod,
    validate_update: pod::validate_pod_update,
    validate_status_update: pod::validate_pod_status_update,
    validate_ephemeral_containers_update: pod::validate_ephemeral_containers_update,
    creation_warnings: pod::pod_creation_warnings,
    status_warnings: pod::pod_status_warnings,
    ..PLAIN
};

static DEPLOYMENT: Strategy = Strategy {
    default_on_write: apps::default_deployment_on_write,
    prepare_create: apps::prepare_create,
    prepare_update: apps::prepare_deployment_update,
    prepare_status_update: apps::prepare_deployment_status_update,
    validate: apps::validate_deployment,
    validate_update: apps::validate_deployment_update,
    validate_status_update: apps::validate_deployment_status_update,
    creation_warnings: apps::workload_creation_warnings,
    update_warnings: apps::workload_update_warnings,
    ..PLAIN
};

static REPLICA_SET: Strategy = Strategy {
    default_on_write: apps::default_replica_set_on_write,
    prepare_create: apps::prepare_replica_set_create,
    prepare_update: apps::prepare_replica_set_update,
    validate: apps::validate_replica_set,
    validate_update: apps::validate_replica_set_update,
    validate_status_update: apps::validate_replica_set_status_update,
    creation_warnings: apps::workload_creation_warnings,
    update_warnings: apps::workload_update_warnings,
    ..PLAIN
};

static STATEFUL_SET: Strategy = Strategy {
    default_on_write: apps::default_stateful_set_on_write,
    prepare_create: apps::prepare_stateful_set_create,
    prepare_update: apps::prepare_stateful_set_update,
    validate: apps::validate_stateful_set,
    validate_update: apps::validate_stateful_set_update,
    validate_status_update: apps::validate_stateful_set_status_update,
    creation_warnings: apps::stateful_set_creation_warnings,
    update_warnings: apps::stateful_set_update_warnings,
    ..PLAIN
};

static DAEMON_SET: Strategy = Strategy {
    default_on_write: apps::default_daemon_set_on_write,
    prepare_create: apps::prepare_daemon_set_create,
    prepare_update: apps::prepare_daemon_set_update,
    validate: apps::validate_daemon_set,
    validate_update: apps::validate_daemon_set_update,
    validate_status_update: apps::validate_daemon_set_status_update,
    creation_warnings: apps::daemon_set_creation_warnings,
    update_warnings: apps::workload_update_warnings,
    ..PLAIN
};

static CONTROLLER_REVISION: Strategy = Strategy {
    validate: apps::validate_controller_revision,
    validate_update: apps::validate_controller_revision_update,
    ..PLAIN
};

static REPLICATION_CONTROLLER: Strategy = Strategy {
    default_on_write: apps::default_replication_controller_on_write,
    prepare_create: apps::prepare_replica_set_create,
    prepare_update: apps::prepare_replication_controller_update,
    validate: apps::validate_replication_controller,
    validate_update: apps::validate_replication_controller_update,
    validate_status_update: apps::validate_replication_controller_status_update,
    creation_warnings: apps::workload_creation_warnings,
    update_warnings: apps::workload_update_warnings,
    ..PLAIN
};

static JOB: Strategy = Strategy {
    default_on_write: batch::default_job_on_write,
    prepare_create: batch::prepare_job_create,
    prepare_update: batch::prepare_job_update,
    validate: batch::validate_job,
    validate_update: batch::validate_job_update,
    validate_status_update: batch::validate_job_status_update,
    creation_warnings: batch::job_creation_warnings,
    update_warnings: batch::job_update_warnings,
    ..PLAIN
};

static INGRESS: Strategy = Strategy {
    default_on_write: ingress::default_ingress_on_write,
    prepare_create: ingress::prepare_ingress_create,
    prepare_update: ingress::prepare_ingress_update,
    validate: ingress::validate_ingress,
    validate_update: ingress::validate_ingress_update,
    validate_status_update: ingress::validate_ingress_status_update,
    creation_warnings: ingress::ingress_creation_warnings,
    ..PLAIN
};

static INGRESS_CLASS: Strategy = Strategy {
    default_on_write: ingress::default_class_on_write,
    prepare_update: ingress::prepare_class_update,
    validate: ingress::validate_class,
    validate_update: ingress::validate_class_update,
    ..PLAIN_OF_CLUSTER
};

static ROLE: Strategy = Strategy {
    default_on_write: rbac::default_role_on_write,
    validate: rbac::validate_role,
    validate_update: rbac::validate_role_update,
    ..PLAIN
};

static CLUSTER_ROLE: Strategy = Strategy {
    default_on_write: rbac::default_role_on_write,
    validate: rbac::validate_cluster_role,
    validate_update: rbac::validate_cluster_role_update,
    ..PLAIN_OF_CLUSTER
};

static ROLE_BINDING: Strategy = Strategy {
    default_on_write: rbac::default_binding_on_write,
    validate: rbac::validate_role_binding,
    validate_update: rbac::validate_role_binding_update,
    ..PLAIN
};

static CLUSTER_ROLE_BINDING: Strategy = Strategy {
    default_on_write: rbac::default_binding_on_write,
    validate: rbac::validate_cluster_role_binding,
    validate_update: rbac::validate_cluster_role_binding_update,
    ..PLAIN_OF_CLUSTER
};

static CERTIFICATE_SIGNING_REQUEST: Strategy = Strategy {
    default_on_write: certificates::default_on_write,
    prepare_create: certificates::prepare_create,
    prepare_update: certificates::prepare_update,
    prepare_status_update: certificates::prepare_status_update,
    prepare_approval_update: certificates::prepare_approval_update,
    validate: certificates::validate,
    validate_update: certificates::validate_update,
    validate_status_update: certificates::validate_status_update,
    validate_approval_update: certificates::validate_approval_update,
    ..PLAIN_OF_CLUSTER
};

static NODE: Strategy = Strategy {
    default_on_write: node::default_on_write,
    prepare_create: node::prepare_create,
    prepare_update: node::prepare_update,
    validate: node::validate,
    validate_update: node::validate_update,
    validate_status_update: node::validate_update,
    warnings: node::warnings,
    ..PLAIN_OF_CLUSTER
};

fn keep_spec(new: &mut Value, old: &Value) {
    set_or_clear(new, "spec", old.get("spec").cloned());
}
