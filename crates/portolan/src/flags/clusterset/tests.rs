use clap::Parser;

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    set: ClusterSetFlags,
}

fn parse(flags: &[&str]) -> Result<ClusterSetFlags, clap::Error> {
    let line = CommandLine::try_parse_from(std::iter::once("test").chain(flags.iter().copied()));
    line.map(|line| line.set)
}

#[test]
fn grace_period_has_a_minimum() {
    let with = |period: &str| {
        let flag = format!("--clusterset-unreachable-grace-period={period}");
        parse(&["--cluster-id=east", &flag])
    };
    let shortest = with("10s").expect("a valid period");
    assert_eq!(shortest.clusterset_unreachable_grace_period, UNREACHABLE_AFTER);
    for period in ["0", "9s", "soon"] {
        let error = with(period).expect_err("an invalid period").to_string();
        assert!(error.contains("at least 10s"), "{error}");
    }
}

#[test]
fn flags_of_a_set_require_the_name_of_the_cluster() {
    for flag in [
        "--clusterset-unreachable-grace-period=1h",
        "--clusterset-kubeconfig=west=west.conf",
    ] {
        let error = parse(&[flag]).expect_err("a missing flag").to_string();
        assert!(error.contains("--cluster-id"), "{error}");
    }
    let default = parse(&[]).expect("no flag is required");
    assert_eq!(
        default.clusterset_unreachable_grace_period,
        Duration::from_secs(3_600)
    );
}
