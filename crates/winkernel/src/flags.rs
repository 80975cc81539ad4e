//! Flags of load balancers, as kube-proxy sets them.

use plan::Family;

use crate::balancer::BalancerKind;
use crate::schema::{
    BALANCER_DSR, BALANCER_IPV6, MAPPING_LOCAL_ROUTED_VIP, MAPPING_PRESERVE_DIP, MAPPING_USE_MUX,
    MAPPING_VIP_EXTERNAL_IP,
};

/// Facts that decide about flags.
#[derive(Clone, Copy)]
pub(crate) struct FlagFacts {
    pub(crate) kind: BalancerKind,
    pub(crate) family: Family,
    /// True if the traffic policy is Local.
    pub(crate) is_local: bool,
    /// True if the Service preserves the destination.
    pub(crate) preserves_destination: bool,
    /// True if load balancers of cluster IPs use direct server return.
    pub(crate) enable_dsr: bool,
    /// True if HNS has direct server return.
    pub(crate) supports_dsr: bool,
}

impl FlagFacts {
    /// Returns the flags of the load balancer.
    pub(crate) fn of_balancer(self) -> u32 {
        let uses_dsr = match self.kind {
            BalancerKind::ClusterIp => self.enable_dsr,
            BalancerKind::NodePort | BalancerKind::ExternalIp => self.is_local,
            BalancerKind::LoadBalancerIp => self.is_local || self.preserves_destination,
            BalancerKind::HealthCheck => false,
        };
        let dsr = if uses_dsr && self.supports_dsr {
            BALANCER_DSR
        } else {
            0
        };
        match self.family {
            Family::V4 => dsr,
            Family::V6 => dsr | BALANCER_IPV6,
        }
    }

    /// Returns the flags of its port.
    pub(crate) fn of_mapping(self) -> u32 {
        let preserving = if self.preserves_destination && self.supports_dsr {
            MAPPING_USE_MUX | MAPPING_PRESERVE_DIP
        } else {
            0
        };
        match self.kind {
            BalancerKind::ClusterIp => 0,
            BalancerKind::NodePort => MAPPING_VIP_EXTERNAL_IP | MAPPING_LOCAL_ROUTED_VIP,
            BalancerKind::ExternalIp => MAPPING_VIP_EXTERNAL_IP,
            BalancerKind::LoadBalancerIp => MAPPING_VIP_EXTERNAL_IP | preserving,
            BalancerKind::HealthCheck => preserving,
        }
    }
}

#[cfg(test)]
mod tests;
