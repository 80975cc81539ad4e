use clap::Parser;

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    services: ServiceFlags,
}

fn flags(ranges: &str) -> ServiceFlags {
    let line = CommandLine::try_parse_from(["test", "--service-cluster-ip-range", ranges]);
    line.expect("valid flags").services
}

fn ips(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|ip| ip.parse().expect("an address")).collect()
}

fn nets(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|net| net.parse().expect("a CIDR")).collect()
}

/// DNS-29.
#[test]
fn cluster_dns_is_the_tenth_address_of_the_first_range() {
    let derived = |ranges: &str| flags(ranges).cluster_dns(&[]);
    assert_eq!(derived("10.50.0.0/16"), Ok(ips(&["10.50.0.10"])));
    assert_eq!(derived("fd00:1::/112,10.50.0.0/16"), Ok(ips(&["fd00:1::a"])));
    let error = derived("10.50.0.0/29").expect_err("no tenth address");
    assert!(error.to_string().contains("--cluster-dns"), "{error}");
    let given = ips(&["10.50.0.53"]);
    assert_eq!(flags("10.50.0.0/16").cluster_dns(&given), Ok(given.clone()));
    let error = flags("10.96.0.0/16")
        .cluster_dns(&given)
        .expect_err("another range");
    assert!(
        error
            .to_string()
            .contains("10.50.0.53 is not in --service-cluster-ip-range 10.96.0.0/16")
    );
}

#[test]
fn rejects_overlapping_ranges_and_addresses_of_the_host() {
    let check = |pods: &[&str], host: &[&str]| flags("10.96.0.0/16").check_overlaps(&nets(pods), &ips(host));
    assert_eq!(check(&["10.244.0.0/16", "fd00:244::/48"], &["192.0.2.1"]), Ok(()));
    for pods in ["10.96.0.0/16", "10.96.7.0/24", "10.0.0.0/8"] {
        let error = check(&[pods], &[]).expect_err("an overlap").to_string();
        assert!(error.contains(pods) && error.contains("10.96.0.0/16"), "{error}");
    }
    let error = check(&["198.18.20.0/24"], &["198.18.20.1"]).expect_err("an overlap");
    assert!(error.to_string().contains("198.18.20.1, an address of this host"));
    assert!(check(&["10.244.0.0/16"], &["10.96.0.1"]).is_err());
}
