use super::*;

#[test]
fn rejects_cidrs_with_host_bits() {
    assert!(parse_cidr("10.96.0.0/16").is_ok());
    assert!(parse_cidr("10.96.0.1/16").is_err_and(|error| error.to_string().contains("10.96.0.0/16")));
    assert!(parse_cidr("10.96.0.0").is_err());
}

#[test]
fn accepts_one_cidr_per_family() {
    let networks = |list: &[&str]| {
        let parsed: Result<Vec<IpNet>, CidrError> = list.iter().map(|text| parse_cidr(text)).collect();
        parsed.expect("valid CIDRs")
    };
    assert!(require_one_per_family(&networks(&["10.0.0.0/8", "fd00::/108"])).is_ok());
    assert!(require_one_per_family(&networks(&["10.0.0.0/8", "11.0.0.0/8"])).is_err());
    assert!(require_one_per_family(&[]).is_err());
}
