//! CIDRs of flags and of the configuration file.

use ipnet::IpNet;

/// Reasons why a CIDR, or a list of CIDRs, is invalid. No retry helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// The text is not of the form ADDRESS/PREFIX.
    #[error("expected a CIDR such as 10.96.0.0/16, found {text:?}")]
    Syntax {
        /// The text as given.
        text: String,
    },
    /// The address has bits beyond the prefix.
    #[error("expected a CIDR without host bits, found {text:?}; set {network}")]
    HostBits {
        /// The text as given.
        text: String,
        /// The network of the same prefix length without host bits.
        network: IpNet,
    },
    /// The list is empty, or has two CIDRs of one IP family.
    #[error(
        "expected one CIDR, or one IPv4 and one IPv6 CIDR separated by a comma, found another number or family"
    )]
    Families,
}

/// Parses one CIDR. A CIDR with host bits is rejected, because it is a mistake in most cases.
///
/// # Errors
///
/// [`CidrError::Syntax`] or [`CidrError::HostBits`].
pub fn parse_cidr(text: &str) -> Result<IpNet, CidrError> {
    let network: IpNet = text.trim().parse().map_err(|_| CidrError::Syntax {
        text: text.to_owned(),
    })?;
    if network.trunc() != network {
        return Err(CidrError::HostBits {
            text: text.to_owned(),
            network: network.trunc(),
        });
    }
    Ok(network)
}

/// Requires one CIDR, or one of each IP family.
///
/// # Errors
///
/// [`CidrError::Families`] if the list is empty or has two CIDRs of one family.
pub fn require_one_per_family(networks: &[IpNet]) -> Result<(), CidrError> {
    let count = |is_ipv4: bool| {
        networks
            .iter()
            .filter(|network| network.addr().is_ipv4() == is_ipv4)
            .count()
    };
    if networks.is_empty() || count(true) > 1 || count(false) > 1 {
        return Err(CidrError::Families);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
