use super::*;

const KINDS: [BalancerKind; 5] = [
    BalancerKind::ClusterIp,
    BalancerKind::NodePort,
    BalancerKind::ExternalIp,
    BalancerKind::LoadBalancerIp,
    BalancerKind::HealthCheck,
];

fn plain(kind: BalancerKind) -> FlagFacts {
    FlagFacts {
        kind,
        family: Family::V4,
        is_local: false,
        preserves_destination: false,
        enable_dsr: false,
        supports_dsr: true,
    }
}

fn flags(change: impl Fn(&mut FlagFacts)) -> [(u32, u32); 5] {
    KINDS.map(|kind| {
        let mut facts = plain(kind);
        change(&mut facts);
        (facts.of_balancer(), facts.of_mapping())
    })
}

#[test]
fn flags_equal_those_of_upstream() {
    assert_eq!(flags(|_| {}), [(0, 0), (0, 18), (0, 16), (0, 16), (0, 0)]);
    assert_eq!(
        flags(|facts| facts.enable_dsr = true),
        [(1, 0), (0, 18), (0, 16), (0, 16), (0, 0)]
    );
    assert_eq!(
        flags(|facts| facts.is_local = true),
        [(0, 0), (1, 18), (1, 16), (1, 16), (0, 0)]
    );
    assert_eq!(
        flags(|facts| facts.preserves_destination = true),
        [(0, 0), (0, 18), (0, 16), (1, 28), (0, 12)]
    );
    assert_eq!(
        flags(|facts| facts.family = Family::V6),
        [(2, 0), (2, 18), (2, 16), (2, 16), (2, 0)]
    );
}

#[test]
fn hosts_without_direct_server_return_do_not_get_its_flags() {
    let all = |facts: &mut FlagFacts| {
        facts.enable_dsr = true;
        facts.is_local = true;
        facts.preserves_destination = true;
        facts.supports_dsr = false;
    };
    assert_eq!(flags(all), [(0, 0), (0, 18), (0, 16), (0, 16), (0, 0)]);
}
