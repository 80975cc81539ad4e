//! Address and port ranges of Services, and the Service `kubernetes`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use apiserver::{EndpointReconciler, KubernetesService};
use clap::{Args, ValueEnum};
use ipnet::IpNet;

use super::values::{PortRange, cidr, one_per_family, port_range};
use crate::error::UsageError;

/// Flags of Services in the API server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Services")]
pub(crate) struct ServiceFlags {
    /// Ranges of cluster IPs, one per IP family; the first one is of the primary family
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/16,fd00:10:96::/112", value_name = "CIDR[,CIDR]", value_parser = cidr)]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Range of node ports
    #[arg(long, default_value = "30000-32767", value_name = "FIRST-LAST", value_parser = port_range)]
    pub service_node_port_range: PortRange,
    /// Node port of a new Service `kubernetes`, which then is of type NodePort; 0 for none
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    kubernetes_service_node_port: u16,
    /// Source of the endpoints of the Service `kubernetes`: lease (records that the API servers renew) or none
    #[arg(long, value_enum, default_value_t = ReconcilerType::Lease, value_name = "lease|none", hide_possible_values = true)]
    endpoint_reconciler_type: ReconcilerType,
}

/// Returns the tenth address of a range, as kubeadm does for cluster DNS.
fn tenth_address(range: &IpNet) -> Option<IpAddr> {
    const OFFSET: u8 = 10;
    let address = match range.network() {
        IpAddr::V4(base) => IpAddr::V4(Ipv4Addr::from(u32::from(base).checked_add(OFFSET.into())?)),
        IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from(u128::from(base).checked_add(OFFSET.into())?)),
    };
    (range.contains(&address) && address != range.broadcast()).then_some(address)
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
    pub(crate) fn check(&self) -> Result<(), UsageError> {
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

    /// Returns the addresses of cluster DNS: the given ones, or the tenth address of the first range (DNS-29).
    ///
    /// # Errors
    ///
    /// [`UsageError`] if an address is not in the ranges, or a range has no tenth address.
    pub(crate) fn cluster_dns(&self, given: &[IpAddr]) -> Result<Vec<IpAddr>, UsageError> {
        let ranges = &self.service_cluster_ip_range;
        let texts: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        let ranges_text = texts.join(",");
        if given.is_empty() {
            let tenth = ranges.first().and_then(tenth_address);
            let tenth = tenth.ok_or_else(|| {
                UsageError(format!(
                    "--service-cluster-ip-range {ranges_text} has no tenth address for cluster DNS; name one of its addresses \
                     with --cluster-dns"
                ))
            })?;
            return Ok(vec![tenth]);
        }
        let is_inside = |address: &&IpAddr| ranges.iter().any(|range| range.contains(*address));
        match given.iter().find(|address| !is_inside(address)) {
            None => Ok(given.to_vec()),
            Some(address) => Err(UsageError(format!(
                "--cluster-dns {address} is not in --service-cluster-ip-range {ranges_text}: the Service kube-dns gets this \
                 address"
            ))),
        }
    }

    /// Checks that the cluster IPs overlap neither with Pods nor with this host.
    ///
    /// # Errors
    ///
    /// [`UsageError`] that names both ranges.
    pub(crate) fn check_overlaps(
        &self,
        cluster_cidrs: &[IpNet],
        node_ips: &[IpAddr],
    ) -> Result<(), UsageError> {
        for range in &self.service_cluster_ip_range {
            if let Some(pods) = cluster_cidrs
                .iter()
                .find(|pods| pods.contains(range) || range.contains(*pods))
            {
                return Err(UsageError(format!(
                    "--cluster-cidr {pods} and --service-cluster-ip-range {range} overlap: Pods and Services would get the \
                     same addresses"
                )));
            }
        }
        let pods = cluster_cidrs.iter().map(|range| ("--cluster-cidr", range));
        let services = self.service_cluster_ip_range.iter();
        let services = services.map(|range| ("--service-cluster-ip-range", range));
        for (flag, range) in pods.chain(services) {
            if let Some(ip) = node_ips.iter().find(|ip| range.contains(*ip)) {
                return Err(UsageError(format!(
                    "{flag} {range} contains {ip}, an address of this host; choose a range that the network does not use"
                )));
            }
        }
        Ok(())
    }

    /// Returns the settings of the Service `kubernetes`.
    pub(crate) fn kubernetes_service(&self) -> KubernetesService {
        KubernetesService {
            node_port: Some(self.kubernetes_service_node_port).filter(|port| *port != 0),
            endpoint_reconciler: match self.endpoint_reconciler_type {
                ReconcilerType::Lease => EndpointReconciler::Lease,
                ReconcilerType::None => EndpointReconciler::None,
            },
        }
    }

    /// Returns the range of node ports.
    pub(crate) fn node_ports(&self) -> RangeInclusive<u16> {
        self.service_node_port_range.first..=self.service_node_port_range.last
    }
}

#[cfg(test)]
mod tests;
