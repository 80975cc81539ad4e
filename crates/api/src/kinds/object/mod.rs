//! Typed views of the objects that components read. A view has only the fields in use, so that a cache of 50,000
//! Services stays small.

mod address_pool;
mod apps;
mod certificate;
mod endpoint_slice;
mod endpoints;
mod ingress;
mod lease;
mod meta;
mod multicluster;
mod namespace;
mod network;
mod node;
mod pod;
mod service;
mod workload;

pub use address_pool::{
    AddressPool, AddressPoolSpec, AddressPoolStatus, AddressPoolUsage, NodeAddressesSource,
};
pub use apps::{
    Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, ProgressCondition, ReplicaSet,
    ReplicaSetSpec, ReplicaSetStatus, RollingUpdate,
};
pub use certificate::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
};
pub use endpoint_slice::SERVICE_NAME_LABEL;
pub use endpoint_slice::{
    AddressType, Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, HintName,
    TargetRef,
};
pub use endpoints::{EndpointAddress, EndpointSubset, Endpoints, SubsetPort};
pub use ingress::{
    Ingress, IngressBackend, IngressClass, IngressClassSpec, IngressPath, IngressPaths, IngressRule,
    IngressServiceBackend, IngressSpec, IngressStatus, IngressTls, ServiceBackendPort,
};
pub use lease::{Lease, LeaseSpec};
pub use meta::{Labels, ObjectKey, ObjectMeta, OwnerReference, Resource, null_as_default};
pub use multicluster::{
    ClusterStatus, ImportPort, ServiceExport, ServiceExportSpec, ServiceExportStatus, ServiceImport,
    ServiceImportSpec, ServiceImportStatus, TimedCondition,
};
pub use namespace::Namespace;
pub use network::{Condition, IpAddress, ServiceCidr, ServiceCidrSpec, ServiceCidrStatus};
pub use node::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, Taint};
pub use pod::{Container, ContainerPort, Pod, PodCondition, PodIp, PodSpec, PodStatus, is_final_phase};
pub use service::{
    ClientIpConfig, IngressPort, IntOrString, LoadBalancerIngress, LoadBalancerStatus, Protocol, Service,
    ServicePort, ServiceSpec, ServiceStatus, SessionAffinityConfig,
};
pub use workload::{
    ControllerRevision, DaemonSet, DaemonSetSpec, Job, JobSpec, Ordinals, ReplicationController,
    ReplicationControllerSpec, StatefulSet, StatefulSetSpec, UpdateSettings, UpdateStrategy,
};
