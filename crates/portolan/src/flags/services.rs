//! Address and port ranges of Services, and the Service `kubernetes`.

use std::ops::RangeInclusive;

use apiserver::{EndpointReconciler, KubernetesService};
use clap::{Args, ValueEnum};
use ipnet::IpNet;

use super::values::{PortRange, cidr, one_per_family, port_range};
use crate::error::UsageError;

/// Flags of Services in the API server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Services")]
pub struct ServiceFlags {
    /// Ranges of cluster IPs, one per IP family; the first one is of the primary family
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/16,fd00:10:96::/112", value_name = "CIDR[,CIDR]", value_parser = cidr)]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Range of node ports
    #[arg(long, default_value = "30000-32767", value_name = "FIRST-LAST", value_parser = port_range)]
    pub service_node_port_range: PortRange,
    /// Node port of a new Service `kubernetes`, which then is of type NodePort; 0 for none
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    kubernetes_service_node_port: u16,
    /// Source of the endpoints of the Service `kubernetes`: lease (Leases of the API servers) or none
    #[arg(long, value_enum, default_value_t = ReconcilerType::Lease, value_name = "lease|none", hide_possible_values = true)]
    endpoint_reconciler_type: ReconcilerType,
}

/// Values of `--endpoint-reconciler-type`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReconcilerType {
    Lease,
    None,
}

impl ServiceFlags {
    /// Checks that the ranges and ports agree.
    ///
    /// # Errors
    ///
    /// [`UsageError`] that names the flag.
    pub fn check(&self) -> Result<(), UsageError> {
        one_per_family(&self.service_cluster_ip_range, "--service-cluster-ip-range")?;
        let port = self.kubernetes_service_node_port;
        if port != 0 && !self.node_ports().contains(&port) {
            return Err(UsageError(format!(
                "--kubernetes-service-node-port {port} is not in --service-node-port-range {}-{}",
                self.service_node_port_range.first, self.service_node_port_range.last
            )));
        }
        Ok(())
    }

    /// Returns the settings of the Service `kubernetes`.
    pub fn kubernetes_service(&self) -> KubernetesService {
        KubernetesService {
            node_port: Some(self.kubernetes_service_node_port).filter(|port| *port != 0),
            endpoint_reconciler: match self.endpoint_reconciler_type {
                ReconcilerType::Lease => EndpointReconciler::Lease,
                ReconcilerType::None => EndpointReconciler::None,
            },
        }
    }

    /// Returns the range of node ports.
    pub fn node_ports(&self) -> RangeInclusive<u16> {
        self.service_node_port_range.first..=self.service_node_port_range.last
    }
}
