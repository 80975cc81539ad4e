//! Clients and rate limits of the DNS server.

use clap::Args;
use ipnet::IpNet;

use super::values::cidr;

/// Flags of the clients of the DNS server, and of their limits.
#[derive(Clone, Debug, Args)]
pub(crate) struct DnsClientFlags {
    /// Networks that may query DNS; up, join: besides Pods and Nodes [default for dns: all]
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    allow_from: Vec<IpNet>,
    /// UDP responses per second for each client network (IPv4 /24, IPv6 /56); 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "N")]
    responses_per_second: u32,
    /// UDP refusals per second for each client network that may not query; 0 for no limit
    #[arg(long, default_value_t = 10, value_name = "N")]
    refusals_per_second: u32,
    /// Maximum bytes of a UDP response to other hosts
    #[arg(long, default_value_t = 1232, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(512..=4096))]
    udp_size_max: u16,
}

impl DnsClientFlags {
    /// Writes the flags into a configuration. Without `--allow-from` all clients may query.
    pub(crate) fn apply(&self, config: &mut dns::Config) {
        if !self.allow_from.is_empty() {
            config.allow_from = Some(dns::AllowFrom {
                networks: self.allow_from.clone(),
                nodes: false,
            });
        }
        self.apply_limits(config);
    }

    /// Writes the flags into the configuration of a cluster's node. Nodes and the networks of the cluster may query,
    /// too.
    pub(crate) fn apply_in_cluster(
        &self,
        config: &mut dns::Config,
        cluster: impl IntoIterator<Item = IpNet>,
    ) {
        config.allow_from = Some(dns::AllowFrom {
            networks: cluster
                .into_iter()
                .chain(self.allow_from.iter().copied())
                .collect(),
            nodes: true,
        });
        self.apply_limits(config);
    }

    fn apply_limits(&self, config: &mut dns::Config) {
        config.responses_per_second_max = self.responses_per_second;
        config.refusals_per_second_max = self.refusals_per_second;
        config.udp_bytes_max = usize::from(self.udp_size_max);
    }
}
